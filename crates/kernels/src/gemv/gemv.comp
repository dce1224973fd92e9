#version 460
// variants: FORMAT=*; GATE=no|yes
//
// out[column][row] = Σ_k weight[row][k]·x[column][k], for 1 to 64 columns a workgroup; with GATE, act(gate·x)·(up·x).
//
// LANES lanes are a team: it takes ROWS rows (of each matrix) and COLUMNS columns, and its lanes split K by chunks. The teams of a subgroup
// have different rows and read the same x. K is cut into PARTS parts whose sums are added in order; SPREAD has a subgroup for each part,
// else a team walks them one after the other. A weight is decoded once for all columns, a value of x is loaded once for all rows of a team.
//
// The order of an output's sums depends on K, LANES and PARTS alone: a column's bits are the same alone and among 63 others, however
// the rest of the tile is chosen.
//
// A lane's chunk of x is 64 to 256 bytes, so lanes that read x themselves touch a cache line each. With STAGE the workgroup copies x to shared
// memory first, in an order that a team reads without bank conflicts: some chunks of each lane at a time, or a piece of one after the other, where
// many columns and parts leave no room for more.
//
// With EXPERTS columns are slots of rows (expert_slots.glsl).
#include "types.glsl"
#include "decode.glsl"
#include "format.glsl"
#include "weights.glsl"
#include "activation.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint LANES = 1; // a power of two, at most a subgroup
layout(constant_id = 4) const uint PARTS = 1;
layout(constant_id = 5) const bool SPREAD = false;
layout(constant_id = 6) const bool ALIGNED = true; // x may be read by vec4
layout(constant_id = 7) const bool BIAS = false;
layout(constant_id = 8) const bool RESIDUAL = false;
layout(constant_id = 9) const uint ACTIVATION = 0; // with GATE: silu, gelu_tanh, oai_swiglu
layout(constant_id = 10) const uint STAGE = 0; // elements of a lane that are staged in shared memory at a time, chunks or a piece of one; 0: lanes read x themselves
layout(constant_id = 11) const uint STAGED_QUADS = 1; // size of the stage, at least COLUMNS · QUADS · PITCH
layout(constant_id = 12) const uint PARTIALS = 1; // with SPREAD: sums of all lanes of the workgroup, lanes · OWN
layout(constant_id = 13) const uint EXPERTS = 0;
layout(constant_id = 14) const uint SLOTS = 1;

#ifdef GATE_YES
const uint MATRICES = 2;
#else
const uint MATRICES = 1;
#endif
const uint ALL_ROWS = MATRICES * ROWS;
const uint SUMS = ALL_ROWS * COLUMNS;
// Sums that a lane has after the reduction over the team; a result's two matrices stay together.
const uint OWN = (SUMS + LANES * MATRICES - 1) / (LANES * MATRICES) * MATRICES;
const uint PADDED = OWN * LANES;

layout(push_constant, scalar) uniform Push {
    uvec2 weight; // the gate where there is one
    uvec2 up;
    F32In x;
    F32In bias;
    F32In residual; // with GATE the bias of up
    F32In choice;
    F32 result;
    uint m;
    uint k;
    uint row_bytes;
    uint x_stride;
    uint residual_stride;
    uint result_stride;
    uint groups;
    uint columns;
    uint slots;
    uint x_step;
    uint expert_bytes;
    uint choice_at;
    float alpha;
    float limit;
} p;

#include "expert_slots.glsl"

shared float partials[PARTIALS];

// Parts that the subgroups of a workgroup walk at the same time.
const uint ABREAST = SPREAD ? PARTS : 1;
// Chunks of a lane in a stage, quads of each that are staged at a time, and how often that is.
const uint SPAN = STAGE > CHUNK ? STAGE / CHUNK : 1;
const uint QUADS = STAGE > 0 && STAGE < CHUNK ? STAGE / 4 : CHUNK / 4;
const uint PIECES = CHUNK / 4 / QUADS;
const uint STAGED_CHUNKS = ABREAST * SPAN * LANES;
// Quad q of chunk c of a column lies at q · PITCH + c: lanes with neighbouring chunks read neighbouring quads, and the odd pitch spreads the
// quads of a chunk over the banks when they are stored.
const uint PITCH = STAGED_CHUNKS + 1;
const uint TO_STAGE = COLUMNS * STAGED_CHUNKS * QUADS;
shared vec4 staged[STAGED_QUADS];

vec4 load_x(uint column, uint i) {
    uint at = x_start(gl_WorkGroupID.z * COLUMNS, column) + i;
    if (ALIGNED) return Vec4In(p.x).v[at / 4];
    return vec4(p.x.v[at], p.x.v[at + 1], p.x.v[at + 2], p.x.v[at + 3]);
}

// Quads that an invocation has on the way at a time.
const uint HELD = 4;

