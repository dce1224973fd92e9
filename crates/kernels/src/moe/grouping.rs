//! How the slots of rows are grouped by expert.

use crate::gemv::ProductClass;
use crate::launch::refuse;
use crate::{Policy, Unsupported};

/// Most experts that rows choose from: what `pack` counts in shared memory.
const MOST_EXPERTS: u32 = 1024;
/// Most columns of a tile of [`Grouping::of`].
const MOST_COLUMNS: u32 = 16;
/// Most workgroups in a grid's z.
const MOST_TILES: u32 = 65_535;

/// The slots of a batch of rows: `rows · top_k` of them, slot s of row r being number `r · top_k + s`.
///
/// A single row has its slots as the choice lists them. More rows are packed: the lists are a header (number of tiles), tiles (expert, first
/// place, places), each of four u32, and the slots' numbers, those of an expert side by side and ascending, experts ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grouping {
    /// Experts to choose from.
    pub experts: u32,
    /// Experts that a row uses.
    pub top_k: u32,
    /// Rows.
    pub rows: u32,
    /// Slots of a tile at most; 0: not packed.
    tile: u32,
}

impl Grouping {
    /// For a batch. The tile is as wide as an expert has slots in the mean, as far as the kernel of columns takes them.
    ///
    /// # Errors
    /// [`Unsupported`] for numbers that `pack` cannot handle.
    pub fn of(policy: &Policy, experts: u32, top_k: u32, rows: u32) -> Result<Grouping, Unsupported> {
        let slots = Grouping { experts, top_k, rows, tile: 0 };
        slots.check()?;
        let mean = slots.mean().next_power_of_two().min(MOST_COLUMNS);
        let tile = if rows == 1 { 0 } else { mean.min(policy.gemv.shape(mean, false).columns) };
        Grouping { tile, ..slots }.checked()
    }

    /// For a batch whose tiles shall have so many slots.
    ///
    /// # Errors
    /// As [`Grouping::of`].
    pub fn tiled(columns: u32, experts: u32, top_k: u32, rows: u32) -> Result<Grouping, Unsupported> {
        let grouping = Grouping { experts, top_k, rows, tile: columns };
        grouping.check()?;
        grouping.checked()
    }

    fn check(&self) -> Result<(), Unsupported> {
        let &Grouping { experts, top_k, rows, .. } = self;
        if top_k == 0 || experts < top_k || experts > MOST_EXPERTS {
            return refuse("route", format!("{top_k} of {experts} experts, {MOST_EXPERTS} at most"));
        }
        match rows.checked_mul(top_k) {
            Some(_) => Ok(()),
            None => refuse("route", format!("{rows} rows of {top_k} slots")),
        }
    }

    fn checked(self) -> Result<Grouping, Unsupported> {
        if self.batches() > MOST_TILES {
            return refuse("route", format!("{} slots in more than {MOST_TILES} tiles", self.pairs()));
        }
        Ok(self)
    }

    /// Slots of an expert in the mean.
    pub fn mean(&self) -> u32 {
        self.pairs().div_ceil(self.experts)
    }

    /// Experts whose matrices are read, at most.
    pub fn used(&self) -> u32 {
        self.experts.min(self.pairs())
    }

    /// That a kernel's workgroups have as many columns as a tile has slots: it reads the slots of a tile alone.
    pub(crate) fn fits(
        &self,
        op: &'static str,
        class: &ProductClass,
        columns: u32,
    ) -> Result<(), Unsupported> {
        if columns == self.columns() {
            return Ok(());
        }
        let reason = format!("{columns} columns a workgroup for tiles of {} slots", self.columns());
        Err(Unsupported { op, format: Some(class.format.name), reason })
    }

    /// Slots of all rows.
    pub fn pairs(&self) -> u32 {
        self.rows * self.top_k
    }

    /// Whether products read the lists that `pack` makes.
    pub fn is_packed(&self) -> bool {
        self.tile != 0
    }

    /// Columns of a product's workgroup.
    pub fn columns(&self) -> u32 {
        self.tile.max(1)
    }

    /// Tiles, or slots where they are not packed, at most: where as many experts as can be have one slot more than whole tiles.
    pub fn batches(&self) -> u32 {
        let (slots, columns) = (self.pairs(), self.columns());
        let most = (u64::from(slots) + u64::from(self.used()) * u64::from(columns - 1)) / u64::from(columns);
        slots.min(most as u32)
    }

    /// Where the slots' numbers begin in the lists, in u32.
    pub fn pairs_at(&self) -> u32 {
        4 * (1 + self.batches())
    }

    /// Bytes of the lists; 0 where there are none.
    pub fn list_bytes(&self) -> u64 {
        if self.is_packed() { 4 * (u64::from(self.pairs_at()) + u64::from(self.pairs())) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_vulkan::Capabilities;

    #[test]
    fn there_is_room_for_the_most_tiles() {
        let mut caps = Capabilities::default();
        caps.subgroup.size = 32;
        for vendor in [0x10de, 0x1002, 0] {
            caps.vendor_id = vendor;
            let policy = Policy::of(&caps);
            for (experts, top_k) in [(1, 1), (6, 3), (256, 8), (512, 10)] {
                for rows in [2, 3, 16, 77, 512] {
                    let g = Grouping::of(&policy, experts, top_k, rows).unwrap();
                    let c = g.columns();
                    assert!(c <= policy.gemv.shape(c, false).columns, "tiles are not cut again");
                    // One slot more than whole tiles for as many experts as there can be, the rest for the first.
                    let mut left = g.pairs();
                    let mut tiles = 0;
                    for _ in 0..experts.min(left) {
                        tiles += 1;
                        left -= 1;
                    }
                    tiles += left / c;
                    assert!(g.batches() >= tiles, "{g:?}: {tiles} tiles");
                    assert!(g.batches() <= tiles + 1, "{g:?}: {tiles} tiles");
                }
            }
        }
        let policy = Policy::of(&caps);
        assert!(Grouping::of(&policy, 4, 5, 1).is_err() && Grouping::of(&policy, 2000, 5, 1).is_err());
        assert!(!Grouping::of(&policy, 256, 8, 1).unwrap().is_packed());
    }
}
