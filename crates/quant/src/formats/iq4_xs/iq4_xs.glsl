// IQ4_XS: decode on the GPU
