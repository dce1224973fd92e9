//! The one error type of this crate. Every message names the thing it is about and, where it helps, what to do next.

use std::time::Duration;

/// What can go wrong between the loader and a finished submission.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The Vulkan loader (`libvulkan.so.1`, `vulkan-1.dll`) is missing or older than Vulkan 1.3.
    #[error(
        "no usable Vulkan loader: {detail}\nhint: install the Vulkan loader and a driver (Debian: `apt install libvulkan1 mesa-vulkan-drivers`)"
    )]
    NoLoader {
        /// What the system said.
        detail: String,
    },
    /// Validation was asked for and the Khronos layer is not installed.
    #[error(
        "the layer `VK_LAYER_KHRONOS_validation` is not installed\nhint: install it (Debian: `apt install vulkan-validationlayers`) or run without validation"
    )]
    NoValidationLayer,
    /// No device fits the wish; `reasons` has a line for each device.
    #[error(
        "no Vulkan device fits `{wish}`{}\nhint: `zinc devices` lists them; a software driver is used only when it is named",
        lines(reasons)
    )]
    NoDevice {
        /// The wish in words.
        wish: String,
        /// One line a device: why it was not chosen.
        reasons: Vec<String>,
    },
    /// The device lacks something that this runtime needs.
    #[error("the Vulkan device `{device}` cannot be used: {}\nhint: a driver for Vulkan 1.3 is needed", problems.join("; "))]
    Unusable {
        /// Name of the device.
        device: String,
        /// What is missing.
        problems: Vec<String>,
    },
    /// A single buffer above what the device allows.
    #[error("`{label}`: {bytes} bytes ({}) in one buffer, the device allows {limit} ({})\nhint: split it over the chunks of an arena", gib(*bytes), gib(*limit))]
    TooLarge {
        /// What was to be allocated.
        label: String,
        /// Bytes asked for.
        bytes: u64,
        /// The smaller of `maxMemoryAllocationSize` and `maxBufferSize` (or the arena's own chunk limit).
        limit: u64,
    },
    /// The device has no memory left.
    #[error("`{label}`: out of memory: {} asked for, {} free, {} short\nhint: use a smaller context or model, or close what else uses this device", gib(*bytes), gib(*available), gib(bytes.saturating_sub(*available)))]
    OutOfMemory {
        /// What was to be allocated.
        label: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that were free, by the driver's budget where it tells one.
        available: u64,
    },
    /// Bytes outside a buffer or slice, or of the wrong length or alignment.
    #[error("`{label}`: {reason}")]
    Range {
        /// The buffer.
        label: String,
        /// What was asked and what there is.
        reason: String,
    },
    /// The host asked for the contents of a buffer that it cannot reach.
    #[error(
        "`{label}` lies in device memory, which the host does not read or write\nhint: use `Device::download` and `Device::upload`, a staging ring, or copy to a readback buffer"
    )]
    NotHostVisible {
        /// The buffer.
        label: String,
    },
    /// A pipeline that this device cannot have, or a module that does not fit its description.
    #[error("pipeline `{name}`: {reason}")]
    Pipeline {
        /// The pipeline.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// An operation that cannot be recorded.
    #[error("`{op}`: {reason}")]
    Record {
        /// The label of the operation.
        op: String,
        /// What does not fit.
        reason: String,
    },
    /// Commands that are still being executed were submitted again.
    #[error("`{label}` is still being executed\nhint: wait for its ticket, or record it with `simultaneous`")]
    InFlight {
        /// The label of the commands.
        label: String,
    },
    /// The work did not finish in time. The device may still be busy with it.
    #[error("`{what}` did not finish within {} s\nhint: a hung or overloaded device; smaller submissions help where a watchdog is near", timeout.as_secs_f32())]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        timeout: Duration,
    },
    /// The driver gave the device up (reset, unplugged, crashed). Nothing more can be done with this device object.
    #[error(
        "the device was lost in `{what}`\nhint: the driver reset it; see the kernel log, then open the device again"
    )]
    DeviceLost {
        /// The call that noticed it.
        what: String,
    },
    /// Any other error code of Vulkan.
    #[error("`{what}`: Vulkan said {result}")]
    Vulkan {
        /// The call.
        what: String,
        /// The error code's name.
        result: String,
    },
}

fn lines(reasons: &[String]) -> String {
    reasons.iter().map(|r| format!("\n  {r}")).collect()
}

/// Bytes in words, for messages: GiB with two digits, MiB below a tenth of one.
pub(crate) fn gib(bytes: u64) -> String {
    const MIB: f64 = 1048576.0;
    let mib = bytes as f64 / MIB;
    if mib < 100.0 { format!("{mib:.2} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}
