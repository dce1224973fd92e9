//! `gpt-oss`: biases everywhere, attention sinks, a window on every other layer, YaRN, clamped SwiGLU experts.

use super::blocks::{self, Common, NEOX};
use crate::error::Error;
use crate::reader::{Reader, Shape};
use crate::spec::{Attention, Ffn, GateUp, LayerSpec, Mixer, ModelSpec, Moe};
use zinc_plan::{Activation, RopeTable, RouteOrder, YarnScaling};

const ACTIVATION: Activation = Activation::OaiSwiGlu { alpha: 1.702, limit: 7.0 };

pub(super) fn read(r: &mut Reader) -> Result<ModelSpec, Error> {
    let common = Common::read(r)?;
    let rope = rope(r, &common)?;
    let window = r.positive("attention.sliding_window")?;
    let mut layers = vec![];
    for i in 0..common.layers {
        layers.push(LayerSpec {
            norm: blocks::norm(r, i, "attn_norm.weight", &common)?,
            mixer: Mixer::Attention(attention(r, i, &common, (i % 2 == 0).then_some(window))?),
            post_norm: None,
            ffn_norm: blocks::norm(r, i, "post_attention_norm.weight", &common)?,
            ffn: Ffn::Moe(experts(r, i, &common)?),
            ffn_post_norm: None,
            output_scale: None,
        });
    }
    common.model(r, layers, vec![rope])
}

fn rope(r: &mut Reader, common: &Common) -> Result<RopeTable, Error> {
    if r.optional::<&str>("rope.scaling.type")? != Some("yarn") {
        return blocks::rope(r, common);
    }
    let positive = |key: &str, default: Option<f32>| match (r.optional::<f32>(key)?, default) {
        (Some(v), _) if v > 0.0 && v.is_finite() => Ok(f64::from(v)),
        (Some(v), _) => Err(r.bad_value(key, v, "a positive number")),
        (None, Some(v)) => Ok(f64::from(v)),
        (None, None) => r.key::<f32>(key).map(f64::from),
    };
    let yarn = YarnScaling {
        factor: positive("rope.scaling.factor", None)?,
        original_context: r.positive("rope.scaling.original_context_length")?.into(),
        beta_fast: positive("rope.scaling.yarn_beta_fast", Some(32.0))?,
        beta_slow: positive("rope.scaling.yarn_beta_slow", Some(1.0))?,
        attn_factor: positive("rope.scaling.attn_factor", Some(1.0))?,
    };
    let rotated = blocks::rotated(r, "rope.dimension_count", common.key_size)?;
    Ok(RopeTable::yarn(rotated, blocks::rope_base(r, "rope.freq_base", 150000.0)?, &yarn))
}

fn attention(r: &mut Reader, i: u32, common: &Common, window: Option<u32>) -> Result<Attention, Error> {
    let mut a = blocks::attention(r, i, common, NEOX)?;
    blocks::qkv_biases(r, i, &mut a)?;
    a.o.bias = Some(r.layer(i, "attn_output.bias", Shape::Vector(common.hidden))?);
    a.sinks = Some(r.layer(i, "attn_sinks.weight", Shape::Vector(a.heads))?);
    a.window = window;
    Ok(a)
}

fn experts(r: &mut Reader, i: u32, common: &Common) -> Result<Moe, Error> {
    let mut moe = blocks::moe(r, i, common, ACTIVATION, RouteOrder::TopKThenSoftmax)?;
    let (experts, hidden) = (moe.experts, common.hidden);
    let width = r.layer_dim(i, "ffn_down_exps.weight", 0)?;
    moe.router.bias = Some(r.layer(i, "ffn_gate_inp.bias", Shape::Vector(experts))?);
    if let GateUp::Separate { gate, up } = &mut moe.gate_up {
        gate.bias = Some(r.layer(i, "ffn_gate_exps.bias", Shape::ExpertVectors(width, experts))?);
        up.bias = Some(r.layer(i, "ffn_up_exps.bias", Shape::ExpertVectors(width, experts))?);
    }
    moe.down.bias = Some(r.layer(i, "ffn_down_exps.bias", Shape::ExpertVectors(hidden, experts))?);
    Ok(moe)
}
