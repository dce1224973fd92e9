#version 460
// The gated delta rule over each sequence's rows: per value head, with the state S of a row of keys for each value,
//     S = decay·S;  d = rate·(v - S·k);  S = S + d ⊗ k;  out = S·q
//
// A workgroup takes a part, a head and a slice of values; a value's row of S depends on no other one. LANES lanes are a team: they split
// the keys of COLUMNS values, hold their part of S in registers, walk the part's rows, and store S once. The products with the old S
// are all that a row waits for: S·k and S·q are summed together, and d and out follow from them and from k·q.
//
// Where parts have one row, the heads' norm and gate can follow in the same dispatch.
//
// Parts longer than `most` are left to delta_chunks.comp.
//
// The next row's q, k and v are loaded while a row is computed. The gates of as many rows as a subgroup has lanes are computed at a time.
#include "types.glsl"
#include "last.glsl"
#include "chunk.glsl"
#include "activation.glsl"
#include "gate.glsl"
#include "runs.glsl"
#include "gates.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint KEY_SIZE = 128;
layout(constant_id = 3) const uint LANES = 1; // a power of two, at most a subgroup; KEY_SIZE is a multiple of 4 · LANES
layout(constant_id = 4) const uint COLUMNS = 1;
layout(constant_id = 5) const bool GROUPED = false;
layout(constant_id = 6) const uint HEADS = 1;
layout(constant_id = 7) const uint KEY_HEADS = 1;
layout(constant_id = 8) const uint VALUE_SIZE = 1;
layout(constant_id = 9) const uint SLICES = 1; // of a head
layout(constant_id = 10) const uint GATE_PART = 1; // alpha and beta have as many columns each in turn; HEADS where they are apart
layout(constant_id = 11) const uint Q_STRIDE = 1;
layout(constant_id = 12) const uint K_STRIDE = 1;
layout(constant_id = 13) const uint V_STRIDE = 1;
layout(constant_id = 14) const uint ALPHA_STRIDE = 1;
layout(constant_id = 15) const uint BETA_STRIDE = 1;
layout(constant_id = 16) const uint OUT_STRIDE = 1;
layout(constant_id = 17) const bool NORMED = false; // parts have one row: its heads are normed, and gated by z
layout(constant_id = 18) const uint Z_STRIDE = 1;
layout(constant_id = 19) const uint NORMED_STRIDE = 1;

layout(push_constant, scalar) uniform Push {
    F32In q;
    F32In k;
    F32In v;
    F32In alpha;
    F32In beta;
    F32In dt_bias;
    F32In a;
    uvec2 state; // [slot][head][value][key]
    RunsIn runs;
    F32 out_;
    F32In norm;
    F32In z;
    F32 normed;
    CommonU32 done; // slices of a part's head that are done; 0 before and after
    uint parts;
    float eps;
    uint most; // rows of a part; longer ones are done in chunks
} p;

const uint QUADS = KEY_SIZE / (4 * LANES); // of a lane
const uint SUMS = 2 * COLUMNS + 1;

// Decay and rate of a row.
vec2 gates(uint row, uint head) {
    uint at = gate_column(head, GATE_PART);
    float decay = log_decay(p.alpha.v[row * ALPHA_STRIDE + at], p.dt_bias.v[head], p.a.v[head]);
    return vec2(exp(min(decay, 80.0)), sigmoid(p.beta.v[row * BETA_STRIDE + at]));
}

void store(uint at, float value) {
    if (NORMED) CommonF32(uvec2(p.out_)).v[at] = value;
    else p.out_.v[at] = value;
}

// Four columns of what all slices stored.
vec4 stored(uint at) {
    if (ALIGNED) return CommonVec4(uvec2(p.out_)).v[at / 4];
    vec4 v;
    [[unroll]] for (uint i = 0; i < 4; i++) v[i] = CommonF32(uvec2(p.out_)).v[at + i];
    return v;
}

// The slice of a head that is the last to come norms it: a subgroup, as norm.comp does.
void norm_head(uint part, uint head, uint row) {
    if (!comes_last(p.done, part * HEADS + head, SLICES) || gl_SubgroupID != 0) return;
    float squares = 0.0;
    uint x = row * OUT_STRIDE + head * VALUE_SIZE;
    for (uint c = gl_SubgroupInvocationID; c < VALUE_SIZE / 4; c += gl_SubgroupSize) {
        squares = square_sum(stored(x + 4 * c), squares);
    }
    float factor = 1.0 / sqrt(subgroupAdd(squares) / float(VALUE_SIZE) + p.eps);
    for (uint c = gl_SubgroupInvocationID; c < VALUE_SIZE / 4; c += gl_SubgroupSize) {
        vec4 v = stored(x + 4 * c);
        v *= factor;
        v *= load4(p.norm, 4 * c, 4);
        vec4 gate = load4(p.z, row * Z_STRIDE + head * VALUE_SIZE + 4 * c, 4);
        v = gate * sigmoid(gate) * v;
        store4(p.normed, row * NORMED_STRIDE + head * VALUE_SIZE + 4 * c, 4, v);
    }
}

