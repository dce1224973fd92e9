#version 460
// variants: FORMAT=packed; GATE=no|yes
//
// out[column][row] = Σ_k weight[row][k]·x[column][k] for few columns, both factors in f16 and sums in f32; with GATE, act(gate·x)·(up·x).
//
// A slice of K is four chunks of the format. Each subgroup has a slice of x in the registers of matrices, and multiplies with it the same slice of all rows of the workgroup,
// 16 at a time: so x is read once a workgroup, and nothing but weights moves in the loop. They are decoded by the lanes that multiply them: lane l has, of rows l / 4 and
// l / 4 + 8 of a matrix, elements 2t, 2t + 1, 2t + 8 and 2t + 9, t = l % 4, and of x the same elements of column l / 4. Which elements of K these are is no matter, as
// long as both agree: lane l has a word of four codes of chunk t of the slice (lanes/mod.rs asks the device whether its matrices lie so).
//
// x becomes f16 here: a slice of a column is multiplied by a power of two that puts its largest magnitude between 2^14 and 2^15, its sums by the inverse.
//
// Sums of TILES matrices of rows stay in shared memory, each subgroup's own; then all add them up, in the order of subgroups.
#include "types.glsl"
#include "decode.glsl"
#include "format.glsl"
#include "activation.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "gemm_halves.glsl"
#include "packed_row.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 32;
layout(constant_id = 1) const uint TILES = 1;
layout(constant_id = 2) const uint REGION = 256; // pairs of words of a subgroup in shared memory
layout(constant_id = 3) const bool ALIGNED = true; // x may be read by vec4
layout(constant_id = 4) const bool BIAS = false;
layout(constant_id = 5) const bool RESIDUAL = false;
layout(constant_id = 6) const uint ACTIVATION = 0; // with GATE: silu, gelu_tanh, oai_swiglu
const uint COLUMNS = 8;

