#version 460
// Which elements of a matrix lie in which lane: those of a matrix of 16 × 16, numbered by rows, as lane l has them, from 8 · l on; as first factor, then as sums. Then those of
// a matrix of 16 × 8, from 4 · l on; as second factor, then as sums.
#include "types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push { F32 elements; } p;

shared float16_t halves[256];
shared float numbers[256];

void main() {
    for (uint i = gl_LocalInvocationIndex; i < 256; i += gl_WorkGroupSize.x) {
        halves[i] = float16_t(float(i));
        numbers[i] = float(i);
    }
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> factor;
    coopMatLoad(factor, halves, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums;
    coopMatLoad(sums, numbers, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> second;
    coopMatLoad(second, halves, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> few;
    coopMatLoad(few, numbers, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    for (uint e = 0; e < min(factor.length(), 8); e++) p.elements.v[8 * gl_SubgroupInvocationID + e] = float(factor[e]);
    for (uint e = 0; e < min(sums.length(), 8); e++) p.elements.v[256 + 8 * gl_SubgroupInvocationID + e] = sums[e];
    for (uint e = 0; e < min(second.length(), 4); e++) p.elements.v[512 + 4 * gl_SubgroupInvocationID + e] = float(second[e]);
    for (uint e = 0; e < min(few.length(), 4); e++) p.elements.v[640 + 4 * gl_SubgroupInvocationID + e] = few[e];
}
