//! What operations name: indices into the tables of a [`crate::Plan`], and column ranges of activations.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An activation buffer: `Plan::acts`.
    ActId
    /// A weight tensor: `Plan::weights`.
    WeightId
    /// A table of rotary frequencies: `Plan::ropes`.
    RopeId
    /// A layer's KV cache: `Plan::kv`.
    KvId
    /// A layer's recurrent state: `Plan::states`.
    StateId
}

/// Columns `first .. first + width` of every row of an activation buffer.
///
/// The rows of `act` lie `Plan::acts[act].width` elements apart, so a fused projection can be written once and read in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cols {
    /// The buffer.
    pub act: ActId,
    /// First column.
    pub first: u32,
    /// Number of columns.
    pub width: u32,
}

impl Cols {
    /// The part `first .. first + width` of these columns.
    pub fn part(self, first: u32, width: u32) -> Cols {
        debug_assert!(first + width <= self.width);
        Cols { act: self.act, first: self.first + first, width }
    }

    /// Whether two column ranges share an element of a row.
    pub fn overlaps(self, other: Cols) -> bool {
        self.act == other.act
            && self.first < other.first + other.width
            && other.first < self.first + self.width
    }
}
