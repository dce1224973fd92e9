#version 460
// The experts of each row and their weights; a subgroup works on a row.
#include "types.glsl"
#include "order.glsl"

layout(local_size_x_id = 0) in;

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

// e^x for x up to 0.
float power(float x) {
    return x < -87.0 ? 0.0 : exp(x);
}

void main() {
    uint row = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    if (row >= p.n_rows) return;
    uint logits = row * p.logits_stride, choice = row * p.choice_stride;
    bool writes = gl_SubgroupInvocationID == 0;

    // What was chosen last: the next one is the first that comes after it.
    uvec2 last = uvec2(0xffffffffu);
    float greatest = 0.0, chosen = 0.0;
    for (uint slot = 0; slot < p.top_k; slot++) {
        uvec2 best = NO_CANDIDATE;
        for (uint i = gl_SubgroupInvocationID; i < p.experts; i += gl_SubgroupSize) {
            uvec2 c = candidate(p.logits.v[logits + i], i);
            if (comes_before(last, c) && comes_before(c, best)) best = c;
        }
        uint key = subgroupMax(best.x);
        last = uvec2(key, subgroupMax(best.x == key ? best.y : 0));
        float value = p.logits.v[logits + ~last.y];
        if (slot == 0) greatest = value;
        float weight = power(value - greatest);
        chosen += weight;
        if (writes) {
            p.choice.v[choice + slot] = float(~last.y);
            p.choice.v[choice + p.top_k + slot] = weight;
        }
    }
    float sum = chosen;
    if (p.over_all != 0) {
        float part = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < p.experts; i += gl_SubgroupSize) {
            part += power(p.logits.v[logits + i] - greatest);
        }
        sum = subgroupAdd(part);
    }
    if (!writes) return;
    for (uint slot = 0; slot < p.top_k; slot++) p.choice.v[choice + p.top_k + slot] /= sum;
}
