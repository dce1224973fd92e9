// F16: decode on the GPU
