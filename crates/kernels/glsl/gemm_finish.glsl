// From the sums of a tile to its results: parts added up, scales, bias, residual, gate.
//
// For kernels with the constants ROWS, COLUMNS, SUB_ROWS, SUB_COLUMNS, TM, TN, BIAS, RESIDUAL, GATE, ACTIVATION, ALPHA, LIMIT, EXPERTS, SLOTS, IN_PARTS, SOLO and the
// push constants of gemm_push.glsl; on matrices where MATRIX_KHR is defined. Include after what defines MATRICES and WEIGHT_SCALE.
//
// With IN_PARTS the workgroups of a tile (z) each leave their sums in `partials`; the one that comes last adds them up in the order of the parts, whichever
// it is itself, and finishes the tile.

#include "last.glsl"

// With EXPERTS: of each column.
shared float slot_scales[SLOTS];

// `finish` comes after barriers.
void take_scales() {
    for (uint c = gl_LocalInvocationIndex; EXPERTS != 0 && c < COLUMNS; c += THREADS) {
        slot_scales[c] = p.scales.v[slot_of[c].y / p.x_pitch] / WEIGHT_SCALE;
    }
}

// The steps of K that the workgroup has.
uvec2 own_steps() {
    const uint steps = (p.k + STEP - 1) / STEP;
    if (!IN_PARTS) return uvec2(0, steps);
    return uvec2(gl_WorkGroupID.z * steps, (gl_WorkGroupID.z + 1) * steps) / gl_NumWorkGroups.z;
}

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

// What the results of a matrix that lies within the result need of memory.
void load_operands(uint row, uint column, out Sum scale, out Sum residual) {
    coopMatLoad(scale, p.scales.v, column, 0, gl_CooperativeMatrixLayoutRowMajor);
    if (RESIDUAL) coopMatLoad(residual, p.residual.v, column * p.residual_stride + row, p.residual_stride, gl_CooperativeMatrixLayoutColumnMajor);
}

// The results of such a matrix, as `finish`.
void finish_matrix(uint row, uint column, Sum value, Sum up, Sum scale, Sum residual) {
    scale = scale * (1.0 / WEIGHT_SCALE);
    value = value * scale;
    if (GATE) {
        up = up * scale;
        [[unroll]] for (uint e = 0; e < value.length(); e++) value[e] = gated(ACTIVATION, value[e], up[e], ALPHA, LIMIT);
    }
    if (BIAS) {
        Sum bias;
        coopMatLoad(bias, p.bias.v, row, 0, gl_CooperativeMatrixLayoutColumnMajor);
        value = value + bias;
    }
    if (RESIDUAL) value = value + residual;
    coopMatStore(value, p.result.v, column * p.result_stride + row, p.result_stride, gl_CooperativeMatrixLayoutColumnMajor);
}

// Finishes the results of matrix number i of a subgroup: where all of it is wanted, in its own registers, else through shared memory, since which lane has which element is the
// driver's affair. Where all of the subgroup's are wanted, with TOGETHER what four matrices need is asked for together, so that one does not wait for the other. Macros, since a loop around
// so much code is not unrolled everywhere, and sums that are indexed at run time lie in memory: on an H200 that made the whole kernel 8 times slower.
// What is beyond the subgroup's matrices is never executed, but Mesa 26 does not compile an index beyond an array.
#define SUM(i) sums[(i) % SUMS]
// With SOLO the first subgroup has the sums of all.
#define IDLE (SOLO > 0 && gl_SubgroupID > 0)
#define EXISTS(i) (i < ROW_MATRICES * COLUMN_MATRICES)
#define ROW_OF(i) (first_row + unit_row + (i) % ROW_MATRICES * TM)
#define COLUMN_OF(i) (first_column + unit_column + (i) / ROW_MATRICES * TN)
#define WANTED(i) (whole && ROW_OF(i) + TM <= p.m && COLUMN_OF(i) + TN <= p.columns)
#define FIRST_SUM(i) SUM((i) / ROW_MATRICES * W_MATRICES + (i) % ROW_MATRICES)
#define LAST_SUM(i) SUM((i) / ROW_MATRICES * W_MATRICES + (MATRICES - 1) * ROW_MATRICES + (i) % ROW_MATRICES)
#define LOAD(i, scale, residual) if (EXISTS(i)) load_operands(ROW_OF(i), COLUMN_OF(i), scale, residual);
#define FINISH(i, scale, residual) \
    if (EXISTS(i)) { \
        if (MEET) subgroupBarrier(); \
        finish_matrix(ROW_OF(i), COLUMN_OF(i), FIRST_SUM(i), LAST_SUM(i), scale, residual); \
        if (MEET) subgroupBarrier(); \
    }
