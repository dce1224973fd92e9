//! What a dispatch is made of, and the push constants that come of it.

use crate::{Access, Error, Pipeline, Slice, Touch};

/// A slice and how an operation touches it.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// The bytes. The shader gets the address of the first.
    pub slice: &'a Slice,
    /// What the shader does with them.
    pub access: Access,
}

impl<'a> Binding<'a> {
    /// The shader only reads it.
    pub fn read(slice: &'a Slice) -> Self {
        Binding { slice, access: Access::Read }
    }

    /// The shader only writes it.
    pub fn write(slice: &'a Slice) -> Self {
        Binding { slice, access: Access::Write }
    }

    /// The shader reads and writes it.
    pub fn read_write(slice: &'a Slice) -> Self {
        Binding { slice, access: Access::ReadWrite }
    }
}

/// A compute dispatch.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<'a> {
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// What it touches, in the order of the addresses at the start of its push constants.
    pub bindings: &'a [Binding<'a>],
    /// The bytes after the addresses; exactly as many as the pipeline was described with.
    pub params: &'a [u8],
    /// Workgroups in x, y, z. A zero records nothing.
    pub groups: [u32; 3],
    /// Name, for messages and timings.
    pub label: &'a str,
}

/// A compute dispatch whose workgroup counts lie in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct DispatchIndirect<'a> {
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// As in [`Dispatch`].
    pub bindings: &'a [Binding<'a>],
    /// As in [`Dispatch`].
    pub params: &'a [u8],
    /// 12 bytes: three u32 workgroup counts, each within the device's limit.
    pub groups: &'a Slice,
    /// As in [`Dispatch`].
    pub label: &'a str,
}

/// One declared access of an operation.
pub(crate) fn touch(slice: &Slice, access: Access) -> Touch {
    Touch { buffer: slice.buffer().inner.id, range: slice.range(), access }
}

/// The block `[u64 address; bindings][params]`, padded to whole words.
pub(crate) fn push_constants(
    p: &Pipeline,
    bindings: &[Binding<'_>],
    params: &[u8],
    op: &str,
) -> Result<Vec<u8>, Error> {
    let refuse = |reason: String| Err(Error::Record { op: op.into(), reason });
    let name = p.name();
    if bindings.len() != p.inner.bindings as usize {
        return refuse(format!("{} bindings, pipeline `{name}` takes {}", bindings.len(), p.inner.bindings));
    }
    if params.len() != p.inner.params_bytes as usize {
        return refuse(format!(
            "{} bytes of params, pipeline `{name}` takes {}",
            params.len(),
            p.inner.params_bytes
        ));
    }
    let mut push = Vec::with_capacity(crate::pipeline::PUSH_CONSTANTS as usize);
    for b in bindings {
        if !b.slice.address().is_multiple_of(4) {
            let (label, offset) = (b.slice.buffer().label(), b.slice.offset());
            return refuse(format!("`{label}` at {offset} is not at a multiple of 4 bytes"));
        }
        push.extend_from_slice(&b.slice.address().to_le_bytes());
    }
    push.extend_from_slice(params);
    push.resize(push.len().next_multiple_of(4), 0);
    Ok(push)
}
