#version 460
// variants: FORMAT=*; MATRIX=portable|khr
//
// out[column][row] = Σ_k weight[row][k]·x[column][k] with both factors in f16 and sums in f32; with GATE, act(gate·x)·(up·x).
//
// A workgroup takes ROWS rows (of each matrix) and COLUMNS columns, and walks over K in steps of STEP elements: the operands of a step lie in
// shared memory (gemm_stage.glsl), those of the next one are on the way meanwhile. MATRIX=khr: each subgroup multiplies SUB_ROWS × SUB_COLUMNS of the
// tile in matrices of TM × TN × TK (VK_KHR_cooperative_matrix). MATRIX=portable: each invocation computes SUB_ROWS × SUB_COLUMNS results itself.
//
// Where few columns leave little to share, the subgroups of a workgroup have the same tile and split its steps instead (SOLO): each decodes what it multiplies,
// with no barrier between them but one in the end, where the first one adds up the sums of all in order.
//
// With EXPERTS columns are slots of rows (expert_slots.glsl), gathered on their way to shared memory and scattered on their way out.
// With IN_PARTS the workgroups of a tile (z) each take a part of the steps (gemm_finish.glsl).
#include "types.glsl"
#include "decode.glsl"
#include "format.glsl"
#include "weights.glsl"
#include "activation.glsl"
#ifdef MATRIX_KHR
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

#include "gemm_push.glsl"
#include "expert_slots.glsl"
#include "gemm_stage.glsl"

#include "gemm_finish.glsl"

#ifndef MATRIX_KHR
float dot_on(uvec4 a, vec4 low, vec4 high, float sum) {
    vec2 v = unpackHalf2x16(a.x);
    sum = fma(v.y, low.y, fma(v.x, low.x, sum));
    v = unpackHalf2x16(a.y);
    sum = fma(v.y, low.w, fma(v.x, low.z, sum));
    v = unpackHalf2x16(a.z);
    sum = fma(v.y, high.y, fma(v.x, high.x, sum));
    v = unpackHalf2x16(a.w);
    return fma(v.y, high.w, fma(v.x, high.z, sum));
}
#endif

// Until all that share operands are here.
void meet() {
    if (SOLO > 0) {
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    } else {
        barrier();
    }
}

#ifdef MATRIX_KHR
// With SOLO, the sums of a subgroup in its own stage, which has room for them.
#define OWN_SUM(subgroup, i) (subgroup) * (BUFFERS * W_ROWS * PITCH) + (i) * (TM * TN / 4), TM / 4, gl_CooperativeMatrixLayoutColumnMajor
#define LEAVE_OWN(i) if (i < SUMS) coopMatStore(SUM(i), w_stage, OWN_SUM(gl_SubgroupID, i));
#define ADD_OWN(i) \
    if (i < SUMS) { \
        Sum one; \
        coopMatLoad(one, w_stage, OWN_SUM(other, i)); \
        SUM(i) = SUM(i) + one; \
    }
#endif

