//! What the families have in common: keys that all use and blocks with the usual tensor names.

use crate::error::Error;
use crate::reader::{Reader, Shape};
use crate::spec::{Attention, Dense, GateUp, LayerSpec, ModelSpec, Moe, Projection, SharedExpert};
use zinc_plan::{Activation, Pairing, RopeId, RopeTable, RouteOrder, WeightId};

/// Keys that every family has.
pub(crate) struct Common {
    pub(crate) layers: u32,
    pub(crate) hidden: u32,
    pub(crate) context_length: u32,
    /// Query heads of each layer.
    pub(crate) heads: Vec<u32>,
    /// KV heads of each layer, where the file says so.
    pub(crate) kv_heads: Option<Vec<u32>>,
    /// Elements of a query or key head.
    pub(crate) key_size: u32,
    /// Elements of a value head.
    pub(crate) value_size: u32,
    pub(crate) norm_eps: f32,
}

impl Common {
    pub(crate) fn read(r: &Reader) -> Result<Common, Error> {
        let blocks = r.positive("block_count")?;
        if blocks as usize > r.tensor_count() {
            let expected = format!("at most the {} tensors of the file", r.tensor_count());
            return Err(r.bad_value("block_count", blocks, expected));
        }
        let further = r.optional::<u32>("nextn_predict_layers")?.unwrap_or(0);
        let layers = blocks.checked_sub(further).filter(|&l| l > 0);
        let layers = layers.ok_or_else(|| {
            r.bad_value("nextn_predict_layers", further, format!("fewer than the {blocks} layers"))
        })?;
        let hidden = r.positive("embedding_length")?;
        let heads: Vec<u32> =
            r.per_layer("attention.head_count", layers)?.ok_or_else(|| missing(r, "attention.head_count"))?;
        if heads.contains(&0) {
            return Err(r.bad_value("attention.head_count", 0, "a number above 0"));
        }
        let key_size = match r.optional::<u32>("attention.key_length")? {
            Some(size) => size,
            None => hidden / heads[0],
        };
        let value_size = r.optional("attention.value_length")?.unwrap_or(key_size);
        for (key, size) in [("attention.key_length", key_size), ("attention.value_length", value_size)] {
            if size == 0 {
                return Err(r.bad_value(key, size, "a number above 0"));
            }
        }
        let norm_eps: f32 = r.key("attention.layer_norm_rms_epsilon")?;
        if !(0.0..1.0).contains(&norm_eps) {
            return Err(r.bad_value("attention.layer_norm_rms_epsilon", norm_eps, "a small number"));
        }
        let context_length = r.positive("context_length")?;
        let kv_heads = r.per_layer("attention.head_count_kv", layers)?;
        Ok(Common { layers, hidden, context_length, heads, kv_heads, key_size, value_size, norm_eps })
    }

    /// The spec around the layers: embedding, final norm, head.
    pub(crate) fn model(
        &self,
        r: &mut Reader,
        layers: Vec<LayerSpec>,
        ropes: Vec<RopeTable>,
    ) -> Result<ModelSpec, Error> {
        r.leave_out_layers_from(self.layers);
        let vocab = r.dim("token_embd.weight", 1)?;
        let table = || Shape::Matrix(self.hidden, vocab.into());
        let embed = r.tensor("token_embd.weight", table())?;
        Ok(ModelSpec {
            architecture: r.architecture(),
            context_length: self.context_length,
            hidden: self.hidden,
            vocab,
            norm_eps: self.norm_eps,
            embed,
            embed_scale: 1.0,
            layers,
            final_norm: r.tensor("output_norm.weight", Shape::Vector(self.hidden))?,
            head: r.tensor_optional("output.weight", table())?.unwrap_or(embed),
            softcap: softcap(r)?,
            ropes,
            weights: vec![],
        })
    }
}

fn missing(r: &Reader, key: &str) -> Error {
    r.key::<u32>(key).err().unwrap_or_else(|| r.bad_value(key, "absent", "a number"))
}

fn softcap(r: &Reader) -> Result<Option<f32>, Error> {
    let key = "final_logit_softcapping";
    match r.optional::<f32>(key)? {
        Some(cap) if cap > 0.0 && cap.is_finite() => Ok(Some(cap)),
        Some(cap) if cap != 0.0 => Err(r.bad_value(key, cap, "a positive number")),
        _ => Ok(None),
    }
}

/// A frequency base, `default` where the key is absent.
pub(crate) fn rope_base(r: &Reader, key: &str, default: f32) -> Result<f64, Error> {
    let base = r.optional(key)?.unwrap_or(default);
    if base > 1.0 && base.is_finite() {
        Ok(base.into())
    } else {
        Err(r.bad_value(key, base, "a number above 1"))
    }
}

