// Q2_K: decode on the GPU
