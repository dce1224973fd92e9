//! Tokenizers, detokenising and chat templates.
