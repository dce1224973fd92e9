// Q4_K: decode on the GPU
