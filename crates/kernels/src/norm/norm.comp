#version 460
// RMS and L2 norms over groups of columns; a subgroup or a workgroup works on a group. Rows that are packed too are a workgroup's, its subgroups
// taking groups in turn: a row's factor is that of its largest element.
// variants: TEAM=subgroup|workgroup|row; OP=rms|l2
#include "types.glsl"
#include "chunk.glsl"
#include "workgroup.glsl"
#include "gate.glsl"
#include "packed_row.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint GROUPS = 1; // of a subgroup, where a workgroup takes a row
layout(constant_id = 3) const uint CHUNKS = 1; // of four columns, a lane

layout(push_constant, scalar) uniform Push {
    F32In x;
    F32In weight;
    F32In gate;
    F32 out_;
    uvec2 packed;
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

// Of the sum of a group's squares.
float factor_of(float squares) {
#ifdef OP_L2
    return p.scale / sqrt(max(squares, p.eps * p.eps));
#else
    return 1.0 / sqrt(squares / float(p.group) + p.eps);
#endif
}

// Four columns of a group, normed, from column `first` of the row.
vec4 normed(vec4 v, float factor, uint row, uint first, uint c) {
    uint left = p.group - 4 * c;
    v *= factor;
    if (p.has_weight != 0) v *= load4(p.weight, 4 * c, left);
    if (p.has_gate != 0) {
        vec4 gate = load4(p.gate, row * p.gate_stride + first + 4 * c, left);
        v = gate * sigmoid(gate) * v;
    }
    return v;
}

#ifdef TEAM_ROW
vec4 kept[GROUPS * CHUNKS];

void main() {
    uint row = folded_group(), chunks = p.group / 4;
    if (row >= p.teams / p.groups) return;
    float greatest = 0.0;
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        uint number = gl_SubgroupID + g * gl_NumSubgroups, first = number * p.group;
        float squares = 0.0;
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            uint c = gl_SubgroupInvocationID + i * gl_SubgroupSize;
            vec4 v = vec4(0.0);
            if (number < p.groups && c < chunks) v = load4(p.x, row * p.x_stride + first + 4 * c, 4);
            kept[g * CHUNKS + i] = v;
            squares = square_sum(v, squares);
        }
        float factor = factor_of(subgroupAdd(squares));
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            uint c = gl_SubgroupInvocationID + i * gl_SubgroupSize;
            if (number >= p.groups || c >= chunks) continue;
            vec4 v = normed(kept[g * CHUNKS + i], factor, row, first, c);
            store4(p.out_, row * p.out_stride + first + 4 * c, 4, v);
            kept[g * CHUNKS + i] = v;
            greatest = max(greatest, largest_magnitude(v));
        }
    }
    uint exponent = packed_exponent(workgroup_max(greatest)), pitch = p.groups * chunks;
    float scale = packed_scale(exponent);
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        uint number = gl_SubgroupID + g * gl_NumSubgroups;
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            uint c = gl_SubgroupInvocationID + i * gl_SubgroupSize;
            if (number >= p.groups || c >= chunks) continue;
            store_packed(Halves(p.packed), 2 * row * pitch, number * chunks + c, scale * kept[g * CHUNKS + i]);
        }
    }
    uint rows = p.teams / p.groups;
    if (gl_LocalInvocationIndex == 0) F32(address_at(p.packed, rows, 8 * pitch)).v[row] = packed_inverse(exponent);
}
#else
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
    float factor = factor_of(squares);
    for (uint c = lane; c < chunks; c += lanes) {
        uint left = p.group - 4 * c;
        vec4 v = normed(load4(p.x, x + 4 * c, left), factor, row, first, c);
        store4(p.out_, row * p.out_stride + first + 4 * c, left, v);
    }
}
#endif
