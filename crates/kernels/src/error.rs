//! What can go wrong between an operation and its dispatch.

/// There is no kernel for this operation as asked. The planner shows it to the user; nothing is attempted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no kernel for `{op}`{}: {reason}", format.as_ref().map(|f| format!(" with {f}")).unwrap_or_default())]
pub struct Unsupported {
    /// The operation.
    pub op: &'static str,
    /// The weight format, where there is one.
    pub format: Option<&'static str>,
    /// What the kernel cannot do.
    pub reason: String,
}

/// An operation that could not be recorded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No kernel.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The device or its runtime.
    #[error(transparent)]
    Vulkan(#[from] zinc_vulkan::Error),
}
