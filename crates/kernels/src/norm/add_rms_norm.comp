#version 460
// Residual sum and its RMS norm: sum = a + b, out = norm(sum). A subgroup or a workgroup works on a row, in the order of
// norm.comp.
// variants: TEAM=subgroup|workgroup
#include "types.glsl"
#include "chunk.glsl"
#include "workgroup.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    F32In a;
    F32In b;
    F32In weight;
    F32 sum;
    F32 out_;
    uint width;
    uint n_rows;
    uint a_stride;
    uint b_stride;
    uint sum_stride;
    uint out_stride;
    uint has_weight;
    float eps;
} p;

void main() {
#ifdef TEAM_SUBGROUP
    uint row = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
#else
    uint row = folded_group();
    uint lane = gl_LocalInvocationIndex, lanes = gl_WorkGroupSize.x;
#endif
    if (row >= p.n_rows) return;
    uint chunks = (p.width + 3) / 4;
    uint a = row * p.a_stride, b = row * p.b_stride, sum = row * p.sum_stride, o = row * p.out_stride;

    float squares = 0.0;
    for (uint c = lane; c < chunks; c += lanes) {
        uint left = p.width - 4 * c;
        vec4 v = load4(p.a, a + 4 * c, left) + load4(p.b, b + 4 * c, left);
        store4(p.sum, sum + 4 * c, left, v);
        squares = square_sum(v, squares);
    }
#ifdef TEAM_SUBGROUP
    squares = subgroupAdd(squares);
#else
    squares = workgroup_sum(squares);
#endif
    float factor = 1.0 / sqrt(squares / float(p.width) + p.eps);

    for (uint c = lane; c < chunks; c += lanes) {
        uint left = p.width - 4 * c;
        // The same sum again: the inputs are in the cache.
        vec4 v = (load4(p.a, a + 4 * c, left) + load4(p.b, b + 4 * c, left)) * factor;
        if (p.has_weight != 0) v *= load4(p.weight, 4 * c, left);
        store4(p.out_, o + 4 * c, left, v);
    }
}
