//! From GGUF metadata to a Plan: ModelSpec, lowering, one file an architecture family.
