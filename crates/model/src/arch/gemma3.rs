//! `gemma3`: five layers with a window to one without, norms around attention and FFN, scaled embeddings.

use super::blocks::{self, Common, NEOX};
use crate::error::Error;
use crate::reader::Reader;
use crate::spec::{Ffn, LayerSpec, Mixer, ModelSpec};
use zinc_plan::{Activation, RopeId, RopeTable};

/// Tables of the layers without and with a window.
const GLOBAL: RopeId = RopeId(0);
const SLIDING: RopeId = RopeId(1);

pub(super) fn read(r: &mut Reader) -> Result<ModelSpec, Error> {
    let common = Common::read(r)?;
    let rotated = blocks::rotated(r, "rope.dimension_count", common.key_size)?;
    let global = blocks::rope_base(r, "rope.freq_base", 1e6)?;
    let sliding = blocks::rope_base(r, "rope.freq_base_swa", 1e4)?;
    // Scaling stretches the layers that see the whole context; a window needs none.
    let ropes = vec![
        RopeTable::new(rotated, global, blocks::linear_rope_factor(r)?, None),
        RopeTable::new(rotated, sliding, 1.0, None),
    ];
    let window = r.positive("attention.sliding_window")?;
    let windowed = windowed_layers(r, common.layers)?;
    let scale = scale(r, &common)?;
    let mut layers = vec![];
    for i in 0..common.layers {
        let mut attention = blocks::attention(r, i, &common, NEOX)?;
        blocks::head_norms(r, i, &mut attention)?;
        attention.scale = scale;
        attention.rope = GLOBAL;
        if windowed[i as usize] {
            attention.rope = SLIDING;
            attention.window = Some(window);
        }
        layers.push(LayerSpec {
            norm: blocks::norm(r, i, "attn_norm.weight", &common)?,
            mixer: Mixer::Attention(attention),
            post_norm: Some(blocks::norm(r, i, "post_attention_norm.weight", &common)?),
            ffn_norm: blocks::norm(r, i, "ffn_norm.weight", &common)?,
            ffn: Ffn::Dense(blocks::dense(r, i, &common, Activation::GeGlu)?),
            ffn_post_norm: Some(blocks::norm(r, i, "post_ffw_norm.weight", &common)?),
            output_scale: None,
        });
    }
    let spec = common.model(r, layers, ropes)?;
    Ok(ModelSpec { embed_scale: (common.hidden as f32).sqrt(), ..spec })
}

/// Which layers have a window: an array, or every so-many-th layer has none (6 where the key is absent).
fn windowed_layers(r: &Reader, layers: u32) -> Result<Vec<bool>, Error> {
    let key = "attention.sliding_window_pattern";
    if let Ok(Some(pattern)) = r.per_layer::<bool>(key, layers) {
        return Ok(pattern);
    }
    let period = r.optional::<u32>(key)?.unwrap_or(6).max(1);
    Ok((0..layers).map(|i| i % period != period - 1).collect())
}

/// 1/√(head size), but the 27B, known by its 62 layers, has 1/√(hidden / heads).
fn scale(r: &Reader, common: &Common) -> Result<f32, Error> {
    let own = if common.layers == 62 { common.hidden / common.heads[0] } else { common.key_size };
    Ok(r.optional("attention.scale")?.unwrap_or(1.0 / (own as f32).sqrt()))
}
