//! Dispatches of experts.

use super::record::{Recording, product};
use crate::Error;
use crate::compile::{Call, Step};
use zinc_kernels::gemv::{Biases, ExpertArgs, Up};
use zinc_kernels::moe::{Grouping, decide, expert_bias, expert_sum, pack, route};
use zinc_kernels::product::record_experts;
use zinc_plan::Cols;
use zinc_vulkan::{Recorder, Slice};

impl Recording<'_> {
    /// Records a call of this family.
    pub(super) fn experts(&self, rec: &mut Recorder, step: &Step) -> Result<(), Error> {
        let k = self.kernels;
        let label = step.full_label();
        let label = label.as_str();
        match step.call {
            Call::Route { logits, order, out } => {
                let (lists, grouping) = self.lists(out)?;
                let (logits, choice) = (self.mat(logits)?, self.mat(out)?);
                let args = route::Args { logits, order, choice, rows: grouping.rows };
                route::record(k, rec, label, &args)?;
                if grouping.is_packed() {
                    let label = label.replace(step.label, "pack");
                    pack::record(k, rec, &label, &pack::Args { choice, grouping, lists: &lists })?;
                }
            }
            Call::Decide { x, norm, normed, router, bias, logits, gate, order, out } => {
                let gate = gate.map(|(weight, logit)| {
                    Ok::<_, Error>(decide::Gate { weight: self.vector(weight), logit: self.mat(logit)? })
                });
                let args = decide::Args {
                    x: self.mat(x)?,
                    norm: self.vector(norm.weight),
                    eps: norm.eps,
                    normed: self.mat(normed)?,
                    router: self.vector(router),
                    bias: bias.map(|b| self.vector(b)),
                    logits: self.mat(logits)?,
                    gate: gate.transpose()?,
                    order,
                    choice: self.mat(out)?,
                };
                decide::record(k, rec, label, &args)?;
            }
            Call::ExpertLinear { x, weight, bias, choice, out } => {
                let weights = self.matrix(weight);
                let (lists, grouping) = self.lists(choice)?;
                let args = ExpertArgs {
                    weights,
                    up: None,
                    biases: bias.map(|b| Biases { first: self.vector(b), up: None }),
                    x: self.mat(x)?,
                    grouping,
                    choice: self.mat(choice)?,
                    lists: &lists,
                    out: self.mat(out)?,
                };
                record_experts(k, rec, label, &args, product(step)?)?;
            }
            Call::GatedExperts { x, gate, up, biases, choice, kind, out } => {
                let (lists, grouping) = self.lists(choice)?;
                let up = up.map_or(Up::Behind, |w| Up::Apart(self.vector(w)));
                let args = ExpertArgs {
                    weights: self.matrix(gate),
                    up: Some((kind.into(), up)),
                    biases: biases
                        .map(|(gate, up)| Biases { first: self.vector(gate), up: Some(self.vector(up)) }),
                    x: self.mat(x)?,
                    grouping,
                    choice: self.mat(choice)?,
                    lists: &lists,
                    out: self.mat(out)?,
                };
                record_experts(k, rec, label, &args, product(step)?)?;
            }
            Call::ExpertBias { x, bias, choice, out } => {
                let (rows, bias) = (self.place(out)?.rows, self.vector(bias));
                let (x, choice, out) = (self.mat(x)?, self.mat(choice)?, self.mat(out)?);
                expert_bias::record(k, rec, label, &expert_bias::Args { x, choice, bias, out, rows })?;
            }
            Call::ExpertSum { x, choice, scale, out } => {
                let args = expert_sum::Args {
                    x: self.mat(x)?,
                    choice: self.mat(choice)?,
                    factor: scale.map(|w| self.vector(w)),
                    rows: self.place(out)?.rows,
                    out: self.mat(out)?,
                };
                expert_sum::record(k, rec, label, &args)?;
            }
            _ => return Err(Error::Option(format!("`{}` is not of experts", step.call.name()))),
        }
        Ok(())
    }

    /// The lists behind a choice, and how its slots are grouped.
    pub(super) fn lists(&self, choice: Cols) -> Result<(Slice, Grouping), Error> {
        let place = self.place(choice)?;
        let grouping = self.schedule.groupings.get(&choice.act).copied();
        let grouping = grouping.ok_or_else(|| {
            Error::Option(format!("choice {} of the schedule is not grouped", choice.act.0))
        })?;
        Ok((self.scratch.slice(place.behind(), grouping.list_bytes())?, grouping))
    }
}
