#version 460
// Joins the blocks of attention.comp: the workgroup's slices take a row's visible blocks in turn, then are joined in order.
// A sink is one more logit in maximum and denominator.
#include "types.glsl"
#include "attention.glsl"
#include "workgroup.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 256;
layout(constant_id = 1) const uint VALUE_SIZE = 128;
layout(constant_id = 2) const uint KEY_BLOCK = 64;

layout(push_constant, scalar) uniform Push {
    F32In parts;
    RowsIn rows;
    F32In sinks;
    F32 out_;
    uint heads;
    uint max_blocks;
    uint window;
    uint out_stride;
    uint has_sinks;
} p;

const uint COLUMNS = VALUE_SIZE / 4;
const uint SLICES = THREADS / COLUMNS;

const uint PART = VALUE_SIZE + PART_EXTRA;

shared vec4 slice_value[SLICES * COLUMNS];
shared float slice_sum[SLICES];

void main() {
    uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    uint position = p.rows.v[row].position;
    uint blocks = position / KEY_BLOCK - first_visible(position, p.window) / KEY_BLOCK + 1;
    uint part = (row * p.heads + head) * p.max_blocks * PART;

    float maximum = p.has_sinks != 0 ? p.sinks.v[head] : HIDDEN;
    for (uint b = gl_LocalInvocationIndex; b < blocks; b += THREADS) {
        maximum = max(maximum, p.parts.v[part + b * PART + VALUE_SIZE]);
    }
    maximum = workgroup_max(maximum);

    uint slice = gl_LocalInvocationIndex / COLUMNS, column = gl_LocalInvocationIndex % COLUMNS;
    if (slice < SLICES) {
        vec4 value = vec4(0.0);
        float sum = 0.0;
        for (uint b = slice; b < blocks; b += SLICES) {
            uint at = part + b * PART;
            float own = p.parts.v[at + VALUE_SIZE];
            float weight = own == maximum ? 1.0 : exp(own - maximum);
            value = fma(vec4(weight), Vec4In(p.parts).v[at / 4 + column], value);
            sum = fma(weight, p.parts.v[at + VALUE_SIZE + 1], sum);
        }
        slice_value[slice * COLUMNS + column] = value;
        if (column == 0) slice_sum[slice] = sum;
    }
    barrier();
    for (uint c = gl_LocalInvocationIndex; c < COLUMNS; c += THREADS) {
        vec4 value = vec4(0.0);
        float sum = p.has_sinks != 0 ? exp(p.sinks.v[head] - maximum) : 0.0;
        for (uint s = 0; s < SLICES; s++) {
            value += slice_value[s * COLUMNS + c];
            sum += slice_sum[s];
        }
        value /= sum;
        uint o = row * p.out_stride + head * VALUE_SIZE + 4 * c;
        for (uint i = 0; i < 4; i++) p.out_.v[o + i] = value[i];
    }
}
