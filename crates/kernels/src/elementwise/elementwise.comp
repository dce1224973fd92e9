#version 460
// Operations on columns, each row for itself; an invocation computes four columns.
// variants: OP=add|add_bias|scale|softcap|swiglu|geglu|oai_swiglu|sigmoid_gate|slice
#include "types.glsl"
#include "grid.glsl"
#include "chunk.glsl"
#include "gate.glsl"

// `b` is the second operand: as wide as `a`, or one row (add_bias), or one element a row (scale, sigmoid_gate).
layout(push_constant, scalar) uniform Push {
    F32In a;
    F32In b;
    F32 out_;
    uint n_rows;
    uint width;
    uint a_stride;
    uint b_stride;
    uint out_stride;
    uint flag;   // scale: `b` holds the factor; sigmoid_gate: one gate a row, or stride of a part; slice: stride of a part
    uint first;  // slice, sigmoid_gate: first column of a part
    uint len;    // slice, sigmoid_gate: columns of a part
    float alpha; // scale: factor; softcap: cap; oai_swiglu: alpha
    float limit; // oai_swiglu: limit
} p;

// tanh and exp of large arguments may give NaN.
vec4 safe_tanh(vec4 x) {
    return tanh(clamp(x, -15.0, 15.0));
}

void main() {
    uint chunks = (p.width + 3) / 4;
    uint id = invocation_number();
    uint row = id / chunks, column = id % chunks * 4;
    if (row >= p.n_rows) return;
    uint left = p.width - column;
    uint a_at = row * p.a_stride + column, b_at = row * p.b_stride + column;

#ifdef OP_SLICE
    vec4 v = vec4(0.0);
    for (uint i = 0; i < min(left, 4u); i++) {
        uint part = (column + i) / p.len;
        v[i] = p.a.v[row * p.a_stride + part * p.flag + p.first + (column + i) % p.len];
    }
#else
    vec4 v = load4(p.a, a_at, left);
#endif
#ifdef OP_ADD
    v += load4(p.b, b_at, left);
#endif
#ifdef OP_ADD_BIAS
    v += load4(p.b, column, left);
#endif
#ifdef OP_SCALE
    v *= p.flag != 0 ? p.b.v[0] : p.alpha;
#endif
#ifdef OP_SOFTCAP
    v = p.alpha * safe_tanh(v / p.alpha);
#endif
#ifdef OP_SWIGLU
    v = v * sigmoid(v) * load4(p.b, b_at, left);
#endif
#ifdef OP_GEGLU
    v = 0.5 * v * (1.0 + safe_tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))) * load4(p.b, b_at, left);
#endif
#ifdef OP_OAI_SWIGLU
    vec4 gate = min(v, p.limit), up = clamp(load4(p.b, b_at, left), -p.limit, p.limit);
    v = gate * sigmoid(p.alpha * gate) * (up + 1.0);
#endif
#ifdef OP_SIGMOID_GATE
    if (p.flag > 1) b_at = row * p.b_stride + column / p.len * p.flag + p.first + column % p.len;
    v *= sigmoid(p.flag == 1 ? vec4(p.b.v[row * p.b_stride]) : load4(p.b, b_at, left));
#endif
    store4(p.out_, row * p.out_stride + column, left, v);
}
