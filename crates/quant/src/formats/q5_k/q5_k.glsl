// Q5_K: decode on the GPU
