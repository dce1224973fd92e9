//! `Embed`.

use crate::parallel::rows_from;
use crate::weights::Matrix;
use zinc_plan::Row;

/// `table[token] · scale`.
pub(crate) fn embed(rows: &[Row], table: Matrix, scale: f32) -> Vec<f32> {
    rows_from(rows.len(), table.k, |row, out| {
        table.decode(rows[row].token as usize, out);
        out.iter_mut().for_each(|v| *v *= scale);
    })
}
