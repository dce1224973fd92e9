#version 460
// The gated delta rule in chunks, first half: what of a chunk's rows does not depend on the state S before them. With the cumulative decay
// g_i of a row since the chunk's begin, its rate b_i, and D the chunk's rows d_i of `S = decay·S + d ⊗ k`,
//     (1 + A)·D = b·V - b·g·K·S,    A_ij = b_i · g_i/g_j · k_i·k_j  for j < i
//     out       = g·Q·S + P·D,      P_ij = g_i/g_j · q_i·k_j        for j <= i
// With T = (1 + A)^-1, which is lower triangular, and a row of W for each of K, of U for each of V:
//     W = -T·(b·g·K), U = T·(b·V)        D   = U + W·S
//     R = g·Q + P·W                      out = P·U + R·S
// W, R and U go to memory, P·U where the outputs will be (Yang et al., "Gated Delta Networks", 2024).
//
// A workgroup takes a chunk and a head. Rows pass through a buffer of shared memory, the next ones on their way to registers. Quotients of decays are exponentials of differences of logarithms, never above 1.
#include "types.glsl"
#include "chunk.glsl"
#include "activation.glsl"
#include "runs.glsl"
#include "gates.glsl"
#include "chunk_layout.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 256; // a power of two from CHUNK to 256
layout(constant_id = 9) const uint Q_STRIDE = 1;
layout(constant_id = 10) const uint V_STRIDE = 1;
layout(constant_id = 11) const uint ALPHA_STRIDE = 1;
layout(constant_id = 12) const uint BETA_STRIDE = 1;
layout(constant_id = 13) const uint GATE_PART = 1;
layout(constant_id = 14) const uint ROW_STAGE = 16; // rows of a product's second factor in shared memory, 8 or 16

layout(push_constant, scalar) uniform Push {
    F32In q;
    F32In k;
    F32In v;
    F32In alpha;
    F32In beta;
    F32In dt_bias;
    F32In a;
    RunsIn runs;
    uvec2 chunks;
    F32 out_;
    uint parts;
    uint most;
} p;

// A decay's logarithm is no less: what is left of a state is far below f32's rounding.
const float LEAST = -24.0;

const uint WIDTH = KEY_SIZE + VALUE_SIZE; // of K beside V
const uint TILES = CHUNK / 8 * (WIDTH / 8);
const uint PAIR_PASSES = 256 / THREADS;
// Strides in 16 bytes; odd, so that rows spread over the banks of shared memory.
const uint STRIDE = CHUNK / 4 + 1;
const uint KEY_STAGE = ROW_STAGE / 2;
const uint KEY_STRIDE = KEY_STAGE + 1;
const uint WIDE = ROW_STAGE * WIDTH / 4;
const uint ROOM = 2 * CHUNK * KEY_STRIDE > WIDE ? 2 * CHUNK * KEY_STRIDE : WIDE;

// A, then T, then P. A slice of keys and queries, or rows of a product's second factor.
shared vec4 matrix[CHUNK * STRIDE];
shared vec4 stage[ROOM];
shared float logs[CHUNK];
shared vec2 since[CHUNK]; // the logarithm of the cumulative decay, and what it lost by rounding
shared float decays[CHUNK]; // since the chunk's begin
shared float rates[CHUNK];

Run run;
uint first_row, rows, head, keys, values; // the chunk's rows in its part, and how many there are; first columns of the heads
uint self;
CommonVec4 chunk4;
CommonF32 chunk1;

vec4 row_of(F32In from, uint stride, uint column, uint row) {
    return row < rows ? load4(from, run_row(run, first_row + row) * stride + column, 4) : vec4(0.0);
}

// What is left in row `i` of what was there after row `j`; where `i` is earlier, no more than all.
float decay_between(uint j, uint i) {
    vec2 difference = since[i] - since[j];
    return exp(min(difference.x + difference.y, 0.0));
}