/// Rotated dimensions of heads of `head_size`.
pub(crate) fn rotated(r: &Reader, key: &str, head_size: u32) -> Result<u32, Error> {
    let rotated = r.optional(key)?.unwrap_or(head_size);
    if rotated == 0 || rotated % 2 != 0 || rotated > head_size {
        return Err(r.bad_value(key, rotated, format!("an even number from 2 to the head size {head_size}")));
    }
    Ok(rotated)
}

/// The factor of `rope.scaling` where positions are interpolated linearly, 1 where they are not scaled.
pub(crate) fn linear_rope_factor(r: &Reader) -> Result<f64, Error> {
    let factor =
        r.optional::<f32>("rope.scaling.factor")?.or(r.optional("rope.scale_linear")?).unwrap_or(1.0);
    match r.optional::<&str>("rope.scaling.type")? {
        Some("none") => Ok(1.0),
        None | Some("linear") if factor > 0.0 && factor.is_finite() => Ok(factor.into()),
        None | Some("linear") => Err(r.bad_value("rope.scaling.factor", factor, "a positive number")),
        Some(other) => Err(r.variant(format!("RoPE scaling `{}`", other.escape_debug()))),
    }
}

/// The table of a model whose layers all rotate alike.
pub(crate) fn rope(r: &mut Reader, common: &Common) -> Result<RopeTable, Error> {
    let rotated = rotated(r, "rope.dimension_count", common.key_size)?;
    let base = rope_base(r, "rope.freq_base", 10000.0)?;
    Ok(RopeTable::new(rotated, base, linear_rope_factor(r)?, None))
}

/// How the projections of an attention layer are laid out.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) pairing: Pairing,
    /// Each query head is followed by its gate.
    pub(crate) gated: bool,
    /// `attn_v` may be absent: values are then the raw keys.
    pub(crate) values_optional: bool,
}

/// What all but a few families have.
pub(crate) const NEOX: Layout = Layout { pairing: Pairing::Halves, gated: false, values_optional: false };

/// Attention with the usual tensors: no biases, no head norms, scale 1/√(head size), no window. Families add their own.
///
/// The number of KV heads follows from the rows of `attn_k`, the head size from `attn_q_norm` where there is one.
pub(crate) fn attention(
    r: &mut Reader,
    layer: u32,
    common: &Common,
    layout: Layout,
) -> Result<Attention, Error> {
    let (mut key_size, mut value_size) = (common.key_size, common.value_size);
    if r.has(layer, "attn_q_norm.weight") {
        key_size = r.layer_dim(layer, "attn_q_norm.weight", 0)?;
        if common.key_size == common.value_size {
            value_size = key_size;
        }
    }
    let key_rows = r.layer_dim(layer, "attn_k.weight", 1)?;
    let kv_heads = key_rows / key_size;
    let heads = common.heads[layer as usize];
    let stated = common.kv_heads.as_ref().map_or(kv_heads, |kv| kv[layer as usize]);
    if stated != kv_heads || kv_heads == 0 || key_rows % key_size != 0 || !heads.is_multiple_of(kv_heads) {
        let what = format!(
            "the rows should be KV heads of {key_size}, whose number divides the {heads} query heads"
        );
        return Err(r.bad_layer_dimension(layer, "attn_k.weight", what));
    }
    let rows = |heads: u32, size: u32| u64::from(heads) * u64::from(size);
    let q_rows = rows(heads, key_size) * if layout.gated { 2 } else { 1 };
    let o_columns = u32::try_from(rows(heads, value_size))
        .map_err(|_| r.bad_layer_dimension(layer, "attn_output.weight", "too many columns"))?;
    let v_shape = Shape::Matrix(common.hidden, rows(kv_heads, value_size));
    let v = match layout.values_optional {
        true => r.layer_optional(layer, "attn_v.weight", v_shape)?,
        false => Some(r.layer(layer, "attn_v.weight", v_shape)?),
    };
    Ok(Attention {
        heads,
        kv_heads,
        key_size,
        value_size,
        q: r.layer(layer, "attn_q.weight", Shape::Matrix(common.hidden, q_rows))?.into(),
        k: r.layer(layer, "attn_k.weight", Shape::Matrix(common.hidden, key_rows.into()))?.into(),
        v: v.map(Projection::from),
        o: r.layer(layer, "attn_output.weight", Shape::Matrix(o_columns, common.hidden.into()))?.into(),
        q_norm: None,
        k_norm: None,
        v_norm: false,
        gated: layout.gated,
        rope: RopeId(0),
        pairing: layout.pairing,
        scale: 1.0 / (key_size as f32).sqrt(),
        window: None,
        sinks: None,
    })
}

