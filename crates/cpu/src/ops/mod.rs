//! The operations, a file a kind. Each takes views of its inputs and returns its output, row after row.

mod attention;
mod delta_net;
mod elementwise;
mod embed;
mod experts;
mod linear;
mod norm;
mod rope;

pub(crate) use attention::{AttentionRule, attention};
pub(crate) use delta_net::{DeltaInputs, conv, delta_net};
pub(crate) use elementwise::{activate, add, add_bias, scalar, scale, sigmoid_gate, slice, softcap};
pub(crate) use embed::embed;
pub(crate) use experts::{expert_bias, expert_linear, expert_sum, route};
pub(crate) use linear::linear;
pub(crate) use norm::{l2_norm, rms_norm};
pub(crate) use rope::{Angles, rope};
