//! From a spec to a plan: written once, by kind of mixer and kind of FFN.

mod attention;
mod builder;
mod delta_net;
mod ffn;

use crate::spec::{Ffn, LayerSpec, Mixer, ModelSpec};
use builder::Builder;
use zinc_plan::{Cols, Op, Plan, Scalar};

/// The operations of a model for one row.
pub fn lower(spec: &ModelSpec) -> Plan {
    let mut b = Builder::new(spec);
    let (table, scale) = (spec.embed, spec.embed_scale);
    let mut x = b.emit("embed", spec.hidden, |out| Op::Embed { table, scale, out });
    for (i, layer) in spec.layers.iter().enumerate() {
        b.enter_layer(i as u32);
        x = lower_layer(&mut b, x, layer);
    }
    b.leave_layers();
    let x = b.rms_norm("final_norm", x, Some(spec.final_norm), spec.hidden);
    let mut logits = b.linear("head", x, spec.head);
    if let Some(cap) = spec.softcap {
        let x = logits;
        logits = b.emit("softcap", x.width, |out| Op::Softcap { x, cap, out });
    }
    b.finish(logits)
}

fn lower_layer(b: &mut Builder, x: Cols, layer: &LayerSpec) -> Cols {
    let hidden = x.width;
    let h = b.rms_norm("attn_norm", x, Some(layer.norm), hidden);
    let mut mixed = match &layer.mixer {
        Mixer::Attention(a) => attention::lower(b, h, a),
        Mixer::DeltaNet(d) => delta_net::lower(b, h, d),
    };
    if let Some(w) = layer.post_norm {
        mixed = b.rms_norm("attn_post_norm", mixed, Some(w), hidden);
    }
    let x = b.add("attn_residual", x, mixed);

    let h = b.rms_norm("ffn_norm", x, Some(layer.ffn_norm), hidden);
    let mut f = match &layer.ffn {
        Ffn::Dense(d) => ffn::dense(b, ffn::DENSE, h, d),
        Ffn::Moe(m) => ffn::moe(b, x, h, m),
    };
    if let Some(w) = layer.ffn_post_norm {
        f = b.rms_norm("ffn_post_norm", f, Some(w), hidden);
    }
    let mut x = b.add("ffn_residual", x, f);
    if let Some(w) = layer.output_scale {
        x = b.scale("layer_scale", x, Scalar::Weight(w));
    }
    x
}
