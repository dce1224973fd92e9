// IQ4_NL: decode on the GPU
