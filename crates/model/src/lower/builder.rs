//! Adds operations to a plan, each with a buffer of its own.

use crate::spec::{ModelSpec, Projection};
use zinc_plan::{Act, ActId, Cols, KvId, KvSpec, Node, Op, Plan, Rows, Scalar, StateId, StateSpec, WeightId};

pub(crate) struct Builder<'a> {
    spec: &'a ModelSpec,
    plan: Plan,
    layer: Option<u32>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(spec: &'a ModelSpec) -> Self {
        let plan = Plan {
            acts: vec![],
            weights: spec.weights.clone(),
            ropes: spec.ropes.clone(),
            kv: vec![],
            states: vec![],
            ops: vec![],
            logits: Cols { act: ActId(0), first: 0, width: 0 },
        };
        Builder { spec, plan, layer: None }
    }

    /// What follows belongs to this layer.
    pub(crate) fn enter_layer(&mut self, layer: u32) {
        self.layer = Some(layer);
    }

    /// What follows comes after the layers.
    pub(crate) fn leave_layers(&mut self) {
        self.layer = None;
    }

    pub(crate) fn finish(self, logits: Cols) -> Plan {
        Plan { logits, ..self.plan }.select_logits().stack()
    }

    pub(crate) fn push(&mut self, label: &'static str, op: Op) {
        self.plan.ops.push(Node { layer: self.layer, label, op });
    }

    /// An operation with an output of `width` columns.
    pub(crate) fn emit(&mut self, label: &'static str, width: u32, op: impl FnOnce(Cols) -> Op) -> Cols {
        let act = ActId(self.plan.acts.len() as u32);
        self.plan.acts.push(Act { name: label, width, rows: Rows::Batch });
        let out = Cols { act, first: 0, width };
        self.push(label, op(out));
        out
    }

    pub(crate) fn kv(&mut self, spec: KvSpec) -> KvId {
        self.plan.kv.push(spec);
        KvId(self.plan.kv.len() as u32 - 1)
    }

    pub(crate) fn state(&mut self, spec: StateSpec) -> StateId {
        self.plan.states.push(spec);
        StateId(self.plan.states.len() as u32 - 1)
    }

    pub(crate) fn rms_norm(
        &mut self,
        label: &'static str,
        x: Cols,
        weight: Option<WeightId>,
        group: u32,
    ) -> Cols {
        let eps = self.spec.norm_eps;
        self.emit(label, x.width, |out| Op::RmsNorm { x, weight, group, eps, out })
    }

    pub(crate) fn l2_norm(&mut self, label: &'static str, x: Cols, group: u32, scale: f32) -> Cols {
        let eps = self.spec.norm_eps;
        self.emit(label, x.width, |out| Op::L2Norm { x, group, eps, scale, out })
    }

    pub(crate) fn linear(&mut self, label: &'static str, x: Cols, weight: WeightId) -> Cols {
        self.emit(label, self.spec.weight(weight).m, |out| Op::Linear { x, weight, out })
    }

    /// A product and, where it has one, its bias.
    pub(crate) fn project(&mut self, label: &'static str, x: Cols, p: Projection) -> Cols {
        let y = self.linear(label, x, p.weight);
        let Some(bias) = p.bias else { return y };
        self.emit(label, y.width, |out| Op::AddBias { x: y, bias, out })
    }

    /// The product of each chosen expert and, where it has one, its bias.
    pub(crate) fn expert_project(
        &mut self,
        label: &'static str,
        x: Cols,
        choice: Cols,
        p: Projection,
    ) -> Cols {
        let (weight, top_k) = (p.weight, choice.width / 2);
        let width = self.spec.weight(weight).m * top_k;
        let y = self.emit(label, width, |out| Op::ExpertLinear { x, weight, choice, out });
        let Some(bias) = p.bias else { return y };
        self.emit(label, width, |out| Op::ExpertBias { x: y, bias, choice, out })
    }

    pub(crate) fn add(&mut self, label: &'static str, a: Cols, b: Cols) -> Cols {
        self.emit(label, a.width, |out| Op::Add { a, b, out })
    }

    pub(crate) fn scale(&mut self, label: &'static str, x: Cols, by: Scalar) -> Cols {
        self.emit(label, x.width, |out| Op::Scale { x, by, out })
    }

    /// `len` columns from `first` of each `stride` columns.
    pub(crate) fn slice(&mut self, label: &'static str, x: Cols, stride: u32, first: u32, len: u32) -> Cols {
        self.emit(label, x.width / stride * len, |out| Op::Slice { x, stride, first, len, out })
    }

    pub(crate) fn sigmoid_gate(&mut self, label: &'static str, x: Cols, gate: Cols) -> Cols {
        self.emit(label, x.width, |out| Op::SigmoidGate { x, gate, out })
    }
}
