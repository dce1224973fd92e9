// Q5_1: decode on the GPU
