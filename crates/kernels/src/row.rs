//! Rows of a batch on the device.

use bytemuck::{Pod, Zeroable};

/// What kernels know of a row: an array of these, in the order of the rows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct RowInfo {
    /// Id of the row's token.
    pub token: u32,
    /// Its position in its sequence, from 0.
    pub position: u32,
    /// Slot of its sequence: which line of the page table, which recurrent state.
    pub sequence: u32,
    /// Reserved, 0.
    pub flags: u32,
}

impl RowInfo {
    /// Bytes of a row in the array.
    pub const BYTES: u64 = size_of::<RowInfo>() as u64;
}
