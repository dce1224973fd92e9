#version 460
// All that decides over a single row's experts: its RMS norm, the router's logits and the logit of a shared expert's gate, the choice.
//
// Every workgroup norms the row for itself, as norm.comp does where a workgroup takes a group, and keeps it in shared memory; the first one stores it.
// A subgroup computes a logit, its lanes splitting the row by quads. The workgroup that is the last to come chooses.
#include "types.glsl"
#include "last.glsl"
#include "order.glsl"
#include "workgroup.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OWN = 1;   // experts of a lane
layout(constant_id = 2) const uint SLOTS = 1; // chosen experts of a lane
layout(constant_id = 3) const uint CHUNKS = 1; // of four columns, a lane that norms
layout(constant_id = 4) const uint QUADS = 1; // of a row
layout(constant_id = 5) const bool GATE = false;
layout(constant_id = 6) const bool BIAS = false;

layout(push_constant, scalar) uniform Push {
    Vec4In x;
    Vec4In norm;
    Vec4In router;  // [expert][column]
    F32In bias;     // of the logits
    Vec4In gate;    // of the shared expert
    Vec4 normed;
    CommonF32 logits;
    F32 gate_logit;
    F32 choice;     // top_k experts, top_k weights
    CommonU32 done; // workgroups that are done; 0 before and after
    uint experts;
    uint top_k;
    uint over_all;
    float eps;
} p;

shared vec4 row[QUADS];

float logit(uint expert) {
    return p.logits.v[expert];
}

float square_sum(vec4 v, float sum) {
    sum = fma(v.x, v.x, sum);
    sum = fma(v.y, v.y, sum);
    sum = fma(v.z, v.z, sum);
    return fma(v.w, v.w, sum);
}

#include "choose.glsl"

// Quads that a lane loads before it waits.
const uint AHEAD = 8;

void main() {
    // What is read later is on its way while the row is normed.
    uint expert = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID, lane = gl_SubgroupInvocationID;
    bool is_gate = GATE && expert == p.experts, any = expert < p.experts || is_gate;
    uint matrix = is_gate ? 0 : min(expert, p.experts - 1) * QUADS;
    vec4 w[AHEAD];
    [[unroll]] for (uint i = 0; i < AHEAD; i++) {
        uint at = matrix + min(lane + i * gl_SubgroupSize, QUADS - 1);
        if (is_gate) w[i] = p.gate.v[at];
        else w[i] = p.router.v[at];
    }
    float bias = BIAS ? p.bias.v[min(expert, p.experts - 1)] : 0.0;
    vec4 x[CHUNKS], norm[CHUNKS];
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint c = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        x[i] = p.x.v[min(c, QUADS - 1)];
        norm[i] = p.norm.v[min(c, QUADS - 1)];
        if (c >= QUADS) x[i] = vec4(0.0);
        squares = square_sum(x[i], squares);
    }
    float factor = 1.0 / sqrt(workgroup_sum(squares) / float(4 * QUADS) + p.eps);
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint c = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        if (c >= QUADS) continue;
        vec4 v = x[i] * factor;
        v *= norm[i];
        row[c] = v;
        if (gl_WorkGroupID.x == 0) p.normed.v[c] = v;
    }
    barrier();

    float sum = 0.0;
    for (uint first = 0; first < QUADS; first += AHEAD * gl_SubgroupSize) {
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            uint c = first + lane + i * gl_SubgroupSize;
            if (c < QUADS) {
                vec4 v = row[c];
                [[unroll]] for (uint e = 0; e < 4; e++) sum = fma(w[i][e], v[e], sum);
            }
            c += AHEAD * gl_SubgroupSize;
            if (c < QUADS) {
                if (is_gate) w[i] = p.gate.v[matrix + c];
                else w[i] = p.router.v[matrix + c];
            }
        }
    }
    sum = subgroupAdd(sum);
    if (any && subgroupElect()) {
        if (is_gate) p.gate_logit.v[0] = sum;
        else p.logits.v[expert] = BIAS ? sum + bias : sum;
    }

    if (comes_last(p.done, 0, gl_NumWorkGroups.x) && gl_SubgroupID == 0) choose(0);
}
