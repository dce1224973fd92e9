#version 460
// The experts of each row and their weights; a subgroup works on a row.
#include "types.glsl"
#include "order.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OWN = 1;   // experts of a lane
layout(constant_id = 2) const uint SLOTS = 1; // chosen experts of a lane

layout(push_constant, scalar) uniform Push {
    F32In logits;
    F32 choice; // [row](top_k experts, top_k weights)
    uint n_rows;
    uint experts;
    uint top_k;
    uint logits_stride;
    uint choice_stride;
    uint over_all; // weights are parts of the sum over all experts, not over the chosen ones
} p;

uint row;

float logit(uint expert) {
    return p.logits.v[row * p.logits_stride + expert];
}

#include "choose.glsl"

void main() {
    row = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    if (row < p.n_rows) choose(row * p.choice_stride);
}
