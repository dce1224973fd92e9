#version 460
// Depthwise causal convolution over each sequence's rows, then SiLU. A subgroup computes a group of channels of a row, a lane four at a time.
// With norms, the first channels are query and key heads, a head a group: their L2 norms are stored (as norm.comp computes them) and not
// they themselves.
//
// The first rows of a part need the state, which its end replaces: one subgroup does both, so nobody reads what another one writes.
#include "types.glsl"
#include "chunk.glsl"
#include "activation.glsl"
#include "runs.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint TAPS = 4;
layout(constant_id = 3) const uint CHUNKS = 1; // of four channels, a lane

layout(push_constant, scalar) uniform Push {
    F32In x;
    F32In weight; // [channel][tap], the oldest tap first
    uvec2 state;  // [slot][TAPS - 1][channel], the oldest input first
    RunsIn runs;
    U32In row_parts;
    F32 out_; // the channels behind the heads
    F32 q;
    F32 k;
    uint rows;
    uint channels;
    uint group;
    uint groups; // a row
    uint heads;  // columns of all query heads, and of all key heads
    uint x_stride;
    uint out_stride;
    uint q_stride;
    uint k_stride;
    float eps;
    float q_scale;
    float k_scale;
} p;

const uint BEFORE = TAPS - 1;

F32 state_of(uint slot) {
    return F32(address_at(p.state, slot, 4 * BEFORE * p.channels));
}

// The input of four channels `BEFORE` places before token `i`.
vec4 input_before(Run run, uint i, uint channel, uint left) {
    if (i >= BEFORE) return load4(p.x, run_row(run, i - BEFORE) * p.x_stride + channel, left);
    if (run.from == NO_STATE) return vec4(0.0);
    return load4(F32In(address_at(p.state, run.from, 4 * BEFORE * p.channels)), i * p.channels + channel, left);
}

// A tap's weights of four channels.
vec4 weights(uint tap, uint channel, uint left) {
    vec4 w = vec4(0.0);
    [[unroll]] for (uint e = 0; e < 4; e++) {
        if (e < left) w[e] = p.weight.v[(channel + e) * TAPS + tap];
    }
    return w;
}

vec4 silu(vec4 v) {
    return vec4(silu(v.x), silu(v.y), silu(v.z), silu(v.w));
}

vec4 convolved(Run run, uint i, uint channel, uint left) {
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        sum = fma(weights(tap, channel, left), input_before(run, i + tap, channel, left), sum);
    }
    return silu(sum);
}

// Token `i` of a part, or a row of zeros for nobody, which is row `row`: the channels from `first` on.
void token(Run run, uint i, uint row, uint first) {
    uint size = min(p.group, p.channels - first);
    vec4 v[CHUNKS];
    float squares = 0.0;
    [[unroll]] for (uint n = 0; n < CHUNKS; n++) {
        uint at = 4 * (gl_SubgroupInvocationID + n * gl_SubgroupSize);
        v[n] = vec4(0.0);
        if (at < size && run.to != NO_STATE) v[n] = convolved(run, i, first + at, size - at);
        squares = square_sum(v[n], squares);
    }
    F32 to = p.out_;
    uint column = row * p.out_stride + first - 2 * p.heads;
    float factor = 1.0;
    if (first < 2 * p.heads) {
        bool is_q = first < p.heads;
        to = is_q ? p.q : p.k;
        column = is_q ? row * p.q_stride + first : row * p.k_stride + first - p.heads;
        float length_ = sqrt(max(subgroupAdd(squares), p.eps * p.eps));
        factor = (is_q ? p.q_scale : p.k_scale) / length_;
    }
    [[unroll]] for (uint n = 0; n < CHUNKS; n++) {
        uint at = 4 * (gl_SubgroupInvocationID + n * gl_SubgroupSize);
        if (at < size) store4(to, column + at, size - at, v[n] * factor);
    }
}

void main() {
    uint team = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    uint row = team / p.groups, first = team % p.groups * p.group;
    if (row >= p.rows) return;
    Run run = p.runs.v[p.row_parts.v[row]];
    uint i = row - run.first < run.count ? row - run.first : run.count + (row - run.second);
    if (i >= BEFORE || run.to == NO_STATE) {
        token(run, i, row, first);
        return;
    }
    if (i > 0) return; // with the first one
    for (uint t = 0; t < min(max(BEFORE, 1), run.total); t++) token(run, t, run_row(run, t), first);
    uint size = min(p.group, p.channels - first);
    [[unroll]] for (uint n = 0; n < CHUNKS; n++) {
        uint at = 4 * (gl_SubgroupInvocationID + n * gl_SubgroupSize);
        if (at >= size) continue;
        [[unroll]] for (uint b = 0; b < BEFORE; b++) {
            vec4 v = input_before(run, run.total + b, first + at, size - at);
            store4(state_of(run.to), b * p.channels + first + at, size - at, v);
        }
    }
}
