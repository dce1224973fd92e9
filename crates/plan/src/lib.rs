//! `Op` and `Plan`: the leaf that the model, the kernels and both executors share.
//!
//! A [`Plan`] says what a model computes, once: plain operations over named buffers. It knows no row counts, no device and no
//! fusion. Per-token prefill, batched prefill and decode are the same plan with other rows ([`Row`]), so a rule of a model can
//! not exist on one path and be missing on another.

mod check;
mod logit_rows;
mod op;
mod operand;
mod rope;
mod spec;
mod stack;

pub use check::PlanError;
pub use op::{Activation, HeadOrder, Op, Pairing, RouteOrder, Scalar};
pub use operand::{ActId, Cols, KvId, RopeId, StateId, WeightId};
pub use rope::{RopeTable, YarnScaling};
pub use spec::{Act, KvSpec, Node, Plan, Row, Rows, StateSpec, Weight};