/// Per-head norms of queries and keys.
pub(crate) fn head_norms(r: &mut Reader, layer: u32, a: &mut Attention) -> Result<(), Error> {
    a.q_norm = Some(r.layer(layer, "attn_q_norm.weight", Shape::Vector(a.key_size))?);
    a.k_norm = Some(r.layer(layer, "attn_k_norm.weight", Shape::Vector(a.key_size))?);
    Ok(())
}

/// Biases of the query, key and value projections.
pub(crate) fn qkv_biases(r: &mut Reader, layer: u32, a: &mut Attention) -> Result<(), Error> {
    let (q, k) = (a.heads * a.key_size, a.kv_heads * a.key_size);
    a.q.bias = Some(r.layer(layer, "attn_q.bias", Shape::Vector(q))?);
    a.k.bias = Some(r.layer(layer, "attn_k.bias", Shape::Vector(k))?);
    if let Some(v) = &mut a.v {
        v.bias = Some(r.layer(layer, "attn_v.bias", Shape::Vector(a.kv_heads * a.value_size))?);
    }
    Ok(())
}

/// A norm over the residual stream.
pub(crate) fn norm(r: &mut Reader, layer: u32, name: &str, common: &Common) -> Result<WeightId, Error> {
    r.layer(layer, name, Shape::Vector(common.hidden))
}

/// The dense FFN of a layer.
pub(crate) fn dense(
    r: &mut Reader,
    layer: u32,
    common: &Common,
    activation: Activation,
) -> Result<Dense, Error> {
    dense_named(r, layer, common, activation, "")
}

/// A dense FFN whose tensors carry a suffix: `ffn_gate_shexp.weight`.
fn dense_named(
    r: &mut Reader,
    layer: u32,
    common: &Common,
    activation: Activation,
    suffix: &str,
) -> Result<Dense, Error> {
    let hidden = common.hidden;
    let [gate, up, down] = ["gate", "up", "down"].map(|part| format!("ffn_{part}{suffix}.weight"));
    let width = r.layer_dim(layer, &down, 0)?;
    Ok(Dense {
        gate: r.layer(layer, &gate, Shape::Matrix(hidden, width.into()))?,
        up: r.layer(layer, &up, Shape::Matrix(hidden, width.into()))?,
        down: r.layer(layer, &down, Shape::Matrix(width, hidden.into()))?,
        activation,
    })
}

/// The routed experts of a layer, without biases, norms or a shared expert.
pub(crate) fn moe(
    r: &mut Reader,
    layer: u32,
    common: &Common,
    activation: Activation,
    order: RouteOrder,
) -> Result<Moe, Error> {
    let (hidden, experts, top_k) =
        (common.hidden, r.positive("expert_count")?, r.positive("expert_used_count")?);
    if top_k > experts {
        return Err(r.bad_value("expert_used_count", top_k, format!("at most {experts} experts")));
    }
    let width = r.layer_dim(layer, "ffn_down_exps.weight", 0)?;
    let matrix = |rows: u64| Shape::Experts(hidden, rows, experts);
    let gate_up = match r.has(layer, "ffn_gate_up_exps.weight") {
        true => GateUp::Fused(r.layer(layer, "ffn_gate_up_exps.weight", matrix(2 * u64::from(width)))?),
        false => GateUp::Separate {
            gate: r.layer(layer, "ffn_gate_exps.weight", matrix(width.into()))?.into(),
            up: r.layer(layer, "ffn_up_exps.weight", matrix(width.into()))?.into(),
        },
    };
    Ok(Moe {
        experts,
        top_k,
        order,
        router_norm: None,
        router: r.layer(layer, "ffn_gate_inp.weight", Shape::Matrix(hidden, experts.into()))?.into(),
        input_norm: None,
        gate_up,
        down: r.layer(layer, "ffn_down_exps.weight", Shape::Experts(width, hidden.into(), experts))?.into(),
        activation,
        expert_scale: None,
        post_norm: None,
        shared: None,
    })
}

/// The expert that every row uses, with the sigmoid of its own gate.
pub(crate) fn shared_expert(
    r: &mut Reader,
    layer: u32,
    common: &Common,
    activation: Activation,
) -> Result<SharedExpert, Error> {
    Ok(SharedExpert {
        dense: dense_named(r, layer, common, activation, "_shexp")?,
        post_norm: None,
        gate: Some(r.layer(layer, "ffn_gate_inp_shexp.weight", Shape::Vector(common.hidden))?),
    })
}
