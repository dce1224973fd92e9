#version 460
// variants: FORMAT=packed; GATE=no|yes
//
// out[column][row] = Σ_k weight[row][k]·x[column][k] by integer dot products, for 1 to 16 columns a workgroup; with GATE, act(gate·x)·(up·x).
//
// Each workgroup rounds x to integers: per 32 elements a scale, |x|max / 127 for one byte an element, / 32639 for two (x = scale·(256·high + low),
// both bytes signed). Bytes of weights are what a format's `run_packed` gives. Four products at a time are summed exactly in integers over a run
// (16 or 32 elements with one scale of weights), then
//     Σ w·x = unit·d·scale·Σ v·xi + (m − origin·d)·scale·Σ xi
// in f32.
//
// LANES lanes are a team: it takes ROWS rows (of each matrix) and COLUMNS columns, and its lanes split K by chunks. The order of an output's sums
// depends on K and LANES alone. A workgroup takes batches of rows: its number, then every `groups`-th; x stays. The codes of a batch's or
// chunk's successor are loaded before the chunk's own are used (AHEAD), the first ones before x is rounded. With NORM the factor is the RMS norm of
// x: what is rounded is x times the norm's weight, its squares are summed on the way, and sums are divided by their root in the end. So no dispatch
// comes before that only norms.
// With SUBLAYER x is what a sublayer gave, and what is normed and multiplied is the row behind it: rms_norm(x)·w + row, times a factor where there
// is one. Every workgroup computes it, the first one stores it. Operands have the places of others that are not there: bias is w, residual the row,
// choice the result, up the factor.
// With EXPERTS columns are slots of rows (expert_slots.glsl).
#include "types.glsl"
#include "decode.glsl"
#include "format.glsl"
#include "activation.glsl"
#extension GL_EXT_integer_dot_product : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint LANES = 1; // a power of two, at most a subgroup
layout(constant_id = 4) const uint BYTES = 1; // of an element of x: 1 or 2
layout(constant_id = 5) const uint STAGE = 1; // chunks of a lane that are staged in shared memory at a time
layout(constant_id = 6) const bool ALIGNED = true; // x may be read by vec4
layout(constant_id = 7) const bool BIAS = false;
layout(constant_id = 8) const bool RESIDUAL = false;
layout(constant_id = 9) const uint ACTIVATION = 0; // with GATE: silu, gelu_tanh, oai_swiglu
layout(constant_id = 10) const bool AHEAD = true;
layout(constant_id = 11) const uint PITCH = 4; // chunks of the stage, padded
layout(constant_id = 12) const uint STAGED = 1; // COLUMNS · BYTES · PIECES · PITCH
layout(constant_id = 13) const uint SCALES = 1; // COLUMNS · RUNS · PITCH
layout(constant_id = 14) const uint EXPERTS = 0;
layout(constant_id = 15) const uint SLOTS = 1;
layout(constant_id = 16) const bool NORM = false; // all of x is staged at once
layout(constant_id = 17) const uint SQUARES = 1; // with NORM, COLUMNS · BLOCKS
layout(constant_id = 18) const uint BLOCKS = 1; // with NORM, 32 elements each, of a column
layout(constant_id = 19) const bool WHOLE = false; // all of x is staged at once: what stages parts is not in the loop, nor in its registers
layout(constant_id = 20) const bool SUBLAYER = false; // with NORM, of one column: x is what a sublayer gave, see below
layout(constant_id = 21) const bool SUBLAYER_SCALE = false;
layout(constant_id = 22) const bool SUBLAYER_OUT = false;

#ifdef GATE_YES
const uint MATRICES = 2;
#else
const uint MATRICES = 1;
#endif
const uint ALL_ROWS = MATRICES * ROWS;
const uint SUMS = ALL_ROWS * COLUMNS;
const uint OWN = (SUMS + LANES * MATRICES - 1) / (LANES * MATRICES) * MATRICES;
const uint PADDED = OWN * LANES;

layout(push_constant, scalar) uniform Push {
    uvec2 weight; // the gate where there is one
    uvec2 up;
    F32In x;
    F32In bias;
    F32In residual; // with GATE the bias of up
    F32In choice;
    F32In norm;
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
    float eps;
} p;

#include "expert_slots.glsl"

// 16 elements of x, a byte of each. Piece q of chunk c lies at q · PITCH + c: a team's lanes read neighbours, and PITCH is 4 more than a
// multiple of 8, so that what is stored together is spread over the banks.
const uint PIECES = CHUNK / 16;
shared uvec4 staged[STAGED];
// Of each run: its scale, and scale · Σ xi.
shared vec2 scales[SCALES];

