//! Scalar oracle of the rotation.

use crate::RowInfo;
use crate::suite::Host;
use zinc_plan::Pairing;

/// Turns the first `2 · rotated_pairs` dimensions of each head; `table` is `[position][rotated_pairs]` of (cos, sin).
pub fn rope(
    x: &Host,
    head_size: usize,
    table: &[[f32; 2]],
    rotated_pairs: usize,
    pairing: Pairing,
    rows: &[RowInfo],
) -> Host {
    let mut out = x.clone();
    for (r, row) in rows.iter().enumerate() {
        let angles = &table[row.position as usize * rotated_pairs..][..rotated_pairs];
        for head in out.data[r * x.width..(r + 1) * x.width].chunks_exact_mut(head_size) {
            for (i, &[cos, sin]) in angles.iter().enumerate() {
                let (a, b) = match pairing {
                    Pairing::Adjacent => (2 * i, 2 * i + 1),
                    Pairing::Halves => (i, i + rotated_pairs),
                };
                let (xa, xb) = (f64::from(head[a]), f64::from(head[b]));
                let (cos, sin) = (f64::from(cos), f64::from(sin));
                head[a] = (xa * cos - xb * sin) as f32;
                head[b] = (xa * sin + xb * cos) as f32;
            }
        }
    }
    out
}
