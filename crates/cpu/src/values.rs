//! Rows of numbers: what operations read and write.

/// Columns of the rows of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) data: &'a [f32],
    /// Elements from row to row.
    pub(crate) stride: usize,
    /// First column.
    pub(crate) first: usize,
    /// Columns.
    pub(crate) width: usize,
    pub(crate) rows: usize,
}

impl<'a> View<'a> {
    /// A row's columns.
    pub(crate) fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.stride + self.first..][..self.width]
    }
}

/// The output of an operation, as an observer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// Rows one after the other, `width` elements each.
    pub data: &'a [f32],
    /// Elements of a row.
    pub width: usize,
}

impl<'a> Values<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.width
    }

    /// A row.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.width..][..self.width]
    }
}

/// Logits of the rows of a batch that wanted them, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    pub(crate) values: Vec<f32>,
    pub(crate) vocab: usize,
}

impl Logits {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.vocab
    }

    /// Logits of the `row`-th row that wanted them, an element a token of the vocabulary.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.vocab..][..self.vocab]
    }

    /// All rows one after the other.
    pub fn into_vec(self) -> Vec<f32> {
        self.values
    }
}
