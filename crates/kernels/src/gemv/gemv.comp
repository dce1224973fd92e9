#version 460
// variants: FORMAT=*; GATE=no|yes
//
// out[column][row] = Σ_k weight[row][k]·x[column][k], for 1 to 8 columns; with GATE, act(gate·x)·(up·x).
//
// A subgroup takes ROWS rows (of each matrix) and all columns; its lanes split K by chunks, SPLIT subgroups of a workgroup share the chunks of
// the same rows. A lane's chunk of x is 64 to 256 bytes, so lanes that read x themselves touch a cache line each; with STAGE the workgroup
// copies x to shared memory first, in an order that lanes read without bank conflicts. Each value of x that a lane loads serves all its rows, each decoded weight all columns. The chunks of a lane, the order
// within a chunk and the reductions depend on K, the subgroup size and SPLIT alone: one column gives the same bits as eight.
#include "types.glsl"
#include "decode.glsl"
#include "format.glsl"
#include "activation.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint SPLIT = 1;
layout(constant_id = 4) const uint PARTIALS = 1; // invocations' results in shared memory: subgroups · SUMS where SPLIT > 1
layout(constant_id = 5) const bool AHEAD = false; // load a lane's next chunk before its present one is used
layout(constant_id = 6) const bool ALIGNED = true; // x may be read by vec4
layout(constant_id = 7) const bool BIAS = false;
layout(constant_id = 8) const bool RESIDUAL = false;
layout(constant_id = 9) const bool GELU = false; // with GATE: gelu_tanh instead of silu
layout(constant_id = 10) const uint STAGE = 0; // steps of x that are staged in shared memory at a time; 0: lanes read x themselves
layout(constant_id = 11) const uint STAGED_QUADS = 1; // size of the stage, at least COLUMNS · QUADS · pitch

#ifdef GATE_YES
const uint MATRICES = 2;
#else
const uint MATRICES = 1;
#endif
const uint ALL_ROWS = MATRICES * ROWS;
const uint SUMS = ALL_ROWS * COLUMNS;

layout(push_constant, scalar) uniform Push {
    uvec2 weight; // the gate where there is one
    uvec2 up;
    F32In x;
    F32In bias;
    F32In residual;
    F32 result;
    uint m;
    uint k;
    uint row_bytes;
    uint x_stride;
    uint residual_stride;
    uint result_stride;
    uint groups;
} p;

shared float partials[PARTIALS];

// Quad q of chunk c of a column lies at q · pitch + c: lanes with neighbouring chunks read neighbouring quads, and the odd pitch spreads the
// quads of a chunk over the banks when they are stored.
// The host sizes the stage by a bound on CHUNK (`chunk_bound`).
#if CHUNK > 64 || (BLOCK_ELEMS == 1 && CHUNK > 16) || (BLOCK_ELEMS > 1 && CHUNK > BLOCK_ELEMS)
#error CHUNK is above chunk_bound in gemv_op.rs
#endif
const uint QUADS = CHUNK / 4;
shared vec4 staged[STAGED_QUADS];

uint pitch() {
    return STAGE * SPLIT * gl_SubgroupSize + 1;
}

// Where column `column` of this workgroup begins; z counts batches of columns.
uint x_start(uint column) {
    return (gl_WorkGroupID.z * COLUMNS + column) * p.x_stride;
}

vec4 load_x(uint column, uint i) {
    uint at = x_start(column) + i;
    if (ALIGNED) return Vec4In(p.x).v[at / 4];
    return vec4(p.x.v[at], p.x.v[at + 1], p.x.v[at + 2], p.x.v[at + 3]);
}

// Copies the chunks first .. first + STAGE · SPLIT · lanes of every column, as far as there are any.
void stage_x(uint first, uint chunks) {
    const uint count = min(STAGE * SPLIT * gl_SubgroupSize, chunks - first) * QUADS;
    barrier();
    for (uint c = 0; c < COLUMNS; c++) {
        for (uint i = gl_LocalInvocationIndex; i < count; i += gl_WorkGroupSize.x) {
            uint chunk = i / QUADS, quad = i % QUADS;
            uint at = chunk_base(first + chunk) + quad / (RUN / 4) * RUN_STRIDE + 4 * (quad % (RUN / 4));
            staged[(c * QUADS + quad) * pitch() + chunk] = load_x(c, at);
        }
    }
    barrier();
}

float dot_on(vec4 a, vec4 b, float sum) {
    sum = fma(a.x, b.x, sum);
    sum = fma(a.y, b.y, sum);
    sum = fma(a.z, b.z, sum);
    return fma(a.w, b.w, sum);
}

