//! Quantised block formats: layout, decode, encode and the GLSL that decodes them on a GPU.