#define FINISH_ALONE(i) \
    if (EXISTS(i)) { \
        if (WANTED(i)) { \
            Sum scale, residual; \
            LOAD(i, scale, residual) \
            FINISH(i, scale, residual) \
        } else { \
            const uint own = gl_SubgroupID * MATRICES * TM * TN; \
            if (!IDLE) { \
                coopMatStore(FIRST_SUM(i), results, own, TM, gl_CooperativeMatrixLayoutColumnMajor); \
                if (MATRICES > 1) coopMatStore(LAST_SUM(i), results, own + TM * TN, TM, gl_CooperativeMatrixLayoutColumnMajor); \
            } \
            subgroupMemoryBarrierShared(); \
            subgroupBarrier(); \
            [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; !IDLE && e < TM * TN; e += gl_SubgroupSize) { \
                finish(ROW_OF(i) + e % TM, COLUMN_OF(i) + e / TM, results[own + e], results[own + (MATRICES - 1) * TM * TN + e]); \
            } \
            subgroupMemoryBarrierShared(); \
            subgroupBarrier(); \
        } \
    }
#define RESULTS_4(i) \
    if (within) { \
        Sum scale[4], residual[4]; \
        LOAD(i, scale[0], residual[0]) LOAD((i + 1), scale[1], residual[1]) LOAD((i + 2), scale[2], residual[2]) LOAD((i + 3), scale[3], residual[3]) \
        FINISH(i, scale[0], residual[0]) FINISH((i + 1), scale[1], residual[1]) FINISH((i + 2), scale[2], residual[2]) FINISH((i + 3), scale[3], residual[3]) \
    } else { \
        FINISH_ALONE(i) FINISH_ALONE((i + 1)) FINISH_ALONE((i + 2)) FINISH_ALONE((i + 3)) \
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
#define IDLE false
#define STORE_SUM(part, i) CommonF32(p.partials).v[place(part, i)] = SUM(i)
#define LOAD_SUM(part, i, sum) sum = CommonF32(p.partials).v[place(part, i)]
#define EACH_SUM(DO) [[unroll]] for (uint i = 0; i < SUMS; i++) { DO(i) }
#endif

// Of the subgroup or invocation: those of column c and row r of its matrices or elements are number c · (rows of all) + r.
Sum sums[SUMS];

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

// What the sums of a tile become, or of a part of it: the results.
void finish_tile(uint first_row, uint first_column, uint unit_row, uint unit_column) {
    if (IN_PARTS) {
        const uint parts = gl_NumWorkGroups.z, tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, own = tile * parts;
        if (!IDLE) {
            EACH_SUM(LEAVE_SUM)
        }
        if (!comes_last(p.done, tile, parts)) return;
        EACH_SUM(CLEAR_SUM)
        [[dont_unroll]] for (uint part = 0; !IDLE && part < parts; part += LOADS) {
            EACH_SUM(ADD_SUM)
        }
    }

#ifdef MATRIX_KHR
    // Matrices are read and written where rows begin at multiples of 16 bytes.
    uint places = uvec2(p.result).x | 4 * p.result_stride;
    if (RESIDUAL) places |= uvec2(p.residual).x | 4 * p.residual_stride;
    // Slots of experts lie apart.
    const bool whole = EXPERTS == 0 && !IDLE && places % 16 == 0;
    const bool within = TOGETHER && whole && first_row + unit_row + SUB_ROWS <= p.m && first_column + unit_column + SUB_COLUMNS <= p.columns;
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
