#version 460
// variants: FORMAT=shared
//
// What gemm.comp computes, on matrices of 16 × 16 × 16 whose first factor lies in the subgroup's 32 lanes so that lane l has, of rows l / 4 and l / 4 + 8, elements
// 2t, 2t + 1, 2t + 8 and 2t + 9, t = l % 4: as a word of four codes of packed rows (packed_row.glsl). There weights are decoded into the registers of matrices where
// they are multiplied, and only x goes through shared memory: a third of its traffic less, no pause for decoding between steps.
// `lanes/mod.rs` asks the device whether its matrices are such.
//
// A subgroup has SUB_ROWS rows (of each matrix) and all COLUMNS of the tile, so that each weight is decoded once. Two steps of x are in shared memory; that of the step
// after the next and the next step's codes are on the way.
#include "types.glsl"
#include "decode.glsl"
#include "format.glsl"
#include "weights.glsl"
#include "activation.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define MATRIX_KHR

#include "gemm_push.glsl"
#include "expert_slots.glsl"
#include "gemm_halves.glsl"

const uint MATRICES = GATE ? 2 : 1;
#include "gemm_finish.glsl"

// Quads of words from a column to the next: an odd number, so that neighbouring columns are in different banks.
const uint PITCH = CHUNK / 8 + 1;
const uint X_TASKS = COLUMNS * (CHUNK / 8) / THREADS;
// Of each row: (a, b) of both runs, or where there is no b, a of all four.
const uint W_ROWS = MATRICES * ROWS;
shared uvec4 x_stage[2 * COLUMNS * PITCH];
shared uvec2 scale_stage[2 * W_ROWS];

// The row of the workgroup's matrices that row r of fragment f of the subgroup is.
uint fragment_row(uint f, uint r) {
    return f / ROW_MATRICES * ROWS + gl_SubgroupID % UNIT_ROWS * SUB_ROWS + f % ROW_MATRICES * 16 + r;
}

// The address of such a row. Rows beyond the end stand for the last one.
uvec2 row_address(uint row) {
    return address_at(own_matrix(row < ROWS ? p.weight : p.up), min(gl_WorkGroupID.y * ROWS + row % ROWS, p.m - 1), p.row_bytes);
}

uint pack(float a, float b) {
    return packFloat2x16(f16vec2(vec2(a, b)));
}

// The scales of a row in a chunk, as the lanes want them.
uvec2 row_scales(Codes codes) {
#if HAS_MIN == 1
    uvec2 packed;
    [[unroll]] for (uint run = 0; run < 2; run++) {
        const vec2 scale = WEIGHT_SCALE * run_scale(codes, run);
        packed[run] = pack(packed_unit(run, 0) * scale.x, fma(MIDDLE - PACKED_ORIGIN, scale.x, scale.y));
    }
    return packed;
#else
    float a[4];
    [[unroll]] for (uint run = 0; run < 4; run++) a[run] = WEIGHT_SCALE * packed_unit(run, 0) * run_scale(codes, run).x;
    return uvec2(pack(a[0], a[1]), pack(a[2], a[3]));
#endif
}

// Bytes 0 and 2 of w as weights of a row with these scales.
f16vec2 two_weights(uint w, uint run, uvec2 scales) {
    const f16vec2 v = two_bytes(w) - f16vec2(float16_t(1024.0 + MIDDLE / packed_unit(run, 0)));
#if HAS_MIN == 1
    const f16vec2 scale = unpackFloat2x16(scales[run]);
    return fma(v, scale.xx, scale.yy);
#else
    const f16vec2 both = unpackFloat2x16(scales[run / 2]);
    return v * (run % 2 == 0 ? both.xx : both.yy);
#endif
}

// Asks for x of a step.
void load_x(uint step, uint first_column, inout uvec4 x[X_TASKS]) {
    const uint quad = gl_LocalInvocationIndex % (CHUNK / 8), column = gl_LocalInvocationIndex / (CHUNK / 8);
    const uint at = (chunk_base(step) + quad / (RUN / 8) * RUN_STRIDE) / 8 + quad % (RUN / 8);
    [[unroll]] for (uint i = 0; i < X_TASKS; i++) {
        const uint c = column + i * (THREADS * 8 / CHUNK);
        x[i] = UVec4In(p.x).v[(WHOLE ? (first_column + c) * p.x_stride : x_start(first_column, c)) + at];
    }
}

