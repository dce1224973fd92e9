//! From calls to dispatches: operands become slices of memory.

use super::Executor;
use super::buffers::CANDIDATES;
use crate::compile::{
    Call, InputNorm, Place, Schedule, Shape, Stage, Step, attention_shape, delta_net_shape,
};
use crate::{Error, Unsupported};
use zinc_kernels::gemv::{Epilogue, Weights};
use zinc_kernels::kv::KvCache;
use zinc_kernels::product::{self, Product};
use zinc_kernels::recurrent::delta_net::{Gates, Norm};
use zinc_kernels::rope::{self, Rotation};
use zinc_kernels::{
    Kernels, Mat, RowInfo, attention, chain, elementwise, embed, gemm, gemv, kv, norm, recurrent, sample,
};
use zinc_plan::{Cols, KvId, Op, Pairing, Plan, RopeId, Scalar, WeightId};
use zinc_vulkan::{Recorder, Slice};

/// Most bytes that attention may use for the key blocks of rows outside tiles; beyond, they are computed in several passes.
pub const ATTENTION_BYTES: u64 = 256 << 20;

/// Bytes of the kernels' own scratch for steps of a shape, or a narrower one, and a context.
pub fn work_bytes(kernels: &Kernels, plan: &Plan, shape: Shape, context: u32) -> Result<u64, Unsupported> {
    let rows = shape.rows;
    let mut bytes = sample::argmax::scratch_bytes(kernels, plan.vocab(), 1)
        .max(sample::top_k::scratch_bytes(kernels, plan.vocab(), CANDIDATES, shape.logit_rows));
    for node in &plan.ops {
        let Op::Attention { kv, heads, .. } = node.op else { continue };
        let shape = attention_shape(plan, kv, heads);
        let row = attention::attention::scratch_bytes(kernels, &shape, context, plan.kv(kv).window);
        let row = row.map_err(|e| Unsupported {
            op: e.op.into(),
            layer: node.layer,
            label: node.label.into(),
            format: "-".into(),
            rows,
            reason: e.reason,
        })?;
        // More rows of a sequence are computed in tiles, more sequences in several passes.
        let at_once = rows.min(kernels.policy().attention.tiled_rows);
        bytes = bytes.max(row.max(ATTENTION_BYTES.min(row * u64::from(at_once))));
    }
    Ok(attention::attention::COUNTER_BYTES + bytes)
}

/// A schedule being recorded.
pub struct Recording<'a> {
    pub(super) executor: &'a Executor,
    /// The executor's, or such that note what they are asked for.
    pub(super) kernels: &'a Kernels,
    pub(super) schedule: &'a Schedule,
    /// Keys that attention looks at, at most.
    pub(super) keys: u32,
    /// Where activations lie.
    pub(super) scratch: &'a Slice,
}