void load_gates() {
    for (uint t = self; t < CHUNK; t += THREADS) {
        uint at = gate_column(head, GATE_PART), row = run_row(run, first_row + t);
        bool there = t < rows;
        logs[t] = there ? clamp(log_decay(p.alpha.v[row * ALPHA_STRIDE + at], p.dt_bias.v[head], p.a.v[head]), LEAST, 0.0) : 0.0;
        rates[t] = there ? sigmoid(p.beta.v[row * BETA_STRIDE + at]) : 0.0;
    }
    barrier();
    for (uint t = self; t < CHUNK; t += THREADS) {
        precise float sum = 0.0, lost = 0.0;
        for (uint i = 0; i <= t; i++) {
            precise float next = sum + logs[i], added = next - sum;
            lost += (sum - (next - added)) + (logs[i] - added);
            sum = next;
        }
        since[t] = vec2(sum, lost);
    }
    barrier();
    for (uint t = self; t < CHUNK; t += THREADS) {
        decays[t] = exp(since[t].x);
        chunk1.v[DECAYS + t] = decay_between(t, CHUNK - 1);
    }
    if (self == 0) chunk1.v[DECAYS + CHUNK] = exp(since[CHUNK - 1].x);
}

// Keys and queries of a slice, or rows of a factor, on their way to shared memory.
const uint PAIR_ITEMS = 2 * CHUNK * KEY_STAGE;
const uint ITEMS = PAIR_ITEMS > WIDE ? PAIR_ITEMS : WIDE;
vec4 next[(ITEMS + THREADS - 1) / THREADS];

void fetch_pairs(uint first) {
    [[unroll]] for (uint i = 0; i * THREADS < PAIR_ITEMS; i++) {
        uint item = i * THREADS + self, row = item / KEY_STAGE % CHUNK, column = keys + 4 * (first + item % KEY_STAGE);
        if (item < PAIR_ITEMS / 2) next[i] = row_of(p.k, K_STRIDE, column, row);
        else if (item < PAIR_ITEMS) next[i] = row_of(p.q, Q_STRIDE, column, row);
    }
}

// Elements of P, of the pairs (i + 16·r, j + 16·s) of rows, s <= r.
float p_pairs[PAIR_PASSES * 16];

// A to `matrix`, P to registers.
void pairs() {
    [[unroll]] for (uint pass = 0; pass < PAIR_PASSES; pass++) {
        uint i = (pass * THREADS + self) / 16, j = self % 16;
        float kk[16], qk[16];
        [[unroll]] for (uint e = 0; e < 16; e++) kk[e] = qk[e] = 0.0;
        fetch_pairs(0);
        for (uint first = 0; first < KEY_SIZE / 4; first += KEY_STAGE) {
            barrier();
            [[unroll]] for (uint i = 0; i * THREADS < PAIR_ITEMS; i++) {
                uint item = i * THREADS + self;
                if (item < PAIR_ITEMS) stage[item / KEY_STAGE * KEY_STRIDE + item % KEY_STAGE] = next[i];
            }
            barrier();
            if (first + KEY_STAGE < KEY_SIZE / 4) fetch_pairs(first + KEY_STAGE);
            [[unroll]] for (uint c = 0; c < KEY_STAGE; c++) {
                vec4 k[4];
                [[unroll]] for (uint s = 0; s < 4; s++) k[s] = stage[(j + 16 * s) * KEY_STRIDE + c];
                [[unroll]] for (uint r = 0; r < 4; r++) {
                    vec4 ki = stage[(i + 16 * r) * KEY_STRIDE + c], qi = stage[(CHUNK + i + 16 * r) * KEY_STRIDE + c];
                    [[unroll]] for (uint s = 0; s <= r; s++) {
                        [[unroll]] for (uint e = 0; e < 4; e++) {
                            kk[4 * r + s] = fma(ki[e], k[s][e], kk[4 * r + s]);
                            qk[4 * r + s] = fma(qi[e], k[s][e], qk[4 * r + s]);
                        }
                    }
                }
            }
        }
        [[unroll]] for (uint r = 0; r < 4; r++) {
            [[unroll]] for (uint s = 0; s <= r; s++) {
                uint y = i + 16 * r, x = j + 16 * s;
                float decay = decay_between(x, y);
                matrix[y * STRIDE + x / 4][x % 4] = x < y ? rates[y] * decay * kk[4 * r + s] : 0.0;
                p_pairs[16 * pass + 4 * r + s] = x <= y ? decay * qk[4 * r + s] : 0.0;
            }
        }
    }
    barrier();
}

