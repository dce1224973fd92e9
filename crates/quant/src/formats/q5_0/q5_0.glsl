// Q5_0: decode on the GPU
