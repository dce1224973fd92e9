#version 460
// The gated delta rule in chunks, second half: with W, R, U and P·U of delta_prepare.comp, for one chunk after the other
//     D = U + W·S;  out = P·U + R·S;  S = decay·S + (K · decays until the end)^T · D
//
// A workgroup takes a part, a head and a slice of SLICE values, whose states do not depend on each other, and keeps the states in shared
// memory from the first chunk to the last. Rows pass through a buffer of shared memory in slices, the next one on its way to registers.
// An invocation computes tiles of 4 rows and 4 values: two rows of D and two of the outputs, or four keys of the states.
#include "types.glsl"
#include "chunk.glsl"
#include "runs.glsl"
#include "chunk_layout.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 256; // a power of two, at most 8 · SLICE
layout(constant_id = 9) const uint SLICE = 32;

layout(push_constant, scalar) uniform Push {
    F32In k;
    uvec2 state; // [slot][head][value][key]
    RunsIn runs;
    uvec2 chunks;
    F32 out_;
    uint parts;
    uint most;
} p;

const uint ROWS = 2 * CHUNK; // of W above R
const uint QUADS = SLICE / 4;
const uint KEY_STAGE = 8;
const uint KEY_STRIDE = KEY_STAGE + 1; // in 16 bytes; odd, so that rows spread over the banks
const uint FACTOR_SLICES = KEY_SIZE / (4 * KEY_STAGE);
const uint TOKENS = 32;
const uint SLICES_OF_CHUNK = FACTOR_SLICES + CHUNK / TOKENS;
const uint FACTOR_ITEMS = ROWS * KEY_STAGE;
const uint KEY_ITEMS = TOKENS * KEY_SIZE / 4;
const uint ITEMS = FACTOR_ITEMS > KEY_ITEMS ? FACTOR_ITEMS : KEY_ITEMS;
const uint LOADS = (ITEMS + THREADS - 1) / THREADS;
const uint ROOM = ROWS * KEY_STRIDE > KEY_ITEMS ? ROWS * KEY_STRIDE : KEY_ITEMS;
const uint ROW_TILES = ROWS / 4 * QUADS;
const uint PASSES = (ROW_TILES + THREADS - 1) / THREADS;
const uint STATE_TILES = KEY_SIZE / 4 * QUADS;

shared vec4 states[KEY_SIZE * QUADS]; // [key][value]
shared vec4 updates[CHUNK * QUADS]; // D
shared vec4 stage[ROOM];

Run run;
uint head, first_value, keys, values, self, first_chunk;
vec4 next[LOADS];
vec4 sums[PASSES * 4];

uvec2 chunk_at(uint chunk) {
    return address_at(p.chunks, (first_chunk + chunk) * HEADS + head, CHUNK_BYTES);
}

// Loads slice `s` of a chunk's rows.
void fetch(uint chunk, uint s) {
    Vec4In factors = Vec4In(chunk_at(chunk));
    F32In decays = F32In(chunk_at(chunk));
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint item = i * THREADS + self;
        if (s < FACTOR_SLICES) {
            // R follows W.
            if (item < FACTOR_ITEMS) next[i] = factors.v[item / KEY_STAGE * (KEY_SIZE / 4) + s * KEY_STAGE + item % KEY_STAGE];
        } else if (item < KEY_ITEMS) {
            uint t = (s - FACTOR_SLICES) * TOKENS + item / (KEY_SIZE / 4), row = chunk * CHUNK + t;
            next[i] = vec4(0.0);
            if (row < run.total) {
                next[i] = load4(p.k, run_row(run, row) * K_STRIDE + keys + item % (KEY_SIZE / 4) * 4, 4) * decays.v[DECAYS + t];
            }
        }
    }
}

void put(uint s) {
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint item = i * THREADS + self;
        if (s < FACTOR_SLICES) {
            if (item < FACTOR_ITEMS) stage[item / KEY_STAGE * KEY_STRIDE + item % KEY_STAGE] = next[i];
        } else if (item < KEY_ITEMS) {
            stage[item] = next[i];
        }
    }
}

// The row of D, or CHUNK and the output's, that is number `r` of a tile.
uint tile_row(uint tile, uint r) {
    return tile / QUADS + r * (ROWS / 4);
}

// What the products with the states are added to.
void begin(uint chunk) {
    Vec4In factors = Vec4In(chunk_at(chunk));
    [[unroll]] for (uint pass = 0; pass < PASSES; pass++) {
        uint tile = pass * THREADS + self, value = first_value + tile % QUADS * 4;
        [[unroll]] for (uint r = 0; r < 4; r++) {
            uint row = tile_row(tile, r), token = chunk * CHUNK + row - CHUNK;
            vec4 x = vec4(0.0);
            if (row < CHUNK) x = factors.v[(UPDATES + row * VALUE_SIZE + value) / 4];
            else if (token < run.total) x = load4(F32In(uvec2(p.out_)), run_row(run, token) * OUT_STRIDE + values + value, 4);
            sums[4 * pass + r] = x;
        }
    }
}

