//! Tiles that are not those of the policy: to measure them.

use super::tile::{MOST_SUMS, select_shaped};
use super::{ProductClass, Tile, Tuned, select};
use crate::policy::GemvShape;
use crate::{Policy, Unsupported};
use std::sync::Arc;

/// How products are cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cut {
    /// As the device's policy says.
    #[default]
    Policy,
    /// As was measured on the device; what was not, as the policy says. The bits of results stay.
    Tuned(Arc<Tuned>),
    /// With at most so many columns a workgroup, and weight rows a team if they are given; the rest as the policy says. The bits of
    /// results stay.
    Workgroup {
        /// Columns, 1 to 64.
        columns: u32,
        /// Rows, 1 to 64.
        rows: Option<u32>,
    },
    /// Products of several columns the serial-K way: an invocation walks the whole of its row, so sums have another order. No policy takes it.
    SerialK {
        /// Columns of a workgroup at most, 1 to 64.
        columns: u32,
    },
}

impl Cut {
    /// The tile of a product, as [`select`] gives it for the policy's own way.
    ///
    /// # Errors
    /// As [`select`].
    pub fn tile(&self, policy: &Policy, class: &ProductClass, columns: u32) -> Result<Tile, Unsupported> {
        let own = select(policy, class, columns)?;
        match self {
            Cut::Policy => Ok(own),
            Cut::Tuned(tuned) => match tuned.shape(class, columns) {
                Some(shape) => select_shaped(policy, shape, class, columns),
                None => Ok(own),
            },
            &Cut::Workgroup { columns: most, rows } => {
                let most = most.clamp(1, 64);
                let shape = policy.gemv.shape(most.min(columns), class.gated);
                let rows = rows.unwrap_or(shape.rows.min(MOST_SUMS / most)).clamp(1, 64);
                select_shaped(policy, &GemvShape { columns: most, rows, ..*shape }, class, columns)
            }
            Cut::SerialK { .. } if columns == 1 => Ok(own),
            &Cut::SerialK { columns: most } => Ok(Tile::serial(1, columns, most.clamp(1, 64))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_quant::by_name;
    use zinc_vulkan::Capabilities;

    #[test]
    fn only_serial_k_changes_the_order_of_sums() {
        let mut caps = Capabilities::default();
        caps.subgroup.size = 32;
        let format = by_name("Q4_K").expect("a format of the list");
        for vendor in [0x10de, 0x1002, 0] {
            caps.vendor_id = vendor;
            let policy = Policy::of(&caps);
            for (m, k) in [(1024, 4096), (4096, 12_288), (151_936, 1024)] {
                let class = ProductClass { format, m, k, gated: false };
                for columns in [1, 7, 64, 500] {
                    let tile = |cut: Cut| cut.tile(&policy, &class, columns).unwrap();
                    let own = tile(Cut::Policy);
                    for (most, rows) in [(1, None), (8, None), (64, None), (16, Some(3))] {
                        let other = tile(Cut::Workgroup { columns: most, rows });
                        assert_eq!((other.lanes, other.parts), (own.lanes, own.parts));
                        assert!(other.columns <= most && rows.is_none_or(|r| other.rows == r), "{other:?}");
                    }
                    let serial = tile(Cut::SerialK { columns: 8 });
                    assert_eq!(serial.lanes == 1, columns > 1);
                }
            }
        }
    }
}
