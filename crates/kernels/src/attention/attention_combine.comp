#version 460
// Joins the blocks of attention.comp: the workgroup's slices take a row's spans of blocks in turn, then the spans are joined in
// order. A sink is one more logit in exponent and denominator.
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

// Blocks that are loaded at a time.
const uint AHEAD = 4;

shared vec4 span_value[SLICES * COLUMNS];
shared float span_sum[SLICES];

// Values and sum of the blocks first .. end, counted from the row's first part, times 2^-largest.
void join_blocks(uint part, uint first, uint end, uint column, float largest, out vec4 value, out float sum) {
    value = vec4(0.0);
    sum = 0.0;
    for (uint b = first; b < end; b += AHEAD) {
        vec4 own[AHEAD];
        float scale[AHEAD], own_sum[AHEAD];
        [[unroll]] for (uint j = 0; j < AHEAD; j++) {
            uint at = part + min(b + j, end - 1) * PART;
            own[j] = Vec4In(p.parts).v[at / 4 + column];
            scale[j] = b + j < end ? power_of_two(p.parts.v[at + VALUE_SIZE] - largest) : 0.0;
            own_sum[j] = p.parts.v[at + VALUE_SIZE + 1];
        }
        [[unroll]] for (uint j = 0; j < AHEAD; j++) {
            value = fma(vec4(scale[j]), own[j], value);
            sum = fma(scale[j], own_sum[j], sum);
        }
    }
}

void main() {
    uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    uint position = p.rows.v[row].position;
    uint first_block = first_visible(position, p.window) / KEY_BLOCK, end_block = position / KEY_BLOCK + 1;
    uint part = (row * p.heads + head) * p.max_blocks * PART;

    float largest = p.has_sinks != 0 ? exponent(p.sinks.v[head]) : HIDDEN;
    for (uint b = gl_LocalInvocationIndex; b < end_block - first_block; b += THREADS) {
        largest = max(largest, p.parts.v[part + b * PART + VALUE_SIZE]);
    }
    largest = workgroup_max(largest);

    uint slice = gl_LocalInvocationIndex / COLUMNS, column = gl_LocalInvocationIndex % COLUMNS;
    uint end_span = (end_block + SPAN - 1) / SPAN;
    vec4 total = vec4(0.0);
    float total_sum = 0.0;
    for (uint first_span = first_block / SPAN; first_span < end_span; first_span += SLICES) {
        uint span = first_span + slice;
        if (slice < SLICES && span < end_span) {
            uint first = max(span * SPAN, first_block) - first_block;
            uint end = min((span + 1) * SPAN, end_block) - first_block;
            float sum;
            vec4 value;
            join_blocks(part, first, end, column, largest, value, sum);
            span_value[slice * COLUMNS + column] = value;
            if (column == 0) span_sum[slice] = sum;
        }
        barrier();
        if (gl_LocalInvocationIndex < COLUMNS) {
            uint spans = min(SLICES, end_span - first_span);
            for (uint s = 0; s < spans; s++) {
                total += span_value[s * COLUMNS + column];
                total_sum += span_sum[s];
            }
        }
        barrier();
    }
    if (gl_LocalInvocationIndex >= COLUMNS) return;
    if (p.has_sinks != 0) total_sum += weight_of(p.sinks.v[head], largest);
    vec4 result = normalise(total, total_sum);
    uint o = row * p.out_stride + head * VALUE_SIZE + 4 * column;
    [[unroll]] for (uint i = 0; i < 4; i++) p.out_.v[o + i] = result[i];
}