layout(push_constant, scalar) uniform Push {
    uvec2 weight; // the gate where there is one
    uvec2 up;
    F32In x;
    F32In bias;
    F32In residual;
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

// No slots of experts.
const uint EXPERTS = 0, expert = 0, own_columns = 0;
const uvec2 slot_of[1] = uvec2[1](uvec2(0));
#include "product_result.glsl"

#ifdef GATE_YES
const uint MATRICES = 2;
#else
const uint MATRICES = 1;
#endif
const uint TEAMS = THREADS / 32;
// Products of a slice, and quads of elements of a column that a lane brings.
const uint PRODUCTS = CHUNK / 4, QUADS = CHUNK / 32;
#define SUM coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>

// Pairs, since of two neighbours of a quad one would write what the other one had there.
shared uvec2 own[TEAMS * REGION];

coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> x[PRODUCTS];
// What sums of columns 2t and 2t + 1 are to be multiplied with.
vec2 inverse;

vec4 load4(F32In from, uint at) {
    if (ALIGNED) return Vec4In(from).v[at / 4];
    return vec4(from.v[at], from.v[at + 1], from.v[at + 2], from.v[at + 3]);
}

// The columns of the subgroup's slice to the registers of matrices.
void take_columns() {
    const uint lane = gl_SubgroupInvocationID, t = lane % 4, chunks = p.k / CHUNK;
    vec4 v[8 * QUADS];
    [[unroll]] for (uint h = 0; h < QUADS; h++) {
        // Product q % PRODUCTS of chunk q / PRODUCTS.
        const uint q = lane + 32 * h, chunk = 4 * gl_SubgroupID + q / PRODUCTS;
        const uint at = chunk_base(min(chunk, chunks - 1)) + q % PRODUCTS / (RUN / 4) * RUN_STRIDE + q % (RUN / 4) * 4;
        [[unroll]] for (uint c = 0; c < 8; c++) {
            const uint column = min(gl_WorkGroupID.z * COLUMNS + c, p.columns - 1);
            v[c * QUADS + h] = load4(p.x, column * p.x_stride + at);
            if (chunk >= chunks) v[c * QUADS + h] = vec4(0.0);
        }
    }
    uvec2 words[8 * QUADS];
    [[unroll]] for (uint c = 0; c < 8; c++) {
        // By their bits, so that what is not a number is the greatest.
        uint most = 0;
        [[unroll]] for (uint h = 0; h < QUADS; h++) {
            const uvec4 bits = floatBitsToUint(v[c * QUADS + h]) & 0x7FFFFFFFu;
            most = max(most, max(max(bits.x, bits.y), max(bits.z, bits.w)));
        }
        const uint exponent = packed_exponent(uintBitsToFloat(subgroupMax(most)));
        const float back = packed_inverse(exponent) / WEIGHT_SCALE;
        if (c == 2 * t) inverse.x = back;
        if (c == 2 * t + 1) inverse.y = back;
        [[unroll]] for (uint h = 0; h < QUADS; h++) {
            const vec4 s = packed_scale(exponent) * v[c * QUADS + h];
            words[c * QUADS + h] = uvec2(packFloat2x16(f16vec2(s.xz)), packFloat2x16(f16vec2(s.yw)));
        }
    }
    // From lanes that have neighbours to the lanes that multiply them, half of the products at a time. Lanes change places so that they meet in no bank.
    const uint stage = gl_SubgroupID * REGION, product = lane % PRODUCTS;
    [[unroll]] for (uint pass = 0; pass < 2; pass++) {
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        if (product / (PRODUCTS / 2) == pass) {
            const uint i = product % (PRODUCTS / 2);
            [[unroll]] for (uint c = 0; c < 8; c++) {
                [[unroll]] for (uint h = 0; h < QUADS; h++) {
                    own[stage + i * 32 + ((4 * c + (lane + 32 * h) / PRODUCTS) ^ (2 * i))] = words[c * QUADS + h];
                }
            }
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[unroll]] for (uint i = 0; i < PRODUCTS / 2; i++) {
            const uvec2 w = own[stage + i * 32 + (lane ^ (2 * i))];
            const f16vec2 low = unpackFloat2x16(w.x), high = unpackFloat2x16(w.y);
            const uint to = pass * (PRODUCTS / 2) + i;
            x[to][0] = low.x;
            x[to][1] = low.y;
            x[to][2] = high.x;
            x[to][3] = high.y;
        }
    }
    // Sums come in its place.
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

// Step i of a batch is matrix i % MATRICES of its rows 16·(i / MATRICES) …; rows and chunks beyond the end stand for the last ones, whose results are dropped or whose x is zero.
#define LOAD(codes, batch, step) \
    [[unroll]] for (uint r = 0; r < 2; r++) { \
        const uint row = min(((batch) + (step) / MATRICES) * 16 + gl_SubgroupInvocationID / 4 + 8 * r, p.m - 1); \
        const uvec2 matrix = (step) % MATRICES == 0 ? p.weight : p.up; \
        codes[r] = load_chunk(address_at(matrix, row, p.row_bytes), plane, min(4 * gl_SubgroupID + gl_SubgroupInvocationID % 4, p.k / CHUNK - 1)); \
    }

void add_products(Codes codes[2], inout SUM sums) {
    const uint flip = PACKED_SIGNED == 1 ? 0x80808080u : 0;
    [[unroll]] for (uint run = 0; run < RUNS; run++) {
        vec2 scale[2];
        f16vec2 b[2];
        [[unroll]] for (uint r = 0; r < 2; r++) {
            scale[r] = WEIGHT_SCALE * run_scale(codes[r], run);
            b[r] = f16vec2(float16_t(fma(MIDDLE - PACKED_ORIGIN, scale[r].x, scale[r].y)));
        }
        [[unroll]] for (uint word = 0; word < RUN / 4; word++) {
            const float unit = packed_unit(run, word / (RUN / 4 / PACKED_PARTS));
            const f16vec2 centre = f16vec2(float16_t(1024.0 + 128.0 * PACKED_SIGNED + MIDDLE / unit));
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> w;
            [[unroll]] for (uint r = 0; r < 2; r++) {
                const f16vec2 a = f16vec2(float16_t(unit * scale[r].x));
                const uint bytes = run_packed(codes[r], run, word) ^ flip;
                f16vec2 v = fma(two_bytes(bytes) - centre, a, b[r]);
                w[4 * r] = v.x;
                w[4 * r + 1] = v.y;
                v = fma(two_bytes(bytes >> 8) - centre, a, b[r]);
                w[4 * r + 2] = v.x;
                w[4 * r + 3] = v.y;
            }
            sums = coopMatMulAdd(w, x[run * (RUN / 4) + word], sums);
        }
    }
}

// Where a subgroup has the sums of matrix `step` of a batch: rows l / 4 in the first 32 pairs, rows l / 4 + 8 in those behind.
uint sums_at(uint team, uint step) {
    return team * REGION + step * 64;
}

// Adds up what the subgroups have of rows 16·batch … and finishes it.
void finish_batch(uint batch, uint tiles) {
    for (uint e = gl_LocalInvocationIndex; e < tiles * 32; e += THREADS) {
        const uint tile = e / 32, lane = e % 32;
        vec4 total[MATRICES];
        [[unroll]] for (uint i = 0; i < MATRICES; i++) total[i] = vec4(0.0);
        for (uint team = 0; team < TEAMS; team++) {
            [[unroll]] for (uint i = 0; i < MATRICES; i++) {
                const uint at = sums_at(team, tile * MATRICES + i) + lane;
                total[i] += uintBitsToFloat(uvec4(own[at], own[at + 32]));
            }
        }
        const uint row = (batch + tile) * 16 + lane / 4, column = lane % 4 * 2;
        [[unroll]] for (uint i = 0; i < 4; i++) finish(row + i / 2 * 8, column + i % 2, total[0][i], total[MATRICES - 1][i]);
    }
}

void main() {
#ifdef HAS_TABLE
    for (uint i = gl_LocalInvocationIndex; i < 16; i += THREADS) byte_table[i] = uint(int(table_value(i))) & 0xFFu;
    barrier();
#endif
    if (folded_group() >= p.groups) return;
    const uvec3 plane = planes(p.k / BLOCK_ELEMS);
    const uint all = (p.m + 15) / 16, first = folded_group() * all / p.groups, end = (folded_group() + 1) * all / p.groups;
    Codes codes[2], next[2];
    LOAD(codes, first, 0)
    take_columns();
    for (uint batch = first; batch < end; batch += TILES) {
        const uint tiles = min(TILES, end - batch), steps = tiles * MATRICES;
        for (uint i = 0; i < steps; i++) {
            // The next step or batch is on the way.
            const bool over = i + 1 == steps;
            LOAD(next, over ? min(batch + tiles, end - 1) : batch, over ? 0 : i + 1)
            SUM sums = SUM(0.0);
            add_products(codes, sums);
            const vec4 part = vec4(sums[0], sums[1], sums[2], sums[3]) * inverse.xyxy;
            const uint at = sums_at(gl_SubgroupID, i) + gl_SubgroupInvocationID;
            own[at] = floatBitsToUint(part.xy);
            own[at + 32] = floatBitsToUint(part.zw);
            [[unroll]] for (uint r = 0; r < 2; r++) codes[r] = next[r];
        }
        barrier();
        finish_batch(batch, tiles);
        if (batch + TILES < end) barrier();
    }
}
