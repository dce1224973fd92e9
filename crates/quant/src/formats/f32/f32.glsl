// F32: decode on the GPU