// Of each 32 elements the sum of squares; of each column what its sums are to be multiplied with.
shared float squares[SQUARES * (SUBLAYER ? 2 : 1)];
shared float factors[COLUMNS];

// Sums of products begin as the bits of 1.5 · 2^23: what is added then is the float's mantissa, as long as it is below 2^22. So integers become
// floats by a subtraction.
const int ZERO = 0x4B400000;

float summed(int bits) {
    return intBitsToFloat(bits) - 12582912.0;
}

vec4 load_x(uint column, uint i) {
    uint at = x_start(gl_WorkGroupID.z * COLUMNS, column) + i;
    if (ALIGNED) return Vec4In(p.x).v[at / 4];
    return vec4(p.x.v[at], p.x.v[at + 1], p.x.v[at + 2], p.x.v[at + 3]);
}

vec4 load_of(F32In from, uint i) {
    if (ALIGNED) return Vec4In(from).v[i / 4];
    return vec4(from.v[i], from.v[i + 1], from.v[i + 2], from.v[i + 3]);
}

// Of x, w and the row the 8 elements that the invocation rounds first.
vec4 sublayer_first[6];
float sublayer_factor, sublayer_scale = 1.0;

// Sums the squares of x, in an order that depends on K alone.
void begin_sublayer() {
    const uint self = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    for (uint i = self; i < p.k / 8; i += gl_WorkGroupSize.x) {
        const vec4 a = load_x(0, 8 * i), b = load_x(0, 8 * i + 4);
        if (i == self) {
            [[unroll]] for (uint j = 0; j < 2; j++) {
                sublayer_first[j] = j == 0 ? a : b;
                sublayer_first[2 + j] = load_of(p.bias, 8 * i + 4 * j);
                sublayer_first[4 + j] = load_of(p.residual, 8 * i + 4 * j);
            }
        }
        float square = dot(a, a) + dot(b, b);
        square += subgroupShuffleXor(square, 1);
        square += subgroupShuffleXor(square, 2);
        if (i % 4 == 0) squares[SQUARES + i / 4] = square;
    }
    if (SUBLAYER_SCALE) sublayer_scale = F32In(p.up).v[0];
    barrier();
    float sum = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < p.k / 32; i += gl_SubgroupSize) sum += squares[SQUARES + i];
    sublayer_factor = 1.0 / sqrt(subgroupAdd(sum) / float(p.k) + p.eps);
}

// Elements 8 · i + 4 · j … of the row behind the sublayer.
vec4 behind_sublayer(uint i, uint j, bool first) {
    const uint at = 8 * i + 4 * j;
    vec4 x = sublayer_first[j], w = sublayer_first[2 + j], row = sublayer_first[4 + j];
    if (!first) {
        x = load_x(0, at);
        w = load_of(p.bias, at);
        row = load_of(p.residual, at);
    }
    x = x * sublayer_factor * w;
    precise vec4 sum = x + row;
    const vec4 result = sum * sublayer_scale;
    if (SUBLAYER_OUT && folded_group() == 0) {
        if (ALIGNED) Vec4(uvec2(p.choice)).v[at / 4] = result;
        else for (uint e = 0; e < 4; e++) F32(uvec2(p.choice)).v[at + e] = result[e];
    }
    return result;
}

// The low bytes of four words.
uint pack(uvec4 b) {
    return bitfieldInsert(bitfieldInsert(bitfieldInsert(b.x, b.y, 8, 8), b.z, 16, 8), b.w, 24, 8);
}

uint greatest(uvec4 v) {
    return max(max(v.x, v.y), max(v.z, v.w));
}

