#version 460
// variants: FORMAT=*; MATRIX=portable|khr
//
// out[column][row] = Σ_k weight[row][k]·x[column][k] with both factors in f16 and sums in f32; with GATE, act(gate·x)·(up·x).
//
// A workgroup takes ROWS rows (of each matrix) and COLUMNS columns, and walks over K in steps of STEP elements: the operands of a step lie in
// shared memory (gemm_stage.glsl), those of the next one are on the way meanwhile. MATRIX=khr: each subgroup multiplies SUB_ROWS × SUB_COLUMNS of the
// tile in matrices of TM × TN × TK (VK_KHR_cooperative_matrix). MATRIX=portable: each invocation computes SUB_ROWS × SUB_COLUMNS results itself.
//
// With EXPERTS columns are slots of rows (expert_slots.glsl), gathered on their way to shared memory and scattered on their way out.
// With IN_PARTS the workgroups of a tile (z) each take a part of the steps and leave their sums in `partials`; the one that comes last adds
// them up in the order of the parts, whichever it is itself, and finishes the tile.
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

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 1;
layout(constant_id = 1) const uint ROWS = 16;
layout(constant_id = 2) const uint COLUMNS = 16;
layout(constant_id = 3) const uint STEP = 64;
layout(constant_id = 4) const uint SUB_ROWS = 16;
layout(constant_id = 5) const uint SUB_COLUMNS = 16;
layout(constant_id = 6) const uint BUFFERS = 1; // of the operands in shared memory, 1 or 2
layout(constant_id = 7) const uint TM = 16;
layout(constant_id = 8) const uint TN = 16;
layout(constant_id = 9) const uint TK = 16;
layout(constant_id = 10) const bool BIAS = false;
layout(constant_id = 11) const bool RESIDUAL = false;
layout(constant_id = 12) const bool GATE = false;
layout(constant_id = 13) const uint ACTIVATION = 0; // with GATE: silu, gelu_tanh, oai_swiglu
layout(constant_id = 14) const float ALPHA = 0.0; // of oai_swiglu
layout(constant_id = 15) const float LIMIT = 0.0;
layout(constant_id = 16) const uint EXPERTS = 0;
layout(constant_id = 17) const uint SLOTS = 1;
layout(constant_id = 20) const bool IN_PARTS = false;
// All subgroups of a workgroup come by the same number of barriers, a subgroup's own ones too.
layout(constant_id = 21) const bool MEET = false;

layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer Partials { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters { uint v[]; };

layout(push_constant, scalar) uniform Push {
    uvec2 weight; // the gate where there is one
    uvec2 up;
    uvec2 x; // rows as `convert` packed them
    F32In scales; // by column
    F32In bias;
    F32In residual; // with GATE the bias of up
    F32In choice;
    F32 result;
    Partials partials; // by tile, part, unit and sum
    Counters done; // parts of a tile that are done, by tile; 0 before and after
    uint m;
    uint k;
    uint row_bytes;
    uint x_stride; // quads of words from a row of x to the next; with EXPERTS to the next row's
    uint columns;
    uint residual_stride;
    uint result_stride;
    uint slots;
    uint x_step;
    uint expert_bytes;
    uint choice_at;
    uint x_pitch; // quads of words of a packed row
} p;

#include "expert_slots.glsl"
#include "gemm_stage.glsl"

// With EXPERTS: of each column.
shared float slot_scales[SLOTS];

// The result of a row and column; `up` is the second matrix's.
void finish(uint row, uint column, float value, float up) {
    if (EXPERTS != 0) {
        if (row >= p.m || column >= own_columns) return;
        const float scale = slot_scales[column];
        value *= scale;
        if (BIAS) value += p.bias.v[expert * p.m + row];
        if (GATE) {
            up *= scale;
            if (BIAS) up += p.residual.v[expert * p.m + row];
            value = gated(ACTIVATION, value, up, ALPHA, LIMIT);
        }
        p.result.v[slot_of[column].x + row] = value;
        return;
    }
    if (row >= p.m || column >= p.columns) return;
    float scale = p.scales.v[column] / WEIGHT_SCALE;
    value *= scale;
    if (GATE) value = gated(ACTIVATION, value, up * scale, ALPHA, LIMIT);
    if (BIAS) value += p.bias.v[row];
    if (RESIDUAL) value += p.residual.v[column * p.residual_stride + row];
    p.result.v[column * p.result_stride + row] = value;
}

// Units side by side over the rows of the tile: subgroups, or invocations.
const uint UNIT_ROWS = ROWS / SUB_ROWS;

#ifdef MATRIX_KHR
const uint ROW_MATRICES = SUB_ROWS / TM;
const uint W_MATRICES = MATRICES * ROW_MATRICES;
const uint COLUMN_MATRICES = SUB_COLUMNS / TN;
const uint UNITS = UNIT_ROWS * (COLUMNS / SUB_COLUMNS);
const uint SUMS = W_MATRICES * COLUMN_MATRICES;
const uint PART = UNITS * SUMS * TM * TN; // elements of a part's sums
#define Sum coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>
// A result's matrices of each subgroup, on their way out.
shared float results[UNITS * MATRICES * TM * TN];

// The results of a matrix that lies within the result, as `finish`.
void finish_matrix(uint row, uint column, Sum value, Sum up) {
    Sum other;
    coopMatLoad(other, p.scales.v, column, 0, gl_CooperativeMatrixLayoutRowMajor);
    other = other * (1.0 / WEIGHT_SCALE);
    value = value * other;
    if (GATE) {
        up = up * other;
        [[unroll]] for (uint e = 0; e < value.length(); e++) value[e] = gated(ACTIVATION, value[e], up[e], ALPHA, LIMIT);
    }
    if (BIAS) {
        coopMatLoad(other, p.bias.v, row, 0, gl_CooperativeMatrixLayoutColumnMajor);
        value = value + other;
    }
    if (RESIDUAL) {
        coopMatLoad(other, p.residual.v, column * p.residual_stride + row, p.residual_stride, gl_CooperativeMatrixLayoutColumnMajor);
        value = value + other;
    }
    coopMatStore(value, p.result.v, column * p.result_stride + row, p.result_stride, gl_CooperativeMatrixLayoutColumnMajor);
}

// Finishes the results of matrix number i of a subgroup: where all of it is wanted, in its own registers, else through shared memory, since which lane
// has which element is the driver's affair. A macro, since a loop around so much code is not unrolled everywhere, and sums that are
// indexed at run time lie in memory: on an H200 that made the whole kernel 8 times slower.
// What is beyond the subgroup's matrices is never executed, but Mesa 26 does not compile an index beyond an array.
#define SUM(i) sums[(i) % SUMS]
#define RESULTS(i) \
    if (i < ROW_MATRICES * COLUMN_MATRICES) { \
        const uint r = i % ROW_MATRICES, c = i / ROW_MATRICES; \
        const uint row = first_row + unit_row + r * TM, column = first_column + unit_column + c * TN; \
        if (whole && row + TM <= p.m && column + TN <= p.columns) { \
            if (MEET) subgroupBarrier(); \
            finish_matrix(row, column, SUM(c * W_MATRICES + r), SUM(c * W_MATRICES + (MATRICES - 1) * ROW_MATRICES + r)); \
            if (MEET) subgroupBarrier(); \
        } else { \
            const uint own = gl_SubgroupID * MATRICES * TM * TN; \
            [[unroll]] for (uint j = 0; j < MATRICES; j++) { \
                coopMatStore(SUM(c * W_MATRICES + j * ROW_MATRICES + r), results, own + j * TM * TN, TM, gl_CooperativeMatrixLayoutColumnMajor); \
            } \
            subgroupMemoryBarrierShared(); \
            subgroupBarrier(); \
            [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < TM * TN; e += gl_SubgroupSize) { \
                finish(row + e % TM, column + e / TM, results[own + e], results[own + (MATRICES - 1) * TM * TN + e]); \
            } \
            subgroupMemoryBarrierShared(); \
            subgroupBarrier(); \
        } \
    }

// Sums of the subgroup in a part of the tile.
uint place(uint part, uint i) {
    return (part * PART + (gl_SubgroupID * SUMS + i) * TM * TN) / 4;
}
#define STORE_SUM(part, i) coopMatStore(SUM(i), p.partials.v, place(part, i), TM / 4, gl_CooperativeMatrixLayoutColumnMajor)
#define LOAD_SUM(part, i, sum) coopMatLoad(sum, p.partials.v, place(part, i), TM / 4, gl_CooperativeMatrixLayoutColumnMajor)
#define EACH_4(DO, i) DO(i) DO((i + 1)) DO((i + 2)) DO((i + 3))
#define EACH_16(DO, i) EACH_4(DO, i) EACH_4(DO, (i + 4)) EACH_4(DO, (i + 8)) EACH_4(DO, (i + 12))
#define EACH_SUM(DO) EACH_16(DO, 0) EACH_16(DO, 16)
#define RESULTS_4(i) RESULTS(i) RESULTS((i + 1)) RESULTS((i + 2)) RESULTS((i + 3))
#else
const uint W_SUMS = MATRICES * SUB_ROWS;
const uint SUMS = W_SUMS * SUB_COLUMNS;
const uint UNIT_COLUMNS = COLUMNS / SUB_COLUMNS;
#define Sum float
const uint PART = SUMS * THREADS;

// Sums of the invocation in a part of the tile.
uint place(uint part, uint i) {
    return part * PART + i * THREADS + gl_LocalInvocationIndex;
}
#define SUM(i) sums[i]
#define STORE_SUM(part, i) CommonF32(p.partials).v[place(part, i)] = SUM(i)
#define LOAD_SUM(part, i, sum) sum = CommonF32(p.partials).v[place(part, i)]
#define EACH_SUM(DO) [[unroll]] for (uint i = 0; i < SUMS; i++) { DO(i) }

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

// With IN_PARTS: what is done to each sum, for the reason of RESULTS. Those of four parts are loaded together where there are few, so that one load does not
// wait for the other.
const uint LOADS = SUMS < 4 ? 4 : 1;
#define LEAVE_SUM(i) if (i < SUMS) STORE_SUM(own + gl_WorkGroupID.z, i);
#define CLEAR_SUM(i) if (i < SUMS) SUM(i) = Sum(0.0);
#define ADD_SUM(i) \
    if (i < SUMS) { \
        Sum one, two, three, four; \
        LOAD_SUM(own + part, i, one); \
        if (LOADS > 1) { \
            LOAD_SUM(own + min(part + 1, parts - 1), i, two); \
            LOAD_SUM(own + min(part + 2, parts - 1), i, three); \
            LOAD_SUM(own + min(part + 3, parts - 1), i, four); \
        } \
        SUM(i) = SUM(i) + one; \
        if (LOADS > 1) { \
            if (part + 1 < parts) SUM(i) = SUM(i) + two; \
            if (part + 2 < parts) SUM(i) = SUM(i) + three; \
            if (part + 3 < parts) SUM(i) = SUM(i) + four; \
        } \
    }
shared uint parts_before;

void multiply() {
    // `finish` comes after barriers.
    for (uint c = gl_LocalInvocationIndex; EXPERTS != 0 && c < COLUMNS; c += THREADS) {
        slot_scales[c] = p.scales.v[slot_of[c].y / p.x_pitch] / WEIGHT_SCALE;
    }
    const uint first_row = gl_WorkGroupID.y * ROWS, first_column = gl_WorkGroupID.x * COLUMNS;
    const uvec3 plane = planes(p.k / BLOCK_ELEMS);
#ifdef MATRIX_KHR
    const uint unit_row = gl_SubgroupID % UNIT_ROWS * SUB_ROWS, unit_column = gl_SubgroupID / UNIT_ROWS * SUB_COLUMNS;
#else
    const uint unit_row = gl_LocalInvocationIndex % UNIT_ROWS, unit_column = gl_LocalInvocationIndex / UNIT_ROWS;
#endif
    Sum sums[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = Sum(0.0);

    uvec2 rows[W_TASKS];
    Codes codes[W_TASKS];
    uvec4 packed[X_TASKS];
    find_rows(first_row, rows);
    uint first = 0, steps = (p.k + STEP - 1) / STEP;
    const uint parts = IN_PARTS ? gl_NumWorkGroups.z : 1;
    if (IN_PARTS) {
        first = gl_WorkGroupID.z * steps / parts;
        steps = (gl_WorkGroupID.z + 1) * steps / parts;
    }
    load_ahead(first * CHUNKS, first_column, rows, plane, codes, packed);
    store_ahead(BUFFERS > 1 ? first % 2 : 0, first * CHUNKS, rows, codes, packed);
    barrier();
#ifdef MATRIX_KHR
    // Columns that nobody wants are not multiplied; they fill up the last tile.
    const bool live = first_column + unit_column < (EXPERTS != 0 ? own_columns : p.columns);
#endif
    for (uint i = first; i < steps; i++) {
        const uint slot = BUFFERS > 1 ? i % 2 : 0;
        if (i + 1 < steps) load_ahead((i + 1) * CHUNKS, first_column, rows, plane, codes, packed);
#ifdef MATRIX_KHR
        if (live) [[unroll]] for (uint k = 0; k < STEP / TK; k++) {
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
        if (BUFFERS == 1) barrier();
        if (i + 1 < steps) store_ahead(BUFFERS > 1 ? 1 - slot : 0, (i + 1) * CHUNKS, rows, codes, packed);
        barrier();
    }

    if (IN_PARTS) {
        const uint tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, own = tile * parts;
        EACH_SUM(LEAVE_SUM)
        memoryBarrierBuffer();
        barrier();
        if (gl_LocalInvocationIndex == 0) {
            parts_before = atomicAdd(p.done.v[tile], 1);
            if (parts_before + 1 == parts) p.done.v[tile] = 0;
        }
        barrier();
        if (parts_before + 1 < parts) return;
        memoryBarrierBuffer();
        EACH_SUM(CLEAR_SUM)
        [[dont_unroll]] for (uint part = 0; part < parts; part += LOADS) {
            EACH_SUM(ADD_SUM)
        }
    }

#ifdef MATRIX_KHR
    // Matrices are read and written where rows begin at multiples of 16 bytes.
    uint places = uvec2(p.result).x | 4 * p.result_stride;
    if (RESIDUAL) places |= uvec2(p.residual).x | 4 * p.residual_stride;
    // Slots of experts lie apart.
    const bool whole = EXPERTS == 0 && places % 16 == 0;
    RESULTS_4(0)
    RESULTS_4(4)
    RESULTS_4(8)
    RESULTS_4(12)
#else
    [[unroll]] for (uint c = 0; c < SUB_COLUMNS; c++) {
        [[unroll]] for (uint r = 0; r < SUB_ROWS; r++) {
            uint row = first_row + unit_row + r * UNIT_ROWS, column = first_column + unit_column + c * UNIT_COLUMNS;
            finish(row, column, sums[c * W_SUMS + r], sums[c * W_SUMS + (MATRICES - 1) * SUB_ROWS + r]);
        }
    }
#endif
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
