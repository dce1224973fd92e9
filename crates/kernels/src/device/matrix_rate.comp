#version 460
// Cooperative matrices in registers: products alone, no memory until the end.
// variants: SCOPE=subgroup|workgroup; TYPES=f16_f16|f16_f32|bf16_f32|i8_i32
#include "types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#include "grid.glsl"

#ifdef SCOPE_WORKGROUP
#extension GL_NV_cooperative_matrix2 : require
#define SCOPE gl_ScopeWorkgroup
#define SUMS 1
#else
#define SCOPE gl_ScopeSubgroup
// Independent sums, to hide the latency of a product.
#define SUMS 8
#endif

#ifdef TYPES_BF16_F32
#extension GL_EXT_bfloat16 : require
#define IN bfloat16_t
#define OUT float
#elif defined(TYPES_F16_F32)
#define IN float16_t
#define OUT float
#elif defined(TYPES_F16_F16)
#define IN float16_t
#define OUT float16_t
#else
#define IN int8_t
#define OUT int32_t
#endif

layout(constant_id = 1) const uint M = 16;
layout(constant_id = 2) const uint N = 16;
layout(constant_id = 3) const uint K = 16;

// `out_`: the sum of the elements that each subgroup holds.
layout(push_constant, scalar) uniform Push {
    F32 out_;
    uint rounds;
    float one; // not known to the compiler
} p;

void main() {
    coopmat<IN, SCOPE, M, K, gl_MatrixUseA> a = coopmat<IN, SCOPE, M, K, gl_MatrixUseA>(IN(p.one));
    coopmat<IN, SCOPE, K, N, gl_MatrixUseB> plus = coopmat<IN, SCOPE, K, N, gl_MatrixUseB>(IN(p.one));
    coopmat<IN, SCOPE, K, N, gl_MatrixUseB> minus = coopmat<IN, SCOPE, K, N, gl_MatrixUseB>(IN(-p.one));
    coopmat<OUT, SCOPE, M, N, gl_MatrixUseAccumulator> c[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        c[i] = coopmat<OUT, SCOPE, M, N, gl_MatrixUseAccumulator>(OUT(p.one));
        c[i] = coopMatMulAdd(a, plus, c[i]);
    }
    // Each round leaves the sums as they were, so that they stay small integers, exact in every type.
    for (uint round = 0; round < p.rounds; round++) {
        [[unroll]] for (uint i = 0; i < SUMS; i++) c[i] = coopMatMulAdd(a, minus, c[i]);
        [[unroll]] for (uint i = 0; i < SUMS; i++) c[i] = coopMatMulAdd(a, plus, c[i]);
    }
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        for (uint e = 0; e < c[i].length(); e++) sum += float(c[i][e]);
    }
    sum = subgroupAdd(sum);
    if (subgroupElect()) p.out_.v[folded_group() * gl_NumSubgroups + gl_SubgroupID] = sum;
}
