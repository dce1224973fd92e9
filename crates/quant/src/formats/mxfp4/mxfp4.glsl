// MXFP4: decode on the GPU