impl<'a> Recording<'a> {
    pub fn new(
        executor: &'a Executor,
        schedule: &'a Schedule,
        keys: u32,
        scratch: &'a Slice,
    ) -> Recording<'a> {
        Recording { executor, kernels: &executor.kernels, schedule, keys, scratch }
    }

    /// `RowInfo` of the last `rows` rows: all of them, or those with logits.
    fn row_info(&self, rows: u32) -> Result<Slice, Error> {
        let all = &self.executor.buffers.rows;
        let bytes = u64::from(rows) * RowInfo::BYTES;
        Ok(all.slice(all.len() - bytes, bytes)?)
    }

    /// Where a buffer lies.
    pub(super) fn place(&self, c: Cols) -> Result<Place, Error> {
        // `assign` places every buffer that a step names.
        self.schedule.scratch.places[c.act.index()]
            .ok_or_else(|| Error::Option(format!("buffer {} of the schedule has no place", c.act.0)))
    }

    pub(super) fn mat(&self, c: Cols) -> Result<Mat<'a>, Error> {
        let place = self.place(c)?;
        let offset = (place.offset / 4) as u32 + c.first;
        Ok(Mat { slice: self.scratch, offset, stride: place.stride, width: c.width })
    }

    pub(super) fn vector(&self, w: WeightId) -> &'a Slice {
        &self.executor.weights[w.index()]
    }

    pub(super) fn matrix(&self, w: WeightId) -> Weights<'a> {
        let weight = self.executor.plan.weight(w);
        Weights { slice: self.vector(w), format: weight.format, m: weight.m, k: weight.k }
    }

    fn input_norm(&self, norm: Option<InputNorm>) -> Result<Option<gemv::InputNorm<'a>>, Error> {
        let Some(InputNorm { weight, eps, sublayer }) = norm else { return Ok(None) };
        let sublayer = sublayer.map(|s| {
            Ok::<_, Error>(gemv::Sublayer {
                weight: self.vector(s.weight),
                row: self.mat(s.row)?,
                scale: s.scale.map(|w| self.vector(w)),
                out: s.out.map(|out| self.mat(out)).transpose()?,
            })
        });
        Ok(Some(gemv::InputNorm { weight: self.vector(weight), eps, sublayer: sublayer.transpose()? }))
    }

    pub(super) fn cache(&self, id: KvId) -> KvCache<'a> {
        let (e, spec) = (self.executor, self.executor.plan.kv(id));
        let (k, v) = &e.buffers.kv[id.index()];
        KvCache {
            k,
            v,
            kind: e.kv_type,
            kv_heads: spec.heads,
            key_size: spec.key_size,
            value_size: spec.value_size,
            pages: &e.buffers.pages,
            max_pages: e.extents.max_pages(),
        }
    }

    pub(super) fn rotation(&self, table: RopeId, pairing: Pairing) -> Rotation<'a> {
        let rotated_pairs = self.executor.plan.rope(table).inverse_frequencies.len() as u32;
        Rotation { table: &self.executor.buffers.ropes[table.index()], rotated_pairs, pairing }
    }

    /// The rows of logits; `None` where the schedule has no head.
    pub fn logits(&self) -> Result<Option<Slice>, Error> {
        let rows = self.schedule.shape.logit_rows;
        if rows == 0 {
            return Ok(None);
        }
        Ok(Some(self.mat(self.executor.plan.logits)?.bytes(rows)?))
    }

    /// The memory of a call beside its operands.
    fn work(&self, step: &Step) -> Result<Option<Slice>, Error> {
        let Some(act) = step.work else { return Ok(None) };
        let offset = self.place(Cols { act, first: 0, width: 1 })?.behind();
        Ok(Some(self.scratch.slice(offset, self.scratch.len() - offset)?))
    }

    /// Records one step of the schedule.
    pub fn step(&self, rec: &mut Recorder, step: &Step) -> Result<(), Error> {
        let k = self.kernels;
        let label = step.full_label();
        let label = label.as_str();
        let rows = match step.call.writes().first() {
            Some(&out) => self.place(out)?.rows,
            None => self.schedule.shape.rows,
        };
        let row_info = &self.row_info(rows)?;
        match step.call {
            Call::Embed { table, scale, out } => {
                let (table, out) = (self.matrix(table), self.mat(out)?);
                embed::embed(
                    k,
                    rec,
                    label,
                    &embed::EmbedArgs { table, rows: row_info, count: rows, scale, out },
                )?;
            }
            Call::RmsNorm { x, weight, group, eps, out } => {
                let (x, weight, out) = (self.mat(x)?, weight.map(|w| self.vector(w)), self.mat(out)?);
                norm::rms_norm::record(
                    k,
                    rec,
                    label,
                    &norm::rms_norm::Args { x, weight, group, eps, out, rows },
                )?;
            }
            Call::Chain { ref stages, width, eps } => {
                let on = |s: &Stage| s.map(|c| self.mat(c), |w| self.vector(w));
                let stages = stages.iter().map(on).collect::<Result<Vec<_>, Error>>()?;
                chain::record(k, rec, label, &chain::Args { stages: &stages, width, eps, rows })?;
            }
            Call::GatedRmsNorm { x, weight, group, eps, gate, packed, out } => {
                let weight = weight.map(|w| self.vector(w));
                let (x, gate, out) = (self.mat(x)?, self.mat(gate)?, self.mat(out)?);
                let packed = packed
                    .map(|c| {
                        Ok::<_, Error>(
                            gemm::Packed::within(self.mat(c)?, rows, x.width)
                                .map_err(zinc_kernels::Error::from)?,
                        )
                    })
                    .transpose()?;
                let args = norm::gated_rms_norm::Args { x, weight, group, eps, gate, out, packed, rows };
                norm::gated_rms_norm::record(k, rec, label, &args)?;
            }
            Call::L2Norm { x, group, eps, scale, out } => {
                let (x, out) = (self.mat(x)?, self.mat(out)?);
                norm::l2_norm::record(
                    k,
                    rec,
                    label,
                    &norm::l2_norm::Args { x, group, eps, scale, out, rows },
                )?;
            }
            Call::Convert { x, parts, out } => {
                let (x, out) = (self.mat(x)?, self.mat(out)?);
                let out = gemm::Packed::within(out, rows, x.width / parts);
                let out = out.map_err(zinc_kernels::Error::from)?;
                gemm::convert(k, rec, label, &gemm::ConvertArgs { x, out })?;
            }
            Call::Linear { x, norm, weight, bias, residual, out } => {
                let epilogue = Epilogue {
                    bias: bias.map(|b| self.vector(b)),
                    residual: residual.map(|r| self.mat(r)).transpose()?,
                };
                let (weights, x, out) = (self.matrix(weight), self.mat(x)?, self.mat(out)?);
                let args = gemv::Args {
                    weights,
                    up: None,
                    x,
                    norm: self.input_norm(norm)?,
                    columns: rows,
                    epilogue,
                    out,
                };
                product::record(k, rec, label, &args, product(step)?, self.work(step)?.as_ref())?;
            }
            Call::GatedLinear { x, norm, gate, up, kind, out } => {
                let (weights, up, epilogue) =
                    (self.matrix(gate), Some((kind.into(), self.matrix(up))), Epilogue::default());
                let (x, out) = (self.mat(x)?, self.mat(out)?);
                let args =
                    gemv::Args { weights, up, x, norm: self.input_norm(norm)?, columns: rows, epilogue, out };
                product::record(k, rec, label, &args, product(step)?, self.work(step)?.as_ref())?;
            }
            Call::Rope { x, head_size, table, pairing, out } => {
                let (x, out, rotation) = (self.mat(x)?, self.mat(out)?, self.rotation(table, pairing));
                let args = rope::rope::Args { x, head_size, rotation, row_info, out, rows };
                rope::rope::record(k, rec, label, &args)?;
            }
            Call::KvWrite { k: keys, v, kv: id } => {
                let (keys, v, cache) = (self.mat(keys)?, self.mat(v)?, self.cache(id));
                let args = kv::kv_write::Args { k: keys, v, cache, row_info, rows };
                kv::kv_write::record(k, rec, label, &args)?;
            }
            Call::AttentionInput { .. } | Call::Attention { .. } | Call::DecodeAttention { .. } => {
                self.attention(rec, label, &step.call, row_info, rows)?;
            }
            Call::Conv { .. } | Call::DeltaNet { .. } => self.recurrent(rec, label, step, rows)?,
            Call::Route { .. }
            | Call::Decide { .. }
            | Call::ExpertLinear { .. }
            | Call::GatedExperts { .. }
            | Call::ExpertBias { .. }
            | Call::ExpertSum { .. } => self.experts(rec, step)?,
            Call::Add { .. }
            | Call::AddBias { .. }
            | Call::Scale { .. }
            | Call::Softcap { .. }
            | Call::Activate { .. }
            | Call::SigmoidGate { .. }
            | Call::Slice { .. } => self.elementwise(rec, label, &step.call, rows)?,
        }
        Ok(())
    }

    fn recurrent(&self, rec: &mut Recorder, label: &str, step: &Step, rows: u32) -> Result<(), Error> {
        let (k, plan, buffers) = (self.kernels, &self.executor.plan, &self.executor.buffers);
        let parts = buffers.parts.of(&self.executor.extents, rows);
        match step.call {
            Call::Conv { x, weight, state, norms, out } => {
                let (x, out, state) = (self.mat(x)?, self.mat(out)?, &buffers.states[state.index()]);
                let (taps, weight) = (plan.weight(weight).k, self.vector(weight));
                let norms = norms.map(|n| n.map(|c| self.mat(c))).transpose()?;
                let args = recurrent::conv::Args { x, weight, taps, state, parts, norms, out, rows };
                recurrent::conv::record(k, rec, label, &args)?;
            }
            Call::DeltaNet { q, k: keys, v, gates, dt_bias, a, order, state, norm, out } => {
                let norm = norm.map(|n| {
                    let (gate, out) = (self.mat(n.gate)?, self.mat(n.out)?);
                    Ok::<_, Error>(Norm { weight: self.vector(n.weight), eps: n.eps, gate, out })
                });
                let args = recurrent::delta_net::Args {
                    q: self.mat(q)?,
                    k: self.mat(keys)?,
                    v: self.mat(v)?,
                    gates: match gates {
                        Gates::Apart { alpha, beta } => {
                            Gates::Apart { alpha: self.mat(alpha)?, beta: self.mat(beta)? }
                        }
                        Gates::Mixed { both, part } => Gates::Mixed { both: self.mat(both)?, part },
                    },
                    dt_bias: self.vector(dt_bias),
                    a: self.vector(a),
                    shape: delta_net_shape(plan, state, order),
                    state: &buffers.states[state.index()],
                    parts,
                    norm: norm.transpose()?,
                    out: self.mat(out)?,
                    rows,
                };
                match self.work(step)? {
                    Some(work) => recurrent::chunked::record(k, rec, label, &args, &work)?,
                    None => recurrent::delta_net::record(k, rec, label, &args)?,
                }
            }
            _ => return Err(Error::Option(format!("`{}` is not recurrent", step.call.name()))),
        }
        Ok(())
    }

    fn elementwise(&self, rec: &mut Recorder, label: &str, call: &Call, rows: u32) -> Result<(), Error> {
        let k = self.kernels;
        match *call {
            Call::Add { a, b, out } => {
                let (a, b, out) = (self.mat(a)?, self.mat(b)?, self.mat(out)?);
                elementwise::add::record(k, rec, label, &elementwise::add::Args { a, b, out, rows })?;
            }
            Call::AddBias { x, bias, out } => {
                let (x, bias, out) = (self.mat(x)?, self.vector(bias), self.mat(out)?);
                elementwise::add_bias::record(
                    k,
                    rec,
                    label,
                    &elementwise::add_bias::Args { x, bias, out, rows },
                )?;
            }
            Call::Scale { x, by, out } => {
                let by = match by {
                    Scalar::Const(c) => elementwise::scale::Factor::Const(c),
                    Scalar::Weight(w) => elementwise::scale::Factor::Weight(self.vector(w)),
                };
                let (x, out) = (self.mat(x)?, self.mat(out)?);
                elementwise::scale::record(k, rec, label, &elementwise::scale::Args { x, by, out, rows })?;
            }
            Call::Softcap { x, cap, out } => {
                let (x, out) = (self.mat(x)?, self.mat(out)?);
                elementwise::softcap::record(
                    k,
                    rec,
                    label,
                    &elementwise::softcap::Args { x, cap, out, rows },
                )?;
            }
            Call::Activate { kind, gate, up, out } => {
                let (gate, up, out) = (self.mat(gate)?, self.mat(up)?, self.mat(out)?);
                let args = elementwise::activate::Args { kind, gate, up, out, rows };
                elementwise::activate::record(k, rec, label, &args)?;
            }
            Call::SigmoidGate { x, gate, parts, out } => {
                let (x, gate, out) = (self.mat(x)?, self.mat(gate)?, self.mat(out)?);
                let args = elementwise::sigmoid_gate::Args { x, gate, parts, out, rows };
                elementwise::sigmoid_gate::record(k, rec, label, &args)?;
            }
            Call::Slice { x, stride, first, len, out } => {
                let (x, out) = (self.mat(x)?, self.mat(out)?);
                let args = elementwise::slice::Args { x, stride, first, len, out, rows };
                elementwise::slice::record(k, rec, label, &args)?;
            }
            _ => return Err(Error::Option(format!("`{}` is not elementwise", call.name()))),
        }
        Ok(())
    }

    /// The argmax of the last row's logits becomes the next step's token.
    pub fn greedy(&self, rec: &mut Recorder) -> Result<(), Error> {
        let (k, b) = (self.kernels, &self.executor.buffers);
        let mut logits = self.mat(self.executor.plan.logits)?;
        logits.offset += (self.schedule.shape.logit_rows - 1) * logits.stride;
        let args = sample::argmax::Args { logits, scratch: &b.work, out: &b.chosen, rows: 1 };
        sample::argmax::record(k, rec, "argmax", &args)?;
        let last = b.rows.slice(b.rows.len() - RowInfo::BYTES, RowInfo::BYTES)?;
        let args = sample::advance::Args {
            chosen: &b.chosen,
            row_info: &last,
            step: &b.steps,
            ring: &b.ring,
            rows: 1,
        };
        Ok(sample::advance::record(k, rec, "advance", &args)?)
    }

    /// The candidates of each row of logits go to the host.
    pub fn candidates(&self, rec: &mut Recorder) -> Result<(), Error> {
        let (k, b) = (self.kernels, &self.executor.buffers);
        let (logits, rows) = (self.mat(self.executor.plan.logits)?, self.schedule.shape.logit_rows);
        let args = sample::top_k::Args { logits, k: CANDIDATES, scratch: &b.work, out: &b.candidates, rows };
        Ok(sample::top_k::record(k, rec, "top_k", &args)?)
    }
}

/// The kernel of a step's product: `compile` names it for every product.
pub(super) fn product(step: &Step) -> Result<Product, Error> {
    step.product.ok_or_else(|| Error::Option(format!("the product `{}` has no kernel", step.full_label())))
}