void store_x(uint slot, uvec4 x[X_TASKS]) {
    [[unroll]] for (uint i = 0; i < X_TASKS; i++) {
        const uint task = i * THREADS + gl_LocalInvocationIndex;
        x_stage[(slot * COLUMNS + task / (CHUNK / 8)) * PITCH + task % (CHUNK / 8)] = x[i];
    }
}

void multiply() {
    take_scales();
    const uint first_row = gl_WorkGroupID.y * ROWS, first_column = gl_WorkGroupID.x * COLUMNS;
    const uvec3 plane = planes(p.k / BLOCK_ELEMS);
    const uint t = gl_SubgroupInvocationID % 4;
    const bool own_row = gl_LocalInvocationIndex < W_ROWS;
    const uvec2 scale_row = row_address(min(gl_LocalInvocationIndex, W_ROWS - 1));
    uvec2 rows[2 * W_MATRICES];
    [[unroll]] for (uint r = 0; r < 2 * W_MATRICES; r++) {
        rows[r] = row_address(fragment_row(r / 2, gl_SubgroupInvocationID / 4 + r % 2 * 8));
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = Sum(0.0);

    Share shares[2 * W_MATRICES], next[2 * W_MATRICES];
    uvec4 x[X_TASKS];
    const uint first = own_steps().x, last = own_steps().y - 1;
    [[unroll]] for (uint r = 0; r < 2 * W_MATRICES; r++) shares[r] = load_share(rows[r], plane, first, t);
    load_x(first, first_column, x);
    const uvec2 first_scales = row_scales(load_chunk(scale_row, plane, first));
    if (own_row) scale_stage[first % 2 * W_ROWS + gl_LocalInvocationIndex] = first_scales;
    store_x(first % 2, x);
    load_x(min(first + 1, last), first_column, x);
    barrier();
    for (uint i = first; i <= last; i++) {
        const uint slot = i % 2, ahead = min(i + 1, last);
        [[unroll]] for (uint r = 0; r < 2 * W_MATRICES; r++) next[r] = load_share(rows[r], plane, ahead, t);
        const Codes of_row = load_chunk(scale_row, plane, ahead);
        uvec2 scales[2 * W_MATRICES];
        [[unroll]] for (uint r = 0; r < 2 * W_MATRICES; r++) {
            scales[r] = scale_stage[slot * W_ROWS + fragment_row(r / 2, gl_SubgroupInvocationID / 4 + r % 2 * 8)];
        }
        [[unroll]] for (uint k = 0; k < CHUNK / 16; k++) {
            const uint run = k / (RUN / 16), word = k % (RUN / 16);
            coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> w[W_MATRICES];
            [[unroll]] for (uint f = 0; f < W_MATRICES; f++) {
                const uint low = share_packed(shares[2 * f], run, word), high = share_packed(shares[2 * f + 1], run, word);
                f16vec2 v = two_weights(low, run, scales[2 * f]);
                w[f][0] = v.x;
                w[f][1] = v.y;
                v = two_weights(low >> 8, run, scales[2 * f]);
                w[f][2] = v.x;
                w[f][3] = v.y;
                v = two_weights(high, run, scales[2 * f + 1]);
                w[f][4] = v.x;
                w[f][5] = v.y;
                v = two_weights(high >> 8, run, scales[2 * f + 1]);
                w[f][6] = v.x;
                w[f][7] = v.y;
            }
            [[unroll]] for (uint c = 0; c < COLUMN_MATRICES; c++) {
                coopmat<float16_t, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> b;
                coopMatLoad(b, x_stage, (slot * COLUMNS + c * 16) * PITCH + 2 * k, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint f = 0; f < W_MATRICES; f++) sums[c * W_MATRICES + f] = coopMatMulAdd(w[f], b, sums[c * W_MATRICES + f]);
            }
            if (k == 0) {
                store_x(1 - slot, x);
                load_x(min(i + 2, last), first_column, x);
            }
            if (k == 2 && own_row) scale_stage[(1 - slot) * W_ROWS + gl_LocalInvocationIndex] = row_scales(of_row);
        }
        [[unroll]] for (uint r = 0; r < 2 * W_MATRICES; r++) shares[r] = next[r];
        barrier();
    }
    finish_tile(first_row, first_column, gl_SubgroupID % UNIT_ROWS * SUB_ROWS, 0);
}

void main() {
    if (EXPERTS == 0 || take_slots()) multiply();
}
