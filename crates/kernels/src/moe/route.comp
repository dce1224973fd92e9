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

// e^x for x up to 0.
float power(float x) {
    return x < -87.0 ? 0.0 : exp(x);
}

void main() {
    uint row = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    if (row >= p.n_rows) return;
    const uint logits = row * p.logits_stride, lane = gl_SubgroupInvocationID, size = gl_SubgroupSize;

    // Read once: expert j · size + lane.
    uint keys[OWN];
    [[unroll]] for (uint j = 0; j < OWN; j++) {
        uint i = j * size + lane;
        keys[j] = i < p.experts ? order_key(p.logits.v[logits + i]) : 0;
    }
    // What was chosen last: the next one is the first that comes after it. Slot j · size + lane stays with a lane.
    uvec2 last = uvec2(0xffffffffu);
    float greatest = 0.0, chosen = 0.0;
    uint experts[SLOTS];
    float weights[SLOTS];
    for (uint slot = 0; slot < p.top_k; slot++) {
        uvec2 best = NO_CANDIDATE;
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            uint i = j * size + lane;
            uvec2 c = uvec2(keys[j], ~i);
            if (i < p.experts && comes_before(last, c) && comes_before(c, best)) best = c;
        }
        uint key = subgroupMax(best.x);
        last = uvec2(key, subgroupMax(best.x == key ? best.y : 0));
        float value = order_value(key); // of key 0 no number, as the logit
        if (slot == 0) greatest = value;
        float weight = power(value - greatest);
        chosen += weight;
        [[unroll]] for (uint j = 0; j < SLOTS; j++) {
            if (slot == j * size + lane) {
                experts[j] = ~last.y;
                weights[j] = weight;
            }
        }
    }
    float sum = chosen;
    if (p.over_all != 0) {
        float part = 0.0;
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            if (j * size + lane < p.experts) part += power(order_value(keys[j]) - greatest);
        }
        sum = subgroupAdd(part);
    }
    const uint choice = row * p.choice_stride;
    [[unroll]] for (uint j = 0; j < SLOTS; j++) {
        uint slot = j * size + lane;
        if (slot < p.top_k) {
            p.choice.v[choice + slot] = float(experts[j]);
            p.choice.v[choice + p.top_k + slot] = weights[j] / sum;
        }
    }
}
