#version 460
// Depthwise causal convolution over each sequence's rows, then SiLU. An invocation computes a channel of a row.
//
// The first rows of a part need the state, which its end replaces: one invocation does both, so nobody reads what another one writes.
#include "types.glsl"
#include "activation.glsl"
#include "runs.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TAPS = 4;

layout(push_constant, scalar) uniform Push {
    F32In x;
    F32In weight; // [channel][tap], the oldest tap first
    uvec2 state;  // [slot][TAPS - 1][channel], the oldest input first
    RunsIn runs;
    U32In row_parts;
    F32 out_;
    uint rows;
    uint channels;
    uint x_stride;
    uint out_stride;
    uint groups; // a row
} p;

const uint BEFORE = TAPS - 1;

float old[TAPS];

F32 state_of(uint slot) {
    return F32(address_at(p.state, slot, 4 * BEFORE * p.channels));
}

// The channel's input `BEFORE` places before token `i`.
float input_before(Run run, uint i, uint channel) {
    return i < BEFORE ? old[i] : p.x.v[run_row(run, i - BEFORE) * p.x_stride + channel];
}

void convolve(Run run, uint i, uint channel) {
    float sum = 0.0;
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        sum = fma(p.weight.v[channel * TAPS + tap], input_before(run, i + tap, channel), sum);
    }
    p.out_.v[run_row(run, i) * p.out_stride + channel] = silu(sum);
}

void main() {
    uint group = folded_group();
    uint row = group / p.groups, channel = group % p.groups * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (row >= p.rows || channel >= p.channels) return;
    Run run = p.runs.v[p.row_parts.v[row]];
    if (run.to == NO_STATE) {
        p.out_.v[row * p.out_stride + channel] = 0.0;
        return;
    }
    uint i = row - run.first < run.count ? row - run.first : run.count + (row - run.second);
    if (i > 0) {
        if (i >= BEFORE) convolve(run, i, channel);
        return;
    }
    [[unroll]] for (uint b = 0; b < BEFORE; b++) {
        old[b] = run.from == NO_STATE ? 0.0 : state_of(run.from).v[b * p.channels + channel];
    }
    for (uint t = 0; t < min(max(BEFORE, 1), run.total); t++) convolve(run, t, channel);
    [[unroll]] for (uint b = 0; b < BEFORE; b++) {
        state_of(run.to).v[b * p.channels + channel] = input_before(run, run.total + b, channel);
    }
}
