//! Compute kernels: GLSL, dispatch, scalar reference and test of each side by side.
