#version 460
// What follows the experts' products; an invocation computes four columns of a row.
// sum: weight(s)·factor[expert(s)]·x[s] over a row's slots in their order. bias: x[s] + bias[expert(s)].
// variants: OP=sum|bias
#include "types.glsl"
#include "grid.glsl"
#include "chunk.glsl"

layout(push_constant, scalar) uniform Push {
    F32In x;
    F32In choice;
    F32In second; // sum: a factor an expert; bias: a part an expert
    F32 out_;
    uint n_rows;
    uint width; // of the output
    uint part;  // columns of a slot
    uint top_k;
    uint x_stride;
    uint choice_stride;
    uint out_stride;
    uint has_factor;
} p;

void main() {
    uint chunks = (p.width + 3) / 4;
    uint id = invocation_number();
    uint row = id / chunks, column = id % chunks * 4;
    if (row >= p.n_rows) return;
    uint left = p.width - column, choice = row * p.choice_stride;
#ifdef OP_SUM
    vec4 v = vec4(0.0);
    for (uint slot = 0; slot < p.top_k; slot++) {
        float factor = p.choice.v[choice + p.top_k + slot];
        if (p.has_factor != 0) factor *= p.second.v[uint(p.choice.v[choice + slot])];
        v = fma(vec4(factor), load4(p.x, row * p.x_stride + slot * p.part + column, left), v);
    }
#else
    vec4 v = load4(p.x, row * p.x_stride + column, left);
    for (uint i = 0; i < min(left, 4u); i++) {
        uint slot = (column + i) / p.part;
        v[i] += p.second.v[uint(p.choice.v[choice + slot]) * p.part + (column + i) % p.part];
    }
#endif
    store4(p.out_, row * p.out_stride + column, left, v);
}