vec4 s[COLUMNS * QUADS];
// Of the next row.
vec4 next_k[QUADS], next_q[QUADS];
float next_v[COLUMNS];

void main() {
    uint group = folded_group();
    uint slice = group % SLICES, head = group / SLICES % HEADS, part = group / SLICES / HEADS;
    if (part >= p.parts) return;
    Run run = p.runs.v[part];
    if (run.total == 0 || is_chunked(run, p.most)) return;

    uint teams = gl_WorkGroupSize.x / LANES;
    uint team = (gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID) / LANES;
    uint lane = gl_SubgroupInvocationID % LANES;
    uint first = slice * teams * COLUMNS + team; // its values are `teams` apart
    if (run.to == NO_STATE) {
        for (uint t = 0; t < run.total; t++) {
            for (uint c = lane; c < COLUMNS; c += LANES) {
                uint value = first + c * teams;
                if (value < VALUE_SIZE) {
                    store(run_row(run, t) * OUT_STRIDE + head * VALUE_SIZE + value, 0.0);
                }
            }
        }
        if (NORMED) norm_head(part, head, run_row(run, 0));
        return;
    }
    uint key_head = GROUPED ? head / (HEADS / KEY_HEADS) : head % KEY_HEADS;
    uint keys = key_head * KEY_SIZE + 4 * lane; // a lane's quads are 4 · LANES keys apart
    uint slot_bytes = 4 * KEY_SIZE * VALUE_SIZE * HEADS;
    // Values beyond the end stand for the last one.
    uint values[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
        values[c] = head * VALUE_SIZE + min(first + c * teams, VALUE_SIZE - 1);
    }
    Vec4In before = Vec4In(address_at(p.state, run.from, slot_bytes));
    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            uint at = values[c] * (KEY_SIZE / 4) + i * LANES + lane;
            s[c * QUADS + i] = vec4(0.0);
            if (run.from != NO_STATE) s[c * QUADS + i] = before.v[at];
        }
    }

    uint next_row = run_row(run, 0);
    vec2 gate = vec2(0.0);
    for (uint t = 0; t <= run.total; t++) {
        vec4 k[QUADS], q[QUADS];
        float v[COLUMNS];
        uint row = next_row;
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            k[i] = next_k[i];
            q[i] = next_q[i];
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) v[c] = next_v[c];
        if (t < run.total) {
            next_row = run_row(run, t);
            [[unroll]] for (uint i = 0; i < QUADS; i++) {
                next_k[i] = load4(p.k, next_row * K_STRIDE + keys + 4 * LANES * i, 4);
                next_q[i] = load4(p.q, next_row * Q_STRIDE + keys + 4 * LANES * i, 4);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) next_v[c] = p.v.v[next_row * V_STRIDE + values[c]];
        }
        if (t == 0) continue; // the first row is on its way

        uint step = (t - 1) % gl_SubgroupSize;
        if (step == 0) gate = gates(run_row(run, min(t - 1 + gl_SubgroupInvocationID, run.total - 1)), head);
        float decay = subgroupShuffle(gate.x, step), rate = subgroupShuffle(gate.y, step);

        float sums[SUMS];
        [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = 0.0;
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            [[unroll]] for (uint e = 0; e < 4; e++) {
                [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                    sums[2 * c] = fma(s[c * QUADS + i][e], k[i][e], sums[2 * c]);
                    sums[2 * c + 1] = fma(s[c * QUADS + i][e], q[i][e], sums[2 * c + 1]);
                }
                sums[SUMS - 1] = fma(k[i][e], q[i][e], sums[SUMS - 1]);
            }
        }
        // Both partners add the same two numbers, so all lanes have the same bits.
        [[unroll]] for (uint distance = 1; distance < LANES; distance *= 2) {
            [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] += subgroupShuffleXor(sums[i], distance);
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            float d = rate * fma(-decay, sums[2 * c], v[c]);
            [[unroll]] for (uint i = 0; i < QUADS; i++) {
                s[c * QUADS + i] = fma(vec4(d), k[i], decay * s[c * QUADS + i]);
            }
            if (lane == c % LANES && first + c * teams < VALUE_SIZE) {
                store(row * OUT_STRIDE + values[c], fma(d, sums[SUMS - 1], decay * sums[2 * c + 1]));
            }
        }
    }

    Vec4 after = Vec4(address_at(p.state, run.to, slot_bytes));
    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
        if (first + c * teams >= VALUE_SIZE) continue;
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            after.v[values[c] * (KEY_SIZE / 4) + i * LANES + lane] = s[c * QUADS + i];
        }
    }
    if (NORMED) norm_head(part, head, run_row(run, 0));
}
