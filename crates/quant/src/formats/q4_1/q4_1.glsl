// Q4_1: decode on the GPU