// Adds the products of a slice of keys.
void add_factors(uint s) {
    [[unroll]] for (uint pass = 0; pass < PASSES; pass++) {
        uint tile = pass * THREADS + self, quad = tile % QUADS;
        [[unroll]] for (uint c = 0; c < KEY_STAGE; c++) {
            vec4 x[4];
            [[unroll]] for (uint r = 0; r < 4; r++) x[r] = stage[tile_row(tile, r) * KEY_STRIDE + c];
            [[unroll]] for (uint e = 0; e < 4; e++) {
                vec4 state = states[((s * KEY_STAGE + c) * 4 + e) * QUADS + quad];
                [[unroll]] for (uint r = 0; r < 4; r++) sums[4 * pass + r] = fma(vec4(x[r][e]), state, sums[4 * pass + r]);
            }
        }
    }
}

// D to shared memory, outputs to memory.
void end(uint chunk) {
    [[unroll]] for (uint pass = 0; pass < PASSES; pass++) {
        uint tile = pass * THREADS + self, value = first_value + tile % QUADS * 4;
        [[unroll]] for (uint r = 0; r < 4; r++) {
            uint row = tile_row(tile, r), token = chunk * CHUNK + row - CHUNK;
            if (row < CHUNK) updates[row * QUADS + tile % QUADS] = sums[4 * pass + r];
            else if (token < run.total) store4(p.out_, run_row(run, token) * OUT_STRIDE + values + value, 4, sums[4 * pass + r]);
        }
    }
}

// Adds a slice of rows to the states, which decay before the first.
void add_updates(uint s, float decay) {
    uint first = (s - FACTOR_SLICES) * TOKENS;
    for (uint tile = self; tile < STATE_TILES; tile += THREADS) {
        uint key = tile / QUADS, quad = tile % QUADS;
        vec4 x[4];
        [[unroll]] for (uint e = 0; e < 4; e++) {
            x[e] = states[(4 * key + e) * QUADS + quad];
            if (first == 0) x[e] *= decay;
        }
        [[unroll]] for (uint t = 0; t < TOKENS; t++) {
            vec4 k = stage[t * (KEY_SIZE / 4) + key], d = updates[(first + t) * QUADS + quad];
            [[unroll]] for (uint e = 0; e < 4; e++) x[e] = fma(vec4(k[e]), d, x[e]);
        }
        [[unroll]] for (uint e = 0; e < 4; e++) states[(4 * key + e) * QUADS + quad] = x[e];
    }
}

void main() {
    self = gl_LocalInvocationIndex;
    uint slices = VALUE_SIZE / SLICE;
    uint group = folded_group(), part = group / slices / HEADS;
    if (part >= p.parts) return;
    head = group / slices % HEADS;
    first_value = group % slices * SLICE;
    keys = key_head_of(head) * KEY_SIZE;
    values = head * VALUE_SIZE;
    run = p.runs.v[part];
    if (p.most == 0 && run.to == NO_STATE) {
        for (uint item = self; item < run.total * QUADS; item += THREADS) {
            uint at = run_row(run, item / QUADS) * OUT_STRIDE + values + first_value + item % QUADS * 4;
            store4(p.out_, at, 4, vec4(0.0));
        }
    }
    uint count = chunks_of(run, p.most);
    if (count == 0) return;
    first_chunk = 0;
    for (uint i = 0; i < part; i++) first_chunk += chunks_of(p.runs.v[i], p.most);

    uint slot_bytes = 4 * KEY_SIZE * VALUE_SIZE * HEADS, own = (values + first_value) * KEY_SIZE;
    F32In before = F32In(address_at(p.state, run.from, slot_bytes));
    for (uint i = self; i < SLICE * KEY_SIZE; i += THREADS) {
        uint value = i / KEY_SIZE, key = i % KEY_SIZE;
        float x = 0.0;
        if (run.from != NO_STATE) x = before.v[own + i];
        states[key * QUADS + value / 4][value % 4] = x;
    }
    fetch(0, 0);
    begin(0);
    for (uint chunk = 0; chunk < count; chunk++) {
        float decay = F32In(chunk_at(chunk)).v[DECAYS + CHUNK];
        for (uint s = 0; s < SLICES_OF_CHUNK; s++) {
            barrier();
            put(s);
            barrier();
            bool last = s + 1 == SLICES_OF_CHUNK;
            if (!last || chunk + 1 < count) fetch(last ? chunk + 1 : chunk, last ? 0 : s + 1);
            if (s < FACTOR_SLICES) {
                add_factors(s);
                if (s + 1 == FACTOR_SLICES) {
                    end(chunk);
                    if (chunk + 1 < count) begin(chunk + 1);
                }
            } else {
                add_updates(s, decay);
            }
        }
    }
    barrier();
    F32 after = F32(address_at(p.state, run.to, slot_bytes));
    for (uint i = self; i < SLICE * KEY_SIZE; i += THREADS) {
        uint value = i / KEY_SIZE, key = i % KEY_SIZE;
        after.v[own + i] = states[key * QUADS + value / 4][value % 4];
    }
}
