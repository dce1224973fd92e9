//! Scratch memory by lifetime, without false dependencies.
//!
//! Steps that do not depend on each other share a barrier epoch. A buffer's lifetime is counted in epochs, not in steps: memory
//! that was freed within an epoch is not given out again in the same one, so reuse never forces a barrier between independent
//! steps (q, k and v, or gate and up).

use super::{Shape, Step};
use zinc_plan::{Act, ActId, Cols, KvId, Plan};

/// Bytes that every buffer's start is a multiple of: the widest loads, and whole cache lines.
const ALIGN: u64 = 256;

/// Where an activation buffer lies in the scratch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Byte offset of row 0, column 0.
    pub offset: u64,
    /// f32 elements from a row to the next.
    pub stride: u32,
    /// Rows.
    pub rows: u32,
}

impl Place {
    /// Where what belongs to the rows as a whole begins: a choice's lists.
    pub fn behind(&self) -> u64 {
        self.offset + (u64::from(self.stride) * u64::from(self.rows) * 4).next_multiple_of(ALIGN)
    }
}

/// Places of all activation buffers of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// By `ActId`; `None` for buffers that fusion removed.
    pub places: Vec<Option<Place>>,
    /// Bytes in all.
    pub bytes: u64,
    /// Barriers that the steps need: one before each epoch but the first.
    pub epochs: u32,
}

/// A buffer that is a part of another one: the rows that want logits, which lie next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alias {
    pub act: ActId,
    pub of: Cols,
    pub first_row: u32,
}

impl Alias {
    /// Columns of the buffer as those of the other one.
    pub fn resolve(&self, c: Cols) -> Cols {
        Cols { act: self.of.act, first: self.of.first + c.first, width: c.width }
    }
}

/// Assigns memory to the plan's buffers and to `packed` ones behind them; `reuse` off gives every buffer its own. Some buffers are parts of
/// others, some have bytes behind their rows.
pub(super) fn assign(
    plan: &Plan,
    packed: &[Act],
    steps: &[Step],
    (aliases, behind): (&[Alias], &[(ActId, u64)]),
    shape: Shape,
    reuse: bool,
) -> Scratch {
    let acts: Vec<&Act> = plan.acts.iter().chain(packed).collect();
    let resolve = |c: Cols| match aliases.iter().find(|a| a.act == c.act) {
        Some(a) => a.resolve(c),
        None => c,
    };
    let (epochs, count) = epochs(steps, &resolve);
    let mut lives: Vec<Option<(u32, u32)>> = vec![None; acts.len()];
    for (step, &epoch) in steps.iter().zip(&epochs) {
        for c in step.call.reads().into_iter().chain(step.call.writes()) {
            let life = lives[resolve(c).act.index()].get_or_insert((epoch, epoch));
            life.1 = epoch;
        }
        if let Some(work) = step.work {
            lives[work.index()] = Some((epoch, epoch));
        }
    }
    // Read by the tail and by the host; choices of experts, small as they are, by whoever wants to know them.
    let choices = steps.iter().filter_map(|s| s.call.choice()).map(|(_, out)| out);
    for kept in plan.kept().chain(choices) {
        if let Some(life) = &mut lives[resolve(kept).act.index()] {
            life.1 = u32::MAX;
        }
    }
    let row_count = |id: usize| shape.of(acts[id].rows);
    let bytes = |id: usize| {
        let place = Place { offset: 0, stride: acts[id].width, rows: row_count(id) };
        let more: u64 = behind.iter().filter(|b| b.0.index() == id).map(|b| b.1).sum();
        (place.behind() + more).next_multiple_of(ALIGN)
    };
    let mut order: Vec<usize> = (0..lives.len()).filter(|&i| lives[i].is_some()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(bytes(i)), i));
    let mut places: Vec<Option<Place>> = vec![None; lives.len()];
    let mut taken: Vec<(u64, u64, (u32, u32))> = Vec::new();
    let mut total = 0;
    for id in order {
        let (Some(life), size) = (lives[id], bytes(id)) else { continue };
        let mut busy: Vec<(u64, u64)> = taken
            .iter()
            .filter(|(_, _, other)| !reuse || (life.0 <= other.1 && other.0 <= life.1))
            .map(|&(start, end, _)| (start, end))
            .collect();
        busy.sort_unstable();
        let mut offset = 0;
        for (start, end) in busy {
            if offset + size <= start {
                break;
            }
            offset = offset.max(end);
        }
        taken.push((offset, offset + size, life));
        total = total.max(offset + size);
        places[id] = Some(Place { offset, stride: acts[id].width, rows: row_count(id) });
    }
    for a in aliases {
        places[a.act.index()] = places[a.of.act.index()].map(|p| Place {
            offset: p.offset + (u64::from(a.first_row) * u64::from(p.stride) + u64::from(a.of.first)) * 4,
            stride: p.stride,
            rows: shape.logit_rows,
        });
    }
    Scratch { places, bytes: total, epochs: count }
}

/// The epoch of each step by true dependencies alone, and how many there are.
fn epochs(steps: &[Step], resolve: &dyn Fn(Cols) -> Cols) -> (Vec<u32>, u32) {
    let mut epoch = 0;
    let (mut written, mut read): (Vec<Cols>, Vec<Cols>) = (vec![], vec![]);
    let mut kv: Vec<(KvId, bool)> = vec![];
    let of_step = |step: &Step| {
        let reads: Vec<Cols> = step.call.reads().into_iter().map(resolve).collect();
        let writes: Vec<Cols> = step.call.writes().into_iter().map(resolve).collect();
        let touched = step.call.cache();
        let meets = |a: &[Cols], b: &[Cols]| a.iter().any(|x| b.iter().any(|y| x.overlaps(*y)));
        let same_cache =
            touched.is_some_and(|(id, w)| kv.iter().any(|&(other, written)| other == id && (w || written)));
        if meets(&reads, &written) || meets(&writes, &written) || meets(&writes, &read) || same_cache {
            epoch += 1;
            written.clear();
            read.clear();
            kv.clear();
        }
        written.extend(writes);
        read.extend(reads);
        kv.extend(touched);
        epoch
    };
    let list: Vec<u32> = steps.iter().map(of_step).collect();
    let count = list.last().map_or(0, |e| e + 1);
    (list, count)
}