// Four columns of a row of X·Y, blocks of the matrix: where X's row and Y's columns begin, and which of the columns and rows count, by four.
vec4 block_product(uint x, uint y, uint from, uint to) {
    vec4 sum = vec4(0.0);
    for (uint c = from; c < to; c++) {
        vec4 factors = matrix[x + c];
        [[unroll]] for (uint e = 0; e < 4; e++) sum = fma(vec4(factors[e]), matrix[y + (4 * c + e) * STRIDE], sum);
    }
    return sum;
}

// T = (1 + A)^-1 in place of A: blocks of 16 by substitution, then pairs of blocks, [L 0; C M]^-1 = [L^-1 0; -M^-1·C·L^-1 M^-1].
void invert() {
    uint own = self / 16 * 16, c = self % 16;
    float x[16];
    if (self < CHUNK) {
        [[unroll]] for (uint i = 0; i < 16; i++) x[i] = i == c ? 1.0 : 0.0;
        [[unroll]] for (uint j = 0; j < 15; j++) {
            [[unroll]] for (uint i = j + 1; i < 16; i++) {
                x[i] = fma(-matrix[(own + i) * STRIDE + own / 4 + j / 4][j % 4], x[j], x[i]);
            }
        }
    }
    barrier();
    if (self < CHUNK) {
        [[unroll]] for (uint i = 0; i < 16; i++) matrix[(own + i) * STRIDE + self / 4][c % 4] = x[i];
    }
    barrier();
    for (uint size = 16; size < CHUNK; size *= 2) {
        // C·L^-1 goes to the block above the diagonal. Nobody reads it afterwards: of triangles the 16 columns around the diagonal and the lower ones count.
        uint quads = size / 4, jobs = CHUNK / 2 * quads;
        for (uint job = self; job < jobs; job += THREADS) {
            uint row = job / quads % size, quad = job % quads, block = job / quads / size * 2 * size;
            uint second = (block + size) / 4;
            matrix[(block + row) * STRIDE + second + quad] =
                block_product((block + size + row) * STRIDE + block / 4, block * STRIDE + block / 4 + quad, quad / 4 * 4, quads);
        }
        barrier();
        for (uint job = self; job < jobs; job += THREADS) {
            uint row = job / quads % size, quad = job % quads, block = job / quads / size * 2 * size;
            uint second = (block + size) / 4;
            matrix[(block + size + row) * STRIDE + block / 4 + quad] =
                -block_product((block + size + row) * STRIDE + second, block * STRIDE + second + quad, 0, row / 16 * 4 + 4);
        }
        barrier();
    }
}

// Four columns of a row of b·g·K beside b·V, or of W beside U.
vec4 factor(bool second, uint row, uint column) {
    if (second) return chunk4.v[column < KEY_SIZE ? (STATE_FACTORS + row * KEY_SIZE + column) / 4 : (UPDATES + row * VALUE_SIZE + column - KEY_SIZE) / 4];
    if (column < KEY_SIZE) return rates[row] * decays[row] * row_of(p.k, K_STRIDE, keys + column, row);
    return rates[row] * row_of(p.v, V_STRIDE, values + column - KEY_SIZE, row);
}

void fetch_rows(bool second, uint first) {
    [[unroll]] for (uint i = 0; i * THREADS < WIDE; i++) {
        uint item = i * THREADS + self;
        if (item < WIDE) next[i] = factor(second, first + item / (WIDTH / 4), item % (WIDTH / 4) * 4);
    }
}

