//! The routes. Only this folder knows JSON.

pub mod chat;
mod chat_stream;
mod chat_types;
pub mod completions;
pub mod embeddings;
mod format;
mod generation;
pub mod health;
pub mod input;
pub mod messages;
mod messages_stream;
mod messages_types;
pub mod models;
pub mod openapi;
mod prompt;
pub mod responses;
mod responses_stream;
mod responses_types;
mod sampling;
mod sse;
pub mod tokens;
mod tools;
mod usage;
