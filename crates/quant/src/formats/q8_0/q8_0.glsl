// Q8_0: decode on the GPU
