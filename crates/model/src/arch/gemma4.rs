//! `gemma4`, dense and with experts: layers with and without a window differ in head size, KV heads, rotation and even in having values
//! of their own; experts run beside a dense FFN.

use super::blocks::{self, Common, Layout, NEOX};
use crate::error::Error;
use crate::reader::{Reader, Shape};
use crate::spec::{Attention, Ffn, LayerSpec, Mixer, ModelSpec, Moe, RouterNorm, SharedExpert};
use zinc_plan::{Activation, RopeId, RopeTable, RouteOrder};

/// Tables of the layers without and with a window.
const GLOBAL: RopeId = RopeId(0);
const SLIDING: RopeId = RopeId(1);

pub(super) fn read(r: &mut Reader) -> Result<ModelSpec, Error> {
    if r.optional::<u32>("embedding_length_per_layer_input")?.unwrap_or(0) > 0 {
        return Err(r.variant("per-layer embeddings (E2B, E4B)"));
    }
    if r.optional::<u32>("attention.shared_kv_layers")?.unwrap_or(0) > 0 {
        return Err(r.variant("layers that share a KV cache (E2B, E4B)"));
    }
    let common = Common::read(r)?;
    let window = r.positive("attention.sliding_window")?;
    let windowed: Vec<bool> = r.key("attention.sliding_window_pattern")?;
    if windowed.len() < common.layers as usize {
        let expected = format!("{} values", common.layers);
        return Err(r.bad_value("attention.sliding_window_pattern", windowed.len(), expected));
    }
    let ropes = ropes(r, &common)?;
    let has_experts = r.optional::<u32>("expert_count")?.unwrap_or(0) > 0;
    let mut layers = vec![];
    for i in 0..common.layers {
        let windowed = windowed[i as usize];
        layers.push(LayerSpec {
            norm: blocks::norm(r, i, "attn_norm.weight", &common)?,
            mixer: Mixer::Attention(attention(r, i, &common, windowed.then_some(window))?),
            post_norm: Some(blocks::norm(r, i, "post_attention_norm.weight", &common)?),
            ffn_norm: blocks::norm(r, i, "ffn_norm.weight", &common)?,
            ffn: if has_experts {
                Ffn::Moe(experts(r, i, &common)?)
            } else {
                Ffn::Dense(blocks::dense(r, i, &common, Activation::GeGlu)?)
            },
            ffn_post_norm: Some(blocks::norm(r, i, "post_ffw_norm.weight", &common)?),
            output_scale: r.layer_optional(i, "layer_output_scale.weight", Shape::Vector(1))?,
        });
    }
    let spec = common.model(r, layers, ropes)?;
    Ok(ModelSpec { embed_scale: (common.hidden as f32).sqrt(), ..spec })
}

/// The global layers' frequencies are divided by `rope_freqs.weight`, whose huge factors leave dimensions unrotated.
fn ropes(r: &mut Reader, common: &Common) -> Result<Vec<RopeTable>, Error> {
    let sliding_size = r.optional("attention.key_length_swa")?.unwrap_or(common.key_size);
    let global = blocks::rotated(r, "rope.dimension_count", common.key_size)?;
    let sliding = blocks::rotated(r, "rope.dimension_count_swa", sliding_size)?;
    let global_base = blocks::rope_base(r, "rope.freq_base", 1e6)?;
    let sliding_base = blocks::rope_base(r, "rope.freq_base_swa", 1e4)?;
    let factors = r.values("rope_freqs.weight", global / 2)?;
    Ok(vec![
        RopeTable::new(global, global_base, blocks::linear_rope_factor(r)?, factors.as_deref()),
        RopeTable::new(sliding, sliding_base, 1.0, None),
    ])
}

fn attention(r: &mut Reader, i: u32, common: &Common, window: Option<u32>) -> Result<Attention, Error> {
    let mut attention = blocks::attention(r, i, common, Layout { values_optional: true, ..NEOX })?;
    blocks::head_norms(r, i, &mut attention)?;
    attention.v_norm = true;
    attention.scale = 1.0;
    attention.window = window;
    attention.rope = if window.is_some() { SLIDING } else { GLOBAL };
    Ok(attention)
}

fn experts(r: &mut Reader, i: u32, common: &Common) -> Result<Moe, Error> {
    let order = RouteOrder::SoftmaxThenTopK { renormalise: true };
    let moe = blocks::moe(r, i, common, Activation::GeGlu, order)?;
    Ok(Moe {
        router_norm: Some(RouterNorm {
            weight: blocks::norm(r, i, "ffn_gate_inp.scale", common)?,
            scale: 1.0 / (common.hidden as f32).sqrt(),
        }),
        input_norm: Some(blocks::norm(r, i, "pre_ffw_norm_2.weight", common)?),
        expert_scale: Some(r.layer(i, "ffn_down_exps.scale", Shape::Vector(moe.experts))?),
        post_norm: Some(blocks::norm(r, i, "post_ffw_norm_2.weight", common)?),
        shared: Some(SharedExpert {
            dense: blocks::dense(r, i, common, Activation::GeGlu)?,
            post_norm: Some(blocks::norm(r, i, "post_ffw_norm_1.weight", common)?),
            gate: None,
        }),
        ..moe
    })
}
