//! `qwen2` (and Qwen2.5): biases on q, k, v. `qwen3`: per-head norms instead. `qwen3moe`: the same with experts in every layer.

use super::blocks::{self, Common, NEOX};
use crate::error::Error;
use crate::reader::Reader;
use crate::spec::{Attention, Ffn, LayerSpec, Mixer, ModelSpec};
use zinc_plan::{Activation, RouteOrder};

pub(super) fn qwen2(r: &mut Reader) -> Result<ModelSpec, Error> {
    model(r, blocks::qkv_biases, dense)
}

pub(super) fn qwen3(r: &mut Reader) -> Result<ModelSpec, Error> {
    model(r, blocks::head_norms, dense)
}

pub(super) fn qwen3moe(r: &mut Reader) -> Result<ModelSpec, Error> {
    model(r, blocks::head_norms, experts)
}

fn model(
    r: &mut Reader,
    complete: fn(&mut Reader, u32, &mut Attention) -> Result<(), Error>,
    ffn: fn(&mut Reader, u32, &Common) -> Result<Ffn, Error>,
) -> Result<ModelSpec, Error> {
    let common = Common::read(r)?;
    let rope = blocks::rope(r, &common)?;
    let mut layers = vec![];
    for i in 0..common.layers {
        let mut attention = blocks::attention(r, i, &common, NEOX)?;
        complete(r, i, &mut attention)?;
        layers.push(LayerSpec {
            norm: blocks::norm(r, i, "attn_norm.weight", &common)?,
            mixer: Mixer::Attention(attention),
            post_norm: None,
            ffn_norm: blocks::norm(r, i, "ffn_norm.weight", &common)?,
            ffn: ffn(r, i, &common)?,
            ffn_post_norm: None,
            output_scale: None,
        });
    }
    common.model(r, layers, vec![rope])
}

fn dense(r: &mut Reader, i: u32, common: &Common) -> Result<Ffn, Error> {
    blocks::dense(r, i, common, Activation::SwiGlu).map(Ffn::Dense)
}

fn experts(r: &mut Reader, i: u32, common: &Common) -> Result<Ffn, Error> {
    let order = RouteOrder::SoftmaxThenTopK { renormalise: true };
    blocks::moe(r, i, common, Activation::SwiGlu, order).map(Ffn::Moe)
}
