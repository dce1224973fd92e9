//! The calls around attention.

use super::record::Recording;
use crate::Error;
use crate::compile::Call;
use zinc_kernels::attention::{DecodeArgs, attention, decode};
use zinc_kernels::rope::qk_norm_rope_kv::{self, HeadNorms};
use zinc_plan::WeightId;
use zinc_vulkan::{Recorder, Slice};

impl<'a> Recording<'a> {
    /// Records a call for the rows of which `row_info` tells.
    pub(super) fn attention(
        &self,
        rec: &mut Recorder,
        label: &str,
        call: &Call,
        row_info: &Slice,
        rows: u32,
    ) -> Result<(), Error> {
        let k = self.kernels;
        match *call {
            Call::AttentionInput { q, gated, k: keys, v, norms, table, pairing, kv, out, .. } => {
                let args = qk_norm_rope_kv::Args {
                    q: self.mat(q)?,
                    gated,
                    k: self.mat(keys)?,
                    v: self.mat(v)?,
                    norms: self.norms(norms),
                    rotation: self.rotation(table, pairing),
                    cache: self.cache(kv),
                    row_info,
                    out: self.mat(out)?,
                    rows,
                };
                qk_norm_rope_kv::record(k, rec, label, &args)?;
            }
            Call::Attention { .. } => {
                attention::record(k, rec, label, &self.attention_args(call, row_info, rows)?)?;
            }
            Call::DecodeAttention { gated, k: keys, v, norms, table, pairing, .. } => {
                let args = DecodeArgs {
                    attention: self.attention_args(call, row_info, rows)?,
                    gated,
                    k: self.mat(keys)?,
                    v: self.mat(v)?,
                    norms: self.norms(norms),
                    rotation: self.rotation(table, pairing),
                };
                decode::record(k, rec, label, &args)?;
            }
            _ => return Err(Error::Option(format!("`{}` is not attention", call.name()))),
        }
        Ok(())
    }

    fn norms(&self, norms: Option<HeadNorms<WeightId>>) -> Option<HeadNorms<&'a Slice>> {
        norms.map(|n| HeadNorms { q: self.vector(n.q), k: self.vector(n.k), values: n.values, eps: n.eps })
    }

    fn attention_args<'b>(
        &'b self,
        call: &Call,
        row_info: &'b Slice,
        rows: u32,
    ) -> Result<attention::Args<'b>, Error> {
        let (&Call::Attention { q, kv, heads, scale, softcap, sinks, out }
        | &Call::DecodeAttention { q, kv, heads, scale, softcap, sinks, out, .. }) = call
        else {
            return Err(Error::Option(format!("`{}` is not attention", call.name())));
        };
        Ok(attention::Args {
            q: self.mat(q)?,
            cache: self.cache(kv),
            heads,
            scale,
            softcap,
            window: self.executor.plan.kv(kv).window,
            sinks: sinks.map(|w| self.vector(w)),
            row_info,
            max_keys: self.keys,
            scratch: &self.executor.buffers.attention,
            out: self.mat(out)?,
            rows,
            run: self.schedule.shape.run(rows),
            precision: self.executor.precision,
        })
    }
}
