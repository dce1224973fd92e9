//! The server over real HTTP, with the tiny models.

mod api;
mod common;
mod company;
mod constrain;
mod hostile;
mod load;
mod messages;
mod page;
mod responses;
mod streams;
mod tools;
#[cfg(feature = "fault-injection")]
mod validate;
