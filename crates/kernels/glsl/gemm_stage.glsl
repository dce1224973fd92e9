// The operands of a tile in shared memory as f16, STEP elements of K at a time: weights decoded, activations as `convert` packed them. Both are in
// the order of the format's chunks, each 16 elements in that of packed rows (packed_row.glsl), which changes nothing of a sum but its order.
//
// For kernels with the constants THREADS, SOLO, ROWS (of each matrix), COLUMNS, STEP (CHUNK or more, divides 64), BUFFERS, GATE and the push constants
// weight, up, x, m, k, row_bytes, x_stride, columns. With SOLO (of a subgroup) every subgroup has operands of its own, of other steps: its slots are behind
// those of the one before. Include after weights.glsl and expert_slots.glsl. The kernel walks over K so:
//     Codes codes[W_TASKS]; uvec4 packed[X_TASKS]; Places places; find(rows, places); load; store; barrier; then for each step
//     load of the next one, products of this one, barrier where BUFFERS is 1, store of the next one, barrier.

const uint MATRICES = GATE ? 2 : 1;
// Who shares operands, and how many of them there are.
const uint TEAM = SOLO > 0 ? SOLO : THREADS;
const uint TEAMS = THREADS / TEAM;
const uint W_ROWS = MATRICES * ROWS;
// Quads of words from a row to the next: an odd number, so that neighbouring rows are in different banks.
const uint PITCH = STEP / 8 + 1;

// Row r of matrix i begins at (slot · W_ROWS + i · ROWS + r) · PITCH, column c at (slot · COLUMNS + c) · PITCH.
shared uvec4 w_stage[TEAMS * BUFFERS * W_ROWS * PITCH];
shared uvec4 x_stage[TEAMS * BUFFERS * COLUMNS * PITCH];

// Chunks of a row in a step. Where there are fewer than invocations, several invocations share a chunk: each decodes some of its runs.
const uint CHUNKS = STEP / CHUNK;
const uint W_CHUNKS = W_ROWS * CHUNKS;
const uint SPLIT = TEAM >= 4 * W_CHUNKS && RUNS >= 4 ? 4 : TEAM >= 2 * W_CHUNKS && RUNS >= 2 ? 2 : 1;
// Pieces of chunks that an invocation decodes in a step, and quads of words of x that it copies.
const uint W_TASKS = (W_CHUNKS * SPLIT + TEAM - 1) / TEAM;
const uint W_EVEN = W_CHUNKS * SPLIT % TEAM;
const uint X_QUADS = COLUMNS * STEP / 8;
const uint X_TASKS = (X_QUADS + TEAM - 1) / TEAM;
const uint X_EVEN = X_QUADS % TEAM;

uint team_index() {
    return SOLO > 0 ? gl_SubgroupInvocationID : gl_LocalInvocationIndex;
}

uint task(uint i) {
    return i * TEAM + team_index();
}

#ifdef MATRIX_KHR
// Matrix products want f16 arithmetic anyway, whose conversion rounds to nearest where packHalf2x16 may cut off.
uint pack(vec2 v) { return packFloat2x16(f16vec2(v)); }
#else
uint pack(vec2 v) { return packHalf2x16(v); }
#endif

// The addresses of the rows that the invocation decodes. Rows beyond the end stand for the last one.
void find_rows(uint first_row, inout uvec2 rows[W_TASKS]) {
    [[unroll]] for (uint i = 0; i < W_TASKS; i++) {
        uint row = task(i) % W_CHUNKS / CHUNKS;
        rows[i] = address_at(own_matrix(row < ROWS ? p.weight : p.up), min(first_row + row % ROWS, p.m - 1), p.row_bytes);
    }
}

// Issues the loads of a step that begins with chunk `first`.
void load_ahead(uint first, uint first_column, uvec2 rows[W_TASKS], uvec3 plane, inout Codes codes[W_TASKS], inout uvec4 packed[X_TASKS]) {
    [[unroll]] for (uint i = 0; i < W_TASKS; i++) {
        uint chunk = first + task(i) % CHUNKS;
        if (chunk < p.k / CHUNK && (W_EVEN == 0 || task(i) < W_CHUNKS * SPLIT)) codes[i] = load_chunk(rows[i], plane, chunk);
    }
    [[unroll]] for (uint i = 0; i < X_TASKS; i++) {
        if (X_EVEN == 0 || task(i) < X_QUADS) {
            // What is beyond K in a row is zero.
            uint column = task(i) / (STEP / 8), quad = task(i) % (STEP / 8);
            uint start = WHOLE ? (first_column + column) * p.x_stride : x_start(first_column, column);
            uint run = quad % (CHUNK / 8) / (RUN / 8);
            uint at = chunk_base(first + quad / (CHUNK / 8)) + run * RUN_STRIDE;
            packed[i] = UVec4In(p.x).v[start + at / 8 + quad % (RUN / 8)];
        }
    }
}

