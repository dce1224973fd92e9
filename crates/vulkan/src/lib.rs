//! A small Vulkan compute runtime: devices, arenas, pipelines, a recorder that derives barriers.
//!
//! It knows nothing of models. Three decisions shape it:
//!
//! - Vulkan 1.3 is the floor, and every buffer reaches a shader as a 64-bit address in the push constants
//!   (`GL_EXT_buffer_reference`). There are no descriptors, hence no binding limits. A push constant block is
//!   `[u64 address; bindings][params]`, at most 128 bytes in all.
//! - An operation declares what it reads and writes, and the recorder itself puts those addresses into the push
//!   constants. Nothing can be passed undeclared, and every barrier is derived.
//! - Commands are recorded once and submitted as often as wanted; they keep what they use alive.
//!
//! ```no_run
//! use zinc_vulkan::*;
//! # fn main() -> Result<(), Error> {
//! # let spirv: Vec<u32> = vec![];
//! let instance = Instance::new(&InstanceOptions::default())?;
//! let choice = choose(&instance.devices(), &DeviceWish::Auto, true)?;
//! let device = Device::open(&instance, choice.index, &DeviceOptions::default())?;
//! let x = device.alloc(MemoryKind::Device, 4096, "x")?.all();
//! let y = device.alloc(MemoryKind::Device, 4096, "y")?.all();
//! device.upload(&x, &[0; 4096])?;
//! let double = device.pipeline(&PipelineDesc {
//!     name: "double",
//!     spirv: &spirv,
//!     entry: "main",
//!     specialization: &[(0, 64)],
//!     subgroup_size: None,
//!     bindings: 2,
//!     params_bytes: 4,
//! })?;
//! let mut recorder = device.recorder(&RecorderOptions { label: "step".into(), ..Default::default() })?;
//! recorder.dispatch(&Dispatch {
//!     pipeline: &double,
//!     bindings: &[Binding::read(&x), Binding::write(&y)],
//!     params: &1024u32.to_le_bytes(),
//!     groups: [16, 1, 1],
//!     label: "double",
//! })?;
//! let commands = recorder.finish()?;
//! device.submit(&[&commands])?.wait()?;
//! let bytes = device.download(&y)?;
//! # Ok(()) }
//! ```
#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod arena;
mod buffer;
mod cache;
mod capabilities;
mod choose;
mod commands;
mod device;
mod dispatch;
mod error;
mod hazards;
mod instance;
mod memory;
mod pipeline;
mod probe;
mod recorder;
pub mod spirv;
mod staging;
mod statistics;
mod submit;
pub mod testing;

pub use arena::{Arena, ArenaPlan, Placement};
pub use buffer::{Buffer, Slice};
pub use capabilities::*;
pub use choose::{Choice, DeviceWish, choose};
pub use commands::{Commands, Stats, Timing};
pub use device::{CacheLocation, Device, DeviceOptions};
pub use dispatch::{Binding, Dispatch, DispatchIndirect};
pub use error::Error;
pub use hazards::{Access, Hazards, Touch};
pub use instance::{Instance, InstanceOptions, ValidationLog};
pub use memory::MemoryKind;
pub use pipeline::{Pipeline, PipelineDesc};
pub use recorder::{Recorder, RecorderOptions};
pub use staging::StagingRing;
pub use submit::Ticket;
