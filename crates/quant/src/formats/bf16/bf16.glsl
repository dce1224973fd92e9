// BF16: decode on the GPU
