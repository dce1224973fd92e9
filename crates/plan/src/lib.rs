//! Op and Plan: the leaf that model, kernels and executors share.