void multiply() {
    take_scales();
    const uint first_row = gl_WorkGroupID.y * ROWS, first_column = gl_WorkGroupID.x * COLUMNS;
    const uvec3 plane = planes(p.k / BLOCK_ELEMS);
#ifdef MATRIX_KHR
    const uint unit = SOLO > 0 ? 0 : gl_SubgroupID;
    const uint unit_row = unit % UNIT_ROWS * SUB_ROWS, unit_column = unit / UNIT_ROWS * SUB_COLUMNS;
#else
    const uint unit_row = gl_LocalInvocationIndex % UNIT_ROWS, unit_column = gl_LocalInvocationIndex / UNIT_ROWS;
#endif
    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = Sum(0.0);

    uvec2 rows[W_TASKS];
    Codes codes[W_TASKS];
    uvec4 packed[X_TASKS];
    find_rows(first_row, rows);
    uint first = own_steps().x, steps = own_steps().y;
    // Subgroups that split the steps go as many rounds, so that all come by the same barriers.
    const uint team = SOLO > 0 ? gl_SubgroupID : 0, rounds = (steps - first + TEAMS - 1) / TEAMS;
    first += team * rounds;
    if (SOLO > 0) steps = min(steps, first + rounds);
    if (SOLO == 0 || first < steps) {
        load_ahead(first * CHUNKS, first_column, rows, plane, codes, packed);
        store_ahead(team * BUFFERS + (BUFFERS > 1 ? first % 2 : 0), first * CHUNKS, rows, codes, packed);
    }
    meet();
#ifdef MATRIX_KHR
    // Columns that nobody wants are not multiplied; they fill up the last tile.
    const bool live = first_column + unit_column < (EXPERTS != 0 ? own_columns : p.columns);
#endif
    for (uint i = first; i < first + rounds; i++) {
        const uint slot = team * BUFFERS + (BUFFERS > 1 ? i % 2 : 0), other_slot = team * BUFFERS + (BUFFERS > 1 ? 1 - i % 2 : 0);
        if (i + 1 < steps) load_ahead((i + 1) * CHUNKS, first_column, rows, plane, codes, packed);
#ifdef MATRIX_KHR
        if (live && (SOLO == 0 || i < steps)) [[unroll]] for (uint k = 0; k < STEP / TK; k++) {
            coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> w[W_MATRICES];
            [[unroll]] for (uint r = 0; r < W_MATRICES; r++) {
                uint row = slot * W_ROWS + r / ROW_MATRICES * ROWS + unit_row + r % ROW_MATRICES * TM;
                coopMatLoad(w[r], w_stage, row * PITCH + k * TK / 8, PITCH, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint c = 0; c < COLUMN_MATRICES; c++) {
                coopmat<float16_t, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> x;
                uint column = slot * COLUMNS + unit_column + c * TN;
                coopMatLoad(x, x_stage, column * PITCH + k * TK / 8, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint r = 0; r < W_MATRICES; r++) {
                    sums[c * W_MATRICES + r] = coopMatMulAdd(w[r], x, sums[c * W_MATRICES + r]);
                }
            }
        }
#else
        // Rows and columns of an invocation lie apart, so that neighbours read and write neighbours.
        for (uint k = 0; k < STEP / 8; k++) {
            uvec4 w[W_SUMS];
            [[unroll]] for (uint r = 0; r < W_SUMS; r++) {
                uint row = slot * W_ROWS + r / SUB_ROWS * ROWS + unit_row + r % SUB_ROWS * UNIT_ROWS;
                w[r] = w_stage[row * PITCH + k];
            }
            [[unroll]] for (uint c = 0; c < SUB_COLUMNS; c++) {
                uvec4 x = x_stage[(slot * COLUMNS + unit_column + c * UNIT_COLUMNS) * PITCH + k];
                vec4 low = vec4(unpackHalf2x16(x.x), unpackHalf2x16(x.y));
                vec4 high = vec4(unpackHalf2x16(x.z), unpackHalf2x16(x.w));
                [[unroll]] for (uint r = 0; r < W_SUMS; r++) sums[c * W_SUMS + r] = dot_on(w[r], low, high, sums[c * W_SUMS + r]);
            }
        }
#endif
        if (BUFFERS == 1) meet();
        if (i + 1 < steps) store_ahead(other_slot, (i + 1) * CHUNKS, rows, codes, packed);
        meet();
    }
#ifdef MATRIX_KHR
    if (SOLO > 0) {
        EACH_SUM(LEAVE_OWN)
        barrier();
        // The others have no more to do.
        [[dont_unroll]] for (uint other = 1; team == 0 && other < TEAMS; other++) {
            EACH_SUM(ADD_OWN)
        }
    }
#endif

    finish_tile(first_row, first_column, unit_row, unit_column);
}

void main() {
#ifdef HAS_TABLE
    for (uint i = gl_LocalInvocationIndex; i < 16; i += THREADS) {
#ifdef MATRIX_KHR
        byte_table[i] = uint(int(table_value(i))) & 0xFFu;
#else
        table[i] = table_value(i);
#endif
    }
    barrier();
#endif
    if (EXPERTS == 0 || take_slots()) multiply();
}
