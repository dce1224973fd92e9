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
#[cfg(feature = "fault-injection")]
mod validate;
