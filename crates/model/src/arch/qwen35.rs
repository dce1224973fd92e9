//! `qwen35`, `qwen35moe` (Qwen3.5 and 3.6) and `qwen3next`: gated delta nets, with gated full attention in every fourth layer.

use super::blocks::{self, Common, Layout, NEOX};
use crate::error::Error;
use crate::reader::{Reader, Shape};
use crate::spec::{Attention, DeltaNet, Ffn, LayerSpec, Mixer, ModelSpec, Moe, RecurrentInputs};
use zinc_plan::{Activation, HeadOrder, RouteOrder};

pub(super) fn qwen35(r: &mut Reader) -> Result<ModelSpec, Error> {
    model(r, HeadOrder::Tiled, |r, i, common| blocks::dense(r, i, common, Activation::SwiGlu).map(Ffn::Dense))
}

pub(super) fn qwen35moe(r: &mut Reader) -> Result<ModelSpec, Error> {
    model(r, HeadOrder::Tiled, experts)
}

pub(super) fn qwen3next(r: &mut Reader) -> Result<ModelSpec, Error> {
    model(r, HeadOrder::Grouped, experts)
}

fn model(
    r: &mut Reader,
    order: HeadOrder,
    ffn: fn(&mut Reader, u32, &Common) -> Result<Ffn, Error>,
) -> Result<ModelSpec, Error> {
    let common = Common::read(r)?;
    let rope = blocks::rope(r, &common)?;
    let recurrent = recurrent_layers(r, common.layers)?;
    let mut layers = vec![];
    for i in 0..common.layers {
        layers.push(LayerSpec {
            norm: blocks::norm(r, i, "attn_norm.weight", &common)?,
            mixer: if recurrent[i as usize] {
                Mixer::DeltaNet(delta_net(r, i, &common, order)?)
            } else {
                Mixer::Attention(attention(r, i, &common)?)
            },
            post_norm: None,
            ffn_norm: blocks::norm(r, i, "post_attention_norm.weight", &common)?,
            ffn: ffn(r, i, &common)?,
            ffn_post_norm: None,
            output_scale: None,
        });
    }
    common.model(r, layers, vec![rope])
}

/// Newer files list the recurrent layers; older ones give the interval of those that are not.
fn recurrent_layers(r: &Reader, layers: u32) -> Result<Vec<bool>, Error> {
    if let Some(listed) = r.per_layer::<bool>("attention.recurrent_layers", layers)? {
        return Ok(listed);
    }
    let interval = r.optional::<u32>("full_attention_interval")?.unwrap_or(4).max(1);
    Ok((0..layers).map(|i| (i + 1) % interval != 0).collect())
}

/// Each query head is followed by its gate. For text, the sections of the multi-axis RoPE all turn by the same position.
fn attention(r: &mut Reader, i: u32, common: &Common) -> Result<Attention, Error> {
    let mut a = blocks::attention(r, i, common, Layout { gated: true, ..NEOX })?;
    blocks::head_norms(r, i, &mut a)?;
    Ok(a)
}

fn delta_net(r: &mut Reader, i: u32, common: &Common, order: HeadOrder) -> Result<DeltaNet, Error> {
    let hidden = common.hidden;
    let (taps, key_size) = (r.positive("ssm.conv_kernel")?, r.positive("ssm.state_size")?);
    let (key_heads, value_heads) = (r.positive("ssm.group_count")?, r.positive("ssm.time_step_rank")?);
    let inner = r.positive("ssm.inner_size")?;
    if value_heads % key_heads != 0 {
        let expected = format!("a multiple of the {key_heads} key heads");
        return Err(r.bad_value("ssm.time_step_rank", value_heads, expected));
    }
    if inner % value_heads != 0 {
        return Err(r.bad_value(
            "ssm.inner_size",
            inner,
            format!("a multiple of the {value_heads} value heads"),
        ));
    }
    let value_size = inner / value_heads;
    let channels = 2 * u64::from(key_heads) * u64::from(key_size) + u64::from(inner);
    let per_head = || Shape::Matrix(hidden, value_heads.into());
    let inputs = match r.has(i, "ssm_ba.weight") {
        true => RecurrentInputs::Fused(r.layer(
            i,
            "ssm_ba.weight",
            Shape::Matrix(hidden, 2 * u64::from(value_heads)),
        )?),
        false => RecurrentInputs::Separate {
            alpha: r.layer(i, "ssm_alpha.weight", per_head())?,
            beta: r.layer(i, "ssm_beta.weight", per_head())?,
        },
    };
    Ok(DeltaNet {
        key_heads,
        key_size,
        value_heads,
        value_size,
        taps,
        order,
        qkv: r.layer(i, "attn_qkv.weight", Shape::Matrix(hidden, channels))?,
        z: r.layer(i, "attn_gate.weight", Shape::Matrix(hidden, inner.into()))?,
        inputs,
        conv: r.layer(i, "ssm_conv1d.weight", Shape::Matrix(taps, channels))?,
        dt_bias: r.layer(i, "ssm_dt.bias", Shape::Vector(value_heads))?,
        a: r.layer(i, "ssm_a", Shape::Vector(value_heads))?,
        norm: r.layer(i, "ssm_norm.weight", Shape::Vector(value_size))?,
        out: r.layer(i, "ssm_out.weight", Shape::Matrix(inner, hidden.into()))?,
    })
}

fn experts(r: &mut Reader, i: u32, common: &Common) -> Result<Ffn, Error> {
    let order = RouteOrder::SoftmaxThenTopK { renormalise: true };
    let moe = blocks::moe(r, i, common, Activation::SwiGlu, order)?;
    let shared = Some(blocks::shared_expert(r, i, common, Activation::SwiGlu)?);
    Ok(Ffn::Moe(Moe { shared, ..moe }))
}