// Rounds 8 elements of x a lane, the scale's 32 by 4 lanes: elements 8 · i … of the stage.
void round_x(uint column, uint i, vec4 a, vec4 b) {
#if RUN == RUN_STRIDE
    const uint place = 8 * i / CHUNK, piece = i / 2 % PIECES, run = 8 * i % CHUNK / RUN;
#else
    // Two chunks lie in each other's gaps.
    const uint place = i / (2 * CHUNK / 8) * 2 + i / 2 % 2, piece = i / 4 % RUNS, run = piece;
#endif
    if (NORM) {
        float square = dot(a, a) + dot(b, b);
        square += subgroupShuffleXor(square, 1);
        square += subgroupShuffleXor(square, 2);
        if (i % 4 == 0) squares[column * BLOCKS + i / 4] = square;
        a *= load_of(p.norm, 8 * i);
        b *= load_of(p.norm, 8 * i + 4);
    }
    // By their bits, so that what is not a number is the greatest.
    uint most = max(greatest(floatBitsToUint(a) & 0x7FFFFFFFu), greatest(floatBitsToUint(b) & 0x7FFFFFFFu));
    most = max(most, subgroupShuffleXor(most, 1));
    most = max(most, subgroupShuffleXor(most, 2));
    const float limit = BYTES == 1 ? 127.0 : 32639.0, peak = uintBitsToFloat(most);
    const float inverse = peak >= 1e-30 ? limit / peak : 0.0;
    uvec4 low = floatBitsToUint(fma(a, vec4(inverse), vec4(12582912.0)));
    uvec4 high = floatBitsToUint(fma(b, vec4(inverse), vec4(12582912.0)));
    uint sum = low.x + low.y + low.z + low.w + high.x + high.y + high.z + high.w - 8 * uint(ZERO);
    sum += subgroupShuffleXor(sum, 1);
    if (RUN == 32) sum += subgroupShuffleXor(sum, 2);
    const uint at = (column * BYTES * PIECES + piece) * PITCH + place, word = i % 2 * 2;
    if (BYTES == 1) {
        staged[at][word] = pack(low);
        staged[at][word + 1] = pack(high);
    } else {
        // Byte 1 after half a step of it is added, byte 0 as signed.
        staged[at][word] = pack((low + 128u) >> 8);
        staged[at][word + 1] = pack((high + 128u) >> 8);
        staged[at + PIECES * PITCH][word] = pack(low);
        staged[at + PIECES * PITCH][word + 1] = pack(high);
    }
    if (i % (RUN / 8) == 0) {
        const float scale = peak / limit;
        scales[(column * RUNS + run) * PITCH + place] = vec2(scale, scale * summed(int(sum) + ZERO));
    }
}

// Rounds the chunks first … first + count.
void stage_x(uint first, uint count) {
    const uint self = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    barrier();
    for (uint column = 0; column < COLUMNS; column++) {
        for (uint i = self; i < count * (CHUNK / 8); i += gl_WorkGroupSize.x) {
            if (SUBLAYER) round_x(column, i, behind_sublayer(i, 0, i == self), behind_sublayer(i, 1, i == self));
            else round_x(column, i, load_x(column, first * CHUNK + 8 * i), load_x(column, first * CHUNK + 8 * i + 4));
        }
    }
    barrier();
}

// The root mean square of each column, in an order that depends on K alone.
void find_factors() {
    for (uint column = gl_SubgroupID; column < COLUMNS; column += gl_NumSubgroups) {
        float sum = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < p.k / 32; i += gl_SubgroupSize) sum += squares[column * BLOCKS + i];
        sum = subgroupAdd(sum);
        if (subgroupElect()) factors[column] = 1.0 / sqrt(sum / float(p.k) + p.eps);
    }
    barrier();
}

int dot_on(uint w, uint x, int sum) {
#if PACKED_SIGNED
    return sum + dotPacked4x8EXT(int(x), int(w));
#else
    return sum + dotPacked4x8EXT(int(x), w);
#endif
}

// Σ v·xi of the words that share a unit.
const uint PART_PIECES = RUN / 16 / PACKED_PARTS;

// Adds a chunk's products; `place` is its place in the stage.
void add_chunk(Codes codes[ALL_ROWS], uint place, inout float sums[PADDED]) {
    [[unroll]] for (uint run = 0; run < RUNS; run++) {
        vec2 scale[ALL_ROWS];
        uint w[ALL_ROWS][RUN / 4];
        [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
            vec2 dm = run_scale(codes[r], run);
            scale[r] = vec2(packed_unit(run, 0) * dm.x, fma(-PACKED_ORIGIN, dm.x, dm.y));
            [[unroll]] for (uint word = 0; word < RUN / 4; word++) w[r][word] = run_packed(codes[r], run, word);
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const vec2 x_scale = scales[(c * RUNS + run) * PITCH + place];
            float products[ALL_ROWS];
            [[unroll]] for (uint part = 0; part < PACKED_PARTS; part++) {
                int high[ALL_ROWS], low[ALL_ROWS];
                [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) high[r] = low[r] = ZERO;
                [[unroll]] for (uint q = part * PART_PIECES; q < (part + 1) * PART_PIECES; q++) {
                    const uint at = (c * BYTES * PIECES + run * (RUN / 16) + q) * PITCH + place;
                    const uvec4 x = staged[at];
                    [[unroll]] for (uint i = 0; i < 4; i++) {
                        [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) high[r] = dot_on(w[r][4 * q + i], x[i], high[r]);
                    }
                    if (BYTES == 2) {
                        const uvec4 y = staged[at + PIECES * PITCH];
                        [[unroll]] for (uint i = 0; i < 4; i++) {
                            [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) low[r] = dot_on(w[r][4 * q + i], y[i], low[r]);
                        }
                    }
                }
                [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
                    float product = summed(high[r]);
                    if (BYTES == 2) product = fma(product, 256.0, summed(low[r]));
                    products[r] = part == 0 ? product : fma(product, packed_unit(run, part) / packed_unit(run, 0), products[r]);
                }
            }
            [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
                const uint i = (c * ROWS + r % ROWS) * MATRICES + r / ROWS;
                sums[i] = fma(scale[r].x, x_scale.x * products[r], sums[i]);
#if HAS_MIN || defined(HAS_ORIGIN)
                sums[i] = fma(scale[r].y, x_scale.y, sums[i]);
#endif
            }
        }
    }
}

