#version 460
// RMS and L2 norms over groups of columns; a subgroup or a workgroup works on a group.
// variants: TEAM=subgroup|workgroup; OP=rms|l2
#include "types.glsl"
#include "chunk.glsl"
#include "workgroup.glsl"
#include "gate.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    F32In x;
    F32In weight;
    F32In gate;
    F32 out_;
    uint group;
    uint groups; // a row
    uint teams;  // rows * groups
    uint x_stride;
    uint out_stride;
    uint gate_stride;
    uint has_weight;
    uint has_gate; // the second operand of SwiGLU
    float eps;
    float scale;
} p;

void main() {
#ifdef TEAM_SUBGROUP
    uint team = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
#else
    uint team = folded_group();
    uint lane = gl_LocalInvocationIndex, lanes = gl_WorkGroupSize.x;
#endif
    if (team >= p.teams) return;
    uint row = team / p.groups, first = team % p.groups * p.group;
    uint x = row * p.x_stride + first;
    uint chunks = (p.group + 3) / 4;

    float squares = 0.0;
    for (uint c = lane; c < chunks; c += lanes) {
        squares = square_sum(load4(p.x, x + 4 * c, p.group - 4 * c), squares);
    }
#ifdef TEAM_SUBGROUP
    squares = subgroupAdd(squares);
#else
    squares = workgroup_sum(squares);
#endif
#ifdef OP_L2
    float factor = p.scale / sqrt(max(squares, p.eps * p.eps));
#else
    float factor = 1.0 / sqrt(squares / float(p.group) + p.eps);
#endif

    for (uint c = lane; c < chunks; c += lanes) {
        uint left = p.group - 4 * c;
        vec4 v = load4(p.x, x + 4 * c, left);
        v *= factor;
        if (p.has_weight != 0) v *= load4(p.weight, 4 * c, left);
        if (p.has_gate != 0) {
            vec4 gate = load4(p.gate, row * p.gate_stride + first + 4 * c, left);
            v = gate * sigmoid(gate) * v;
        }
        store4(p.out_, row * p.out_stride + first + 4 * c, left, v);
    }
}
