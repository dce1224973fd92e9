//! Faults on purpose, for the tests of validate mode: after a call, one element of its output is replaced.

use super::record::Recording;
use super::{Executor, KvType};
use crate::compile::{Call, Step};
use crate::validate::Fault;
use crate::{Error, Sequence};
use zinc_plan::{Cols, Op};
use zinc_vulkan::{Buffer, MemoryKind, Recorder, Slice};

/// What the element becomes: far from any activation, and a number in f16 too.
const SPOILED: f32 = 300.0;

/// The packing of slots as a kind of operation: a part of `Route`.
const PACK: &str = "/pack";

/// A fault in the steps of one chunk.
pub struct Spoil {
    /// The operation of the plan.
    op: usize,
    /// Instead of the output of a route, its lists: a slot is listed twice and another one not at all.
    lists: bool,
    /// Row of the batch, counted from its end.
    row: u32,
    /// [`SPOILED`] as f32, then as f16, then a code that no block has.
    value: Buffer,
    /// The element of the cache, for operations whose output is there.
    cached: Option<Slice>,
}

impl Executor {
    /// From here on, steps of `tokens` tokens after the sequence are recorded with the fault in row `row` of them.
    ///
    /// # Errors
    /// Where such steps do not do the operation.
    pub fn spoil(
        &mut self,
        fault: &Fault,
        sequence: &Sequence,
        row: usize,
        (tokens, logit_rows): (usize, usize),
    ) -> Result<(), Error> {
        let op = self.find(fault)?;
        let shape = self.widths.shape(tokens as u32, logit_rows as u32, false);
        if !self.schedule(shape, false)?.steps.iter().any(|s| s.ops.contains(&op)) {
            return Err(Error::Option(format!("the step of row {row} does not do the operation `{fault}`")));
        }
        let value = self.device.alloc(MemoryKind::Upload, 8, "a fault")?;
        value.write(6, &i8::MIN.to_le_bytes())?;
        value.write(0, &SPOILED.to_le_bytes())?;
        value.write(4, &half::f16::from_f32(SPOILED).to_le_bytes())?;
        // Of the cache that the operation's layer writes, should it turn out that its output goes there.
        let layer = self.plan.ops[op].layer;
        let cache = self.plan.ops.iter().find_map(|n| match n.op {
            Op::KvWrite { kv, .. } if n.layer == layer => Some(kv),
            _ => None,
        });
        let position = sequence.len() + row;
        let element = |kv| self.key_element(kv, sequence, position, self.plan.kv(kv).key_size / 2);
        let cached = cache.map(element).transpose()?;
        self.forget_programs()?;
        let lists = fault.op.ends_with(PACK);
        self.spoil = Some(Spoil { op, lists, row: (tokens - row) as u32, value, cached });
        Ok(())
    }

    /// No more faults.
    pub fn heal(&mut self) -> Result<(), Error> {
        self.spoil = None;
        self.forget_programs()
    }

    fn find(&self, fault: &Fault) -> Result<usize, Error> {
        let (label, kind) = fault.op.split_once('/').unwrap_or((&fault.op, ""));
        let is = |n: &zinc_plan::Node| {
            let packs = matches!(n.op, Op::Route { .. }) && fault.op.ends_with(PACK);
            n.layer == fault.layer && n.label == label && (kind.is_empty() || n.op.name() == kind || packs)
        };
        let found = self.plan.ops.iter().position(is);
        found.ok_or_else(|| Error::Option(format!("there is no operation `{fault}` in the plan")))
    }
}

impl Recording<'_> {
    /// Spoils the output of a step if a fault is wanted there.
    pub fn spoil(&self, rec: &mut Recorder, step: &Step) -> Result<(), Error> {
        let Some(spoil) = self.executor.spoil.as_ref().filter(|s| step.ops.contains(&s.op)) else {
            return Ok(());
        };
        if let (true, &Call::Route { out, .. }) = (spoil.lists, &step.call) {
            let (lists, grouping) = self.lists(out)?;
            let slot = |i: u32| lists.slice(4 * u64::from(grouping.pairs_at() + i), 4);
            return Ok(rec.copy(&slot(1)?, &slot(0)?)?);
        }
        let plan = &self.executor.plan;
        let writes: Vec<Cols> =
            step.call.writes().into_iter().filter(|c| c.act.index() < plan.acts.len()).collect();
        let own = plan.ops[spoil.op].op.output().filter(|out| writes.contains(out));
        let (value, targets) = match (own, step.call.cache(), &spoil.cached) {
            (None, Some((_, true)), Some(cached)) => {
                let offset = match self.executor.kv_type {
                    KvType::F32 => 0,
                    KvType::F16 => 4,
                    KvType::Q8_0 => 6,
                };
                (spoil.value.slice(offset, cached.len())?, vec![cached.clone()])
            }
            (own, ..) => {
                // An output that is not stored is in all that are.
                let spoiled = own.map_or(writes, |out| vec![out]);
                let elements: Result<Vec<_>, Error> =
                    spoiled.into_iter().map(|c| self.element(c, spoil.row)).collect();
                (spoil.value.slice(0, 4)?, elements?.into_iter().flatten().collect())
            }
        };
        if targets.is_empty() {
            let label = step.full_label();
            return Err(Error::Option(format!("`{label}` does not compute the row of the fault")));
        }
        Ok(targets.iter().try_for_each(|target| rec.copy(&value, target))?)
    }

    /// The middle element of a row of the batch, counted from its end; `None` where the columns do not have that row.
    fn element(&self, c: Cols, row: u32) -> Result<Option<Slice>, Error> {
        let place = self.place(c)?;
        let Some(row) = place.rows.checked_sub(row) else { return Ok(None) };
        let at = u64::from(row * place.stride + c.first + c.width / 2);
        Ok(Some(self.scratch.slice(place.offset + at * 4, 4)?))
    }
}
