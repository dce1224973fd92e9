#version 460
// All that decides over a single row's experts: its RMS norm, the router's logits and the logit of a shared expert's gate, the choice.
//
// A workgroup computes LOGITS logits, all its invocations each: factor · Σ w·(x·norm), whose factor is known when the squares of x are summed. So all
// that is read is asked for at once. The first workgroup stores the normed row, with the bits that norm.comp gives where a workgroup takes a group. The
// one that is the last to come chooses.
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
layout(constant_id = 7) const uint LOGITS = 1; // of a workgroup
layout(constant_id = 8) const uint PARTS = 1; // LOGITS · subgroups

layout(push_constant, scalar) uniform Push {
    Vec4In x;
    Vec4In norm;
    uvec2 router;   // vec4 [expert][column]
    F32In bias;     // of the logits
    uvec2 gate;     // vec4, of the shared expert
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

// Of each logit each subgroup's part.
shared float parts[PARTS];

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

void main() {
    vec4 x[CHUNKS], norm[CHUNKS], w[LOGITS][CHUNKS];
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint c = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        x[i] = p.x.v[min(c, QUADS - 1)];
        norm[i] = p.norm.v[min(c, QUADS - 1)];
        if (c >= QUADS) x[i] = vec4(0.0);
    }
    const uint first = gl_WorkGroupID.x * LOGITS;
    [[unroll]] for (uint e = 0; e < LOGITS; e++) {
        bool is_gate = GATE && first + e == p.experts;
        Vec4In matrix = Vec4In(is_gate ? p.gate : address_at(p.router, min(first + e, p.experts - 1), 16 * QUADS));
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            w[e][i] = matrix.v[min(gl_LocalInvocationIndex + i * gl_WorkGroupSize.x, QUADS - 1)];
        }
    }
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) squares = square_sum(x[i], squares);
    [[unroll]] for (uint e = 0; e < LOGITS; e++) {
        float sum = 0.0;
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            vec4 v = x[i] * norm[i];
            [[unroll]] for (uint j = 0; j < 4; j++) sum = fma(w[e][i][j], v[j], sum);
        }
        sum = subgroupAdd(sum);
        if (subgroupElect()) parts[e * gl_NumSubgroups + gl_SubgroupID] = sum;
    }
    // Its barrier is that of the parts too.
    float factor = 1.0 / sqrt(workgroup_sum(squares) / float(4 * QUADS) + p.eps);
    if (gl_WorkGroupID.x == 0) {
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            uint c = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
            vec4 v = x[i] * factor;
            if (c < QUADS) p.normed.v[c] = v * norm[i];
        }
    }
    const uint expert = first + gl_LocalInvocationIndex;
    if (gl_LocalInvocationIndex < LOGITS && expert < p.experts + uint(GATE)) {
        float sum = 0.0;
        for (uint i = 0; i < gl_NumSubgroups; i++) sum += parts[gl_LocalInvocationIndex * gl_NumSubgroups + i];
        sum *= factor;
        if (expert == p.experts) p.gate_logit.v[0] = sum;
        else p.logits.v[expert] = BIAS ? sum + p.bias.v[expert] : sum;
    }

    if (comes_last(p.done, 0, gl_NumWorkGroups.x) && gl_SubgroupID == 0) choose(0);
}
