//! `Rope`.

use crate::parallel::rows_from;
use crate::values::View;
use zinc_plan::{Pairing, RopeTable, Row};

/// Cosine and sine of each rotated pair, for each row of a batch.
pub(crate) struct Angles {
    pairs: usize,
    cos_sin: Vec<(f32, f32)>,
}

impl Angles {
    pub(crate) fn new(table: &RopeTable, rows: &[Row]) -> Self {
        let cos_sin = rows.iter().flat_map(|row| table.cos_sin(row.position)).collect();
        Angles { pairs: table.inverse_frequencies.len(), cos_sin }
    }
}

/// Turns the first `2·pairs` dimensions of each head by the row's position; the rest is copied.
pub(crate) fn rope(x: View, head_size: usize, angles: &Angles, pairing: Pairing) -> Vec<f32> {
    let pairs = angles.pairs;
    rows_from(x.rows, x.width, |row, out| {
        out.copy_from_slice(x.row(row));
        let turns = &angles.cos_sin[row * pairs..][..pairs];
        for head in out.chunks_exact_mut(head_size) {
            for (i, &(cos, sin)) in turns.iter().enumerate() {
                let (first, second) = match pairing {
                    Pairing::Adjacent => (2 * i, 2 * i + 1),
                    Pairing::Halves => (i, i + pairs),
                };
                let (a, b) = (head[first], head[second]);
                head[first] = a * cos - b * sin;
                head[second] = a * sin + b * cos;
            }
        }
    })
}
