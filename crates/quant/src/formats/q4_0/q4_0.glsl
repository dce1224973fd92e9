// Q4_0: decode on the GPU
