//! `llama`: Llama 2 and 3, SmolLM2, Mistral 7B. The converter permuted the rows of q and k so that adjacent dimensions turn together.

use super::blocks::{self, Common, Layout, NEOX};
use crate::error::Error;
use crate::reader::Reader;
use crate::spec::{Ffn, LayerSpec, Mixer, ModelSpec};
use zinc_plan::{Activation, Pairing, RopeTable};

pub(super) fn read(r: &mut Reader) -> Result<ModelSpec, Error> {
    if r.optional::<u32>("expert_count")?.unwrap_or(0) > 0 {
        return Err(r.variant("experts (Mixtral)"));
    }
    let common = Common::read(r)?;
    let rope = rope(r, &common)?;
    let layers = (0..common.layers).map(|i| layer(r, i, &common)).collect::<Result<_, _>>()?;
    common.model(r, layers, vec![rope])
}

/// Llama 3.1 and later scale frequencies by the factors of `rope_freqs.weight`.
fn rope(r: &mut Reader, common: &Common) -> Result<RopeTable, Error> {
    let rotated = blocks::rotated(r, "rope.dimension_count", common.key_size)?;
    let base = blocks::rope_base(r, "rope.freq_base", 10000.0)?;
    let factors = r.values("rope_freqs.weight", rotated / 2)?;
    Ok(RopeTable::new(rotated, base, blocks::linear_rope_factor(r)?, factors.as_deref()))
}

fn layer(r: &mut Reader, i: u32, common: &Common) -> Result<LayerSpec, Error> {
    let layout = Layout { pairing: Pairing::Adjacent, ..NEOX };
    Ok(LayerSpec {
        norm: blocks::norm(r, i, "attn_norm.weight", common)?,
        mixer: Mixer::Attention(blocks::attention(r, i, common, layout)?),
        post_norm: None,
        ffn_norm: blocks::norm(r, i, "ffn_norm.weight", common)?,
        ffn: Ffn::Dense(blocks::dense(r, i, common, Activation::SwiGlu)?),
        ffn_post_norm: None,
        output_scale: None,
    })
}