void put(bool second, uint row, uint column, vec4 x) {
    bool of_keys = column < KEY_SIZE;
    if (second && of_keys) {
        chunk4.v[(OUT_FACTORS + row * KEY_SIZE + column) / 4] = fma(vec4(decays[row]), row_of(p.q, Q_STRIDE, keys + column, row), x);
    } else if (second) {
        if (row < rows) store4(p.out_, run_row(run, first_row + row) * OUT_STRIDE + values + column - KEY_SIZE, 4, x);
    } else if (of_keys) {
        chunk4.v[(STATE_FACTORS + row * KEY_SIZE + column) / 4] = -x;
    } else {
        chunk4.v[(UPDATES + row * VALUE_SIZE + column - KEY_SIZE) / 4] = x;
    }
}

// The matrix, a lower triangle, times the rows of the second factor. A tile is of 8 rows and two times 4 columns.
void product(bool second) {
    for (uint pass = 0; pass < TILES; pass += THREADS) {
        uint tile = pass + self, group = tile / (WIDTH / 8), quad = tile % (WIDTH / 8);
        vec4 sums[16];
        [[unroll]] for (uint e = 0; e < 16; e++) sums[e] = vec4(0.0);
        fetch_rows(second, 0);
        for (uint first = 0; first < CHUNK; first += ROW_STAGE) {
            barrier();
            [[unroll]] for (uint i = 0; i * THREADS < WIDE; i++) {
                if (i * THREADS + self < WIDE) stage[i * THREADS + self] = next[i];
            }
            barrier();
            if (first + ROW_STAGE < CHUNK) fetch_rows(second, first + ROW_STAGE);
            uint columns = tile < TILES && first < 8 * group + 8 ? ROW_STAGE / 4 : 0;
            for (uint c = 0; c < columns; c++) {
                vec4 x[8];
                [[unroll]] for (uint r = 0; r < 8; r++) x[r] = matrix[(8 * group + r) * STRIDE + first / 4 + c];
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    vec4 a = stage[(4 * c + e) * (WIDTH / 4) + quad], b = stage[(4 * c + e) * (WIDTH / 4) + WIDTH / 8 + quad];
                    [[unroll]] for (uint r = 0; r < 8; r++) {
                        sums[2 * r] = fma(vec4(x[r][e]), a, sums[2 * r]);
                        sums[2 * r + 1] = fma(vec4(x[r][e]), b, sums[2 * r + 1]);
                    }
                }
            }
        }
        if (tile < TILES) {
            [[unroll]] for (uint r = 0; r < 8; r++) {
                put(second, 8 * group + r, 4 * quad, sums[2 * r]);
                put(second, 8 * group + r, WIDTH / 2 + 4 * quad, sums[2 * r + 1]);
            }
        }
    }
}

void main() {
    self = gl_LocalInvocationIndex;
    uint group = folded_group(), chunk = group / HEADS, part = 0;
    head = group % HEADS;
    // The part that the chunk is of.
    for (; part < p.parts; part++) {
        run = p.runs.v[part];
        uint count = chunks_of(run, p.most);
        if (chunk < count) break;
        chunk -= count;
    }
    if (part >= p.parts) return;
    first_row = chunk * CHUNK;
    rows = min(run.total - first_row, CHUNK);
    keys = key_head_of(head) * KEY_SIZE;
    values = head * VALUE_SIZE;
    uvec2 at = address_at(p.chunks, group, CHUNK_BYTES);
    chunk4 = CommonVec4(at);
    chunk1 = CommonF32(at);

    load_gates();
    pairs();
    invert();
    product(false);
    // W and U are read back by others than wrote them.
    memoryBarrierBuffer();
    barrier();
    [[unroll]] for (uint pass = 0; pass < PAIR_PASSES; pass++) {
        uint i = (pass * THREADS + self) / 16, j = self % 16;
        [[unroll]] for (uint r = 0; r < 4; r++) {
            [[unroll]] for (uint s = 0; s <= r; s++) {
                uint x = j + 16 * s;
                matrix[(i + 16 * r) * STRIDE + x / 4][x % 4] = p_pairs[16 * pass + 4 * r + s];
            }
        }
    }
    product(true);
}