// Adds a chunk's products; `place` is its place in the stage.
void add_chunk(Codes codes[ALL_ROWS], uint chunk, uint place, inout float sums[SUMS]) {
    uint base = chunk_base(chunk);
    [[unroll]] for (uint run = 0; run < RUNS; run++) {
        float products[SUMS];
        float of_x[COLUMNS];
        [[unroll]] for (uint i = 0; i < SUMS; i++) products[i] = 0.0;
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) of_x[c] = 0.0;
        [[unroll]] for (uint quad = 0; quad < RUN / 4; quad++) {
            vec4 x[COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                if (STAGE > 0) x[c] = staged[(c * QUADS + run * (RUN / 4) + quad) * pitch() + place];
                else x[c] = load_x(c, base + run * RUN_STRIDE + 4 * quad);
#if HAS_MIN
                precise float quad_sum = (x[c].x + x[c].y) + (x[c].z + x[c].w);
                precise float sum = of_x[c] + quad_sum;
                of_x[c] = sum;
#endif
            }
            [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
                vec4 q = run_codes(codes[r], run, quad);
                [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                    products[r * COLUMNS + c] = dot_on(q, x[c], products[r * COLUMNS + c]);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
            vec2 scale = run_scale(codes[r], run);
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                uint i = r * COLUMNS + c;
                sums[i] = fma(scale.x, products[i], sums[i]);
#if HAS_MIN
                sums[i] = fma(scale.y, of_x[c], sums[i]);
#endif
            }
        }
    }
}

// The result of a row and column; `up` is the second matrix's.
void finish(uint row, uint column, float value, float up) {
    if (row >= p.m) return;
    column += gl_WorkGroupID.z * COLUMNS;
#ifdef GATE_YES
    value = (GELU ? gelu_tanh(value) : silu(value)) * up;
#endif
    precise float sum = value;
    if (BIAS) sum = sum + p.bias.v[row];
    if (RESIDUAL) sum = sum + p.residual.v[column * p.residual_stride + row];
    p.result.v[column * p.result_stride + row] = sum;
}

void main() {
#ifdef HAS_TABLE
    for (uint i = gl_LocalInvocationIndex; i < 16; i += gl_WorkGroupSize.x) table[i] = table_value(i);
    barrier();
#endif
    if (folded_group() >= p.groups) return;
    const uint lane = gl_SubgroupInvocationID;
    const uint part = gl_SubgroupID % SPLIT;
    const uint first_row = (folded_group() * (gl_NumSubgroups / SPLIT) + gl_SubgroupID / SPLIT) * ROWS;
    const uint chunks = p.k / CHUNK;
    const uvec3 plane = planes(p.k / BLOCK_ELEMS);

    // Rows beyond the end stand for the last one; `finish` drops them.
    uvec2 rows[ALL_ROWS];
    [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
        uint row = min(first_row + r % ROWS, p.m - 1);
        rows[r] = address_at(r < ROWS ? p.weight : p.up, row, p.row_bytes);
    }
    float sums[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = 0.0;

    // A stage is STAGE steps; without staging all of K is one.
    const uint step = SPLIT * gl_SubgroupSize;
    const uint own = part * gl_SubgroupSize + lane;
    const uint stage = STAGE > 0 ? STAGE * step : chunks;
    Codes codes[ALL_ROWS];
    Codes next[ALL_ROWS];
    if (AHEAD && own < chunks) {
        [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) next[r] = load_chunk(rows[r], plane, own);
    }
    for (uint first = 0; first < chunks; first += stage) {
        if (STAGE > 0) stage_x(first, chunks);
        const uint end = min(first + stage, chunks);
        for (uint chunk = first + own; chunk < end; chunk += step) {
            if (AHEAD) {
                [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) codes[r] = next[r];
                if (chunk + step < chunks) {
                    [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) next[r] = load_chunk(rows[r], plane, chunk + step);
                }
            } else {
                [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) codes[r] = load_chunk(rows[r], plane, chunk);
            }
            add_chunk(codes, chunk, chunk - first, sums);
        }
    }
#if BLOCK_ELEMS == 1
    // What is no whole chunk: an element a lane.
    if (part == 0) {
        for (uint i = chunks * CHUNK + lane; i < p.k; i += gl_SubgroupSize) {
            [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
                float w = element(rows[r], i);
                [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                    sums[r * COLUMNS + c] = fma(w, p.x.v[x_start(c) + i], sums[r * COLUMNS + c]);
                }
            }
        }
    }
#endif

    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = subgroupAdd(sums[i]);
    if (SPLIT == 1) {
        // Every lane has every sum; each stores its share.
        [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) {
            if (lane == i % gl_SubgroupSize) {
                finish(first_row + i / COLUMNS, i % COLUMNS, sums[i], sums[SUMS - ROWS * COLUMNS + i]);
            }
        }
        return;
    }
    if (lane == 0) {
        [[unroll]] for (uint i = 0; i < SUMS; i++) partials[gl_SubgroupID * SUMS + i] = sums[i];
    }
    barrier();
    if (part != 0) return;
    for (uint i = lane; i < ROWS * COLUMNS; i += gl_SubgroupSize) {
        precise float value = 0.0;
        precise float up = 0.0;
        for (uint s = 0; s < SPLIT; s++) {
            uint at = (gl_SubgroupID + s) * SUMS + i;
            value = value + partials[at];
            up = up + partials[at + SUMS - ROWS * COLUMNS];
        }
        finish(first_row + i / COLUMNS, i % COLUMNS, value, up);
    }
}