#include "team_sums.glsl"
#include "product_result.glsl"

void main() {
#ifdef HAS_TABLE
    for (uint i = gl_LocalInvocationIndex; i < 16; i += gl_WorkGroupSize.x) byte_table[i] = uint(int(table_value(i))) & 0xFFu;
#endif
    if (folded_group() >= p.groups) return;
    if (EXPERTS != 0 && !take_slots()) return;
    const uint lane = gl_SubgroupInvocationID % LANES;
    const uint teams = gl_SubgroupSize / LANES;
    const uint team_row = (gl_SubgroupID * teams + gl_SubgroupInvocationID / LANES) * ROWS;
    const uint batch_rows = gl_NumSubgroups * teams * ROWS;
    const uint chunks = p.k / CHUNK, steps = (chunks + LANES - 1) / LANES;
    const uvec3 plane = planes(p.k / BLOCK_ELEMS);

    uint batch = folded_group(), step = 0;
    uvec2 rows[ALL_ROWS];
    // Rows beyond the end stand for the last one; `finish` drops them. So do chunks, which are not added.
#define FIND_ROWS(batch) \
    [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) { \
        rows[r] = address_at(own_matrix(r < ROWS ? p.weight : p.up), min((batch) * batch_rows + team_row + r % ROWS, p.m - 1), p.row_bytes); \
    }
#define LOAD(codes, step) \
    [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) codes[r] = load_chunk(rows[r], plane, min((step) * LANES + lane, chunks - 1));

    Codes codes[ALL_ROWS];
    FIND_ROWS(batch)
    LOAD(codes, 0)
    if (SUBLAYER) begin_sublayer();
    stage_x(0, min(STAGE * LANES, chunks));
    if (NORM) find_factors();
    float sums[PADDED];
    [[unroll]] for (uint i = 0; i < PADDED; i++) sums[i] = 0.0;
    for (;;) {
        const bool last = step + 1 == steps;
        const uint next = last ? 0 : step + 1, next_batch = last ? batch + p.groups : batch;
        const bool more = next_batch * batch_rows < p.m;
        Codes following[ALL_ROWS];
        if (AHEAD && more) {
            if (last) FIND_ROWS(next_batch)
            LOAD(following, next)
        }
        const uint chunk = step * LANES + lane;
        if (chunk < chunks) add_chunk(codes, step % STAGE * LANES + lane, sums);
        if (last) {
            float totals[OWN];
            [[unroll]] for (uint i = 0; i < OWN; i++) totals[i] = 0.0;
            reduce(sums, lane, totals);
            [[unroll]] for (uint i = 0; i < OWN / MATRICES; i++) {
                const uint result = lane * (OWN / MATRICES) + i;
                if (result < ROWS * COLUMNS) {
                    const uint row = batch * batch_rows + team_row + result % ROWS;
                    const float factor = NORM ? factors[result / ROWS] : 1.0;
                    finish(row, result / ROWS, factor * totals[i * MATRICES], factor * totals[i * MATRICES + MATRICES - 1]);
                }
            }
            [[unroll]] for (uint i = 0; i < PADDED; i++) sums[i] = 0.0;
        }
        if (!more) break;
        if (AHEAD) {
            [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) codes[r] = following[r];
        } else {
            if (last) FIND_ROWS(next_batch)
            LOAD(codes, next)
        }
        batch = next_batch;
        step = next;
        // Where x is longer than the stage, all subgroups go on to its next part together.
        if (!WHOLE && step % STAGE == 0) stage_x(step * LANES, min(STAGE * LANES, chunks - step * LANES));
    }
}