// Copies a piece of SPAN · LANES chunks of each part that is walked, from chunk `first` of the first part on; parts lie `per_part` chunks apart. The first
// loads are on the way while other subgroups still read the stage.
void stage_x(uint first, uint per_part, uint chunks, uint piece) {
    for (uint begin = 0; begin < TO_STAGE; begin += HELD * gl_WorkGroupSize.x) {
        vec4 held[HELD];
        [[unroll]] for (uint j = 0; j < HELD; j++) {
            const uint i = begin + j * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
            const uint quad = piece * QUADS + i % QUADS, place = i / QUADS % STAGED_CHUNKS, column = i / (QUADS * STAGED_CHUNKS);
            const uint chunk = min(first + place / (SPAN * LANES) * per_part + place % (SPAN * LANES), chunks - 1);
            const uint at = chunk_base(chunk) + quad / (RUN / 4) * RUN_STRIDE + 4 * (quad % (RUN / 4));
            if (i < TO_STAGE) held[j] = load_x(column, at);
        }
        if (begin == 0) barrier();
        [[unroll]] for (uint j = 0; j < HELD; j++) {
            const uint i = begin + j * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
            if (i < TO_STAGE) staged[(i / (QUADS * STAGED_CHUNKS) * QUADS + i % QUADS) * PITCH + i / QUADS % STAGED_CHUNKS] = held[j];
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

// Adds the products of a piece of a chunk; `place` is the chunk's place in the stage.
void add_piece(Codes codes[ALL_ROWS], uint piece, uint chunk, uint place, inout float sums[PADDED]) {
    const uint base = chunk_base(chunk);
    [[unroll]] for (uint run = 0; run < RUNS; run++) {
        vec2 scale[ALL_ROWS];
        [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) scale[r] = code_scale(run_scale(codes[r], run));
        [[unroll]] for (uint quad = 0; quad < RUN / 4; quad++) {
            const uint own = run * (RUN / 4) + quad;
            if (own / QUADS == piece) {
                vec4 w[ALL_ROWS];
                [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) w[r] = weights(run_codes(codes[r], run, quad), scale[r]);
                [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                    vec4 x;
                    if (STAGE > 0) x = staged[(c * QUADS + own % QUADS) * PITCH + place];
                    else x = load_x(c, base + run * RUN_STRIDE + 4 * quad);
                    [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
                        uint i = (c * ROWS + r % ROWS) * MATRICES + r / ROWS;
                        sums[i] = dot_on(w[r], x, sums[i]);
                    }
                }
            }
        }
    }
}

#include "team_sums.glsl"

#include "product_result.glsl"

void main() {
#ifdef HAS_TABLE
    for (uint i = gl_LocalInvocationIndex; i < 16; i += gl_WorkGroupSize.x) table[i] = table_value(i);
    barrier();
#endif
    if (folded_group() >= p.groups) return;
    if (EXPERTS != 0 && !take_slots()) return;
    const uint lane = gl_SubgroupInvocationID % LANES;
    const uint own_part = SPREAD ? gl_SubgroupID % PARTS : 0;
    const uint teams = gl_SubgroupSize / LANES;
    const uint subgroup = folded_group() * (gl_NumSubgroups / ABREAST) + gl_SubgroupID / ABREAST;
    const uint first_row = (subgroup * teams + gl_SubgroupInvocationID / LANES) * ROWS;
    const uint chunks = p.k / CHUNK;
    const uint per_part = (chunks + PARTS * LANES - 1) / (PARTS * LANES) * LANES;
    const uvec3 plane = planes(p.k / BLOCK_ELEMS);

    // Rows beyond the end stand for the last one; `finish` drops them.
    uvec2 rows[ALL_ROWS];
    [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
        uint row = min(first_row + r % ROWS, p.m - 1);
        rows[r] = address_at(own_matrix(r < ROWS ? p.weight : p.up), row, p.row_bytes);
    }
    float totals[OWN];
    [[unroll]] for (uint i = 0; i < OWN; i++) totals[i] = 0.0;

    for (uint part = own_part; part < (SPREAD ? own_part + 1 : PARTS); part++) {
        float sums[PADDED];
        [[unroll]] for (uint i = 0; i < PADDED; i++) sums[i] = 0.0;
        const uint begin = part * per_part, end = min(begin + per_part, chunks);
        for (uint offset = 0; offset < per_part; offset += SPAN * LANES) {
            const uint stop = min(begin + offset + SPAN * LANES, end);
            for (uint step = 0; step < SPAN; step++) {
                const uint chunk = begin + offset + step * LANES + lane;
                // Of chunks beyond the end the last one is loaded, but not added.
                Codes codes[ALL_ROWS];
                [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) codes[r] = load_chunk(rows[r], plane, min(chunk, chunks - 1));
                [[unroll]] for (uint piece = 0; piece < PIECES; piece++) {
                    if (STAGE > 0 && step == 0) stage_x((part - own_part) * per_part + offset, per_part, chunks, piece);
                    if (chunk < stop) add_piece(codes, piece, chunk, own_part * SPAN * LANES + step * LANES + lane, sums);
                }
            }
        }
#if BLOCK_ELEMS == 1
        // What is no whole chunk: an element a lane.
        if (part == 0) {
            for (uint i = chunks * CHUNK + lane; i < p.k; i += LANES) {
                [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
                    float w = element(rows[r], i);
                    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                        uint at = (c * ROWS + r % ROWS) * MATRICES + r / ROWS;
                        sums[at] = fma(w, p.x.v[x_start(gl_WorkGroupID.z * COLUMNS, c) + i], sums[at]);
                    }
                }
            }
        }
#endif
        reduce(sums, lane, totals);
    }
    if (SPREAD) {
        [[unroll]] for (uint i = 0; i < OWN; i++) partials[gl_LocalInvocationIndex * OWN + i] = totals[i];
        barrier();
        if (own_part != 0) return;
        [[unroll]] for (uint i = 0; i < OWN; i++) {
            for (uint part = 1; part < PARTS; part++) {
                precise float total = totals[i] + partials[(gl_LocalInvocationIndex + part * gl_SubgroupSize) * OWN + i];
                totals[i] = total;
            }
        }
    }
    [[unroll]] for (uint i = 0; i < OWN / MATRICES; i++) {
        uint result = lane * (OWN / MATRICES) + i;
        if (result < ROWS * COLUMNS) {
            finish(first_row + result % ROWS, result / ROWS, totals[i * MATRICES], totals[i * MATRICES + MATRICES - 1]);
        }
    }
}
