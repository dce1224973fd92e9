// Q6_K: decode on the GPU
