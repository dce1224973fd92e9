// Q3_K: decode on the GPU
