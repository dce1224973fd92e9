//! Reads and writes the GGUF container.