#if defined(MATRIX_KHR) && defined(PACKED_ORIGIN)
#include "gemm_halves.glsl"

// Decodes a run to `at`.
void store_run(Codes codes, uint run, uint at) {
    const vec2 scale = WEIGHT_SCALE * run_scale(codes, run);
    const f16vec2 b = f16vec2(float16_t(fma(MIDDLE - PACKED_ORIGIN, scale.x, scale.y)));
    [[unroll]] for (uint i = 0; i < RUN / 16; i++) {
        const float unit = packed_unit(run, i / (RUN / 16 / PACKED_PARTS));
        const f16vec2 a = f16vec2(float16_t(unit * scale.x));
        const f16vec2 centre = f16vec2(float16_t(1024.0 + 128.0 * PACKED_SIGNED + MIDDLE / unit));
        const uint flip = PACKED_SIGNED == 1 ? 0x80808080u : 0;
        uvec4 even, odd;
        [[unroll]] for (uint t = 0; t < 4; t++) {
            const uint w = run_packed(codes, run, 4 * i + t) ^ flip;
            even[t] = packFloat2x16(fma(two_bytes(w) - centre, a, b));
            odd[t] = packFloat2x16(fma(two_bytes(w >> 8) - centre, a, b));
        }
        w_stage[at + 2 * i] = even;
        w_stage[at + 2 * i + 1] = odd;
    }
}
#else
#define WEIGHT_SCALE 1.0
// Decodes a run to `at`.
void store_run(Codes codes, uint run, uint at) {
#ifdef HAS_HALVES
    [[unroll]] for (uint i = 0; i < RUN / 16; i++) {
        const uvec4 a = run_halves(codes, run, 2 * i), b = run_halves(codes, run, 2 * i + 1);
        const uvec4 first = uvec4(a.xz, b.xz), second = uvec4(a.yw, b.yw);
        w_stage[at + 2 * i] = (first & 0xFFFFu) | (second << 16);
        w_stage[at + 2 * i + 1] = (first >> 16) | (second & 0xFFFF0000u);
    }
#else
    vec2 scale = code_scale(run_scale(codes, run));
    [[unroll]] for (uint i = 0; i < RUN / 16; i++) {
        uvec4 even, odd;
        [[unroll]] for (uint t = 0; t < 4; t++) {
            vec4 w = weights(run_codes(codes, run, 4 * i + t), scale);
#if HAS_SCALE == 0
            // f32 and bf16 reach farther than f16.
            w = clamp(w, vec4(-65504.0), vec4(65504.0));
#endif
            even[t] = pack(w.xz);
            odd[t] = pack(w.yw);
        }
        w_stage[at + 2 * i] = even;
        w_stage[at + 2 * i + 1] = odd;
    }
#endif
}
#endif

// What is no whole chunk: the elements that there are, then zeros. Not unrolled: it is rare, and much code otherwise.
void store_rest(uvec2 row, uint chunk, uint at) {
    [[dont_unroll]] for (uint i = 0; i < CHUNK / 4; i++) {
        vec4 v = vec4(0.0);
#if BLOCK_ELEMS == 1
        for (uint e = 0; e < 4; e++) {
            uint k = chunk * CHUNK + 4 * i + e;
            if (k < p.k) v[e] = clamp(element(row, k), -65504.0, 65504.0);
        }
#endif
        w_stage[at + i / 4 * 2][i % 4] = pack(v.xz);
        w_stage[at + i / 4 * 2 + 1][i % 4] = pack(v.yw);
    }
}

// Puts what `load_ahead` loaded into shared memory.
void store_ahead(uint slot, uint first, uvec2 rows[W_TASKS], Codes codes[W_TASKS], uvec4 packed[X_TASKS]) {
    [[unroll]] for (uint i = 0; i < W_TASKS; i++) {
        if (W_EVEN == 0 || task(i) < W_CHUNKS * SPLIT) {
            uint row = task(i) % W_CHUNKS / CHUNKS, chunk = task(i) % CHUNKS, piece = task(i) / W_CHUNKS;
            uint at = (slot * W_ROWS + row) * PITCH + chunk * (CHUNK / 8);
            if (first + chunk >= p.k / CHUNK) {
                store_rest(rows[i], first + chunk, at);
            } else {
                [[unroll]] for (uint run = 0; run < RUNS; run++) {
                    if (SPLIT == 1 || run / (RUNS / SPLIT) == piece) store_run(codes[i], run, at + run * (RUN / 8));
                }
            }
        }
    }
    [[unroll]] for (uint i = 0; i < X_TASKS; i++) {
        if (X_EVEN == 0 || task(i) < X_QUADS) {
            x_stage[(slot * COLUMNS + task(i) / (STEP / 8)) * PITCH + task(i) % (STEP / 8)] = packed[i];
        }
    }
}
