//! What a sequence of tokens leaves behind: KV caches and recurrent states.

use zinc_plan::{KvId, Plan, StateId};

/// The state of one sequence, made by [`crate::Cpu::new_sequence`]. A clone is a snapshot to return to.
#[derive(Debug, Clone)]
pub struct Sequence {
    pub(crate) len: u32,
    max_context: u32,
    /// By `KvId`.
    pub(crate) kv: Vec<Kv>,
    /// By `StateId`.
    pub(crate) states: Vec<Vec<f32>>,
}

/// A layer's keys and values, position after position; it grows with the sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kv {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
    /// Elements a position.
    pub(crate) key_width: usize,
    pub(crate) value_width: usize,
}

impl Kv {
    /// Stores keys and values at a position.
    pub(crate) fn write(&mut self, position: usize, k: &[f32], v: &[f32]) {
        put(&mut self.keys, position, k);
        put(&mut self.values, position, v);
    }
}

fn put(cache: &mut Vec<f32>, position: usize, x: &[f32]) {
    let at = position * x.len();
    if cache.len() < at + x.len() {
        cache.resize(at + x.len(), 0.0);
    }
    cache[at..at + x.len()].copy_from_slice(x);
}

impl Sequence {
    pub(crate) fn new(plan: &Plan, max_context: u32) -> Self {
        let kv = plan.kv.iter().map(|s| Kv {
            keys: vec![],
            values: vec![],
            key_width: s.heads as usize * s.key_size as usize,
            value_width: s.heads as usize * s.value_size as usize,
        });
        let states = plan.states.iter().map(|s| vec![0.0; s.elements()]);
        Sequence { len: 0, max_context, kv: kv.collect(), states: states.collect() }
    }

    /// Tokens it holds: the position of its next row.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds no token.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Tokens it can hold.
    pub fn max_context(&self) -> u32 {
        self.max_context
    }

    /// The keys that a layer's cache holds at a position below [`Sequence::len`], head after head.
    pub fn keys(&self, kv: KvId, position: usize) -> &[f32] {
        let kv = &self.kv[kv.index()];
        &kv.keys[position * kv.key_width..][..kv.key_width]
    }

    /// The values, as [`Sequence::keys`].
    pub fn values(&self, kv: KvId, position: usize) -> &[f32] {
        let kv = &self.kv[kv.index()];
        &kv.values[position * kv.value_width..][..kv.value_width]
    }

    /// A recurrent state, as it is after the last token: of a convolution `[taps − 1][channels]`, of a delta net `[head][value][key]`.
    pub fn state(&self, id: StateId) -> &[f32] {
        &self.states[id.index()]
    }

    /// Forgets tokens from the end, so that at most `len` are left, and returns how many are left.
    ///
    /// A recurrent state can not be taken back: where the model has one, the sequence is emptied instead.
    pub fn truncate(&mut self, len: u32) -> u32 {
        if len < self.len {
            self.len = if self.states.is_empty() { len } else { 0 };
            for kv in &mut self.kv {
                kv.keys.truncate(self.len as usize * kv.key_width);
                kv.values.truncate(self.len as usize * kv.value_width);
            }
            if self.len == 0 {
                self.states.iter_mut().for_each(|s| s.fill(0.0));
            }
        }
        self.len
    }

    /// Whether it was made for this plan.
    pub(crate) fn fits(&self, plan: &Plan) -> bool {
        let kv = self.kv.iter().map(|kv| (kv.key_width, kv.value_width));
        let widths = plan.kv.iter().map(|s| {
            let heads = s.heads as usize;
            (heads * s.key_size as usize, heads * s.value_size as usize)
        });
        kv.eq(widths) && self.states.iter().map(Vec::len).eq(plan.states.iter().map(|s| s.elements()))
    }
}
