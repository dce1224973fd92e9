#version 460
// Rows of f32 to f16 as the products of matrices read them.
#include "types.glsl"
#include "workgroup.glsl"
#include "packed_row.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ALIGNED = true; // x may be read by vec4
layout(constant_id = 2) const uint KEPT = 1; // groups of four elements of an invocation that stay in registers; 0: as many as there are, read twice
const uint ROOM = KEPT == 0 ? 1 : KEPT;

layout(push_constant, scalar) uniform Push {
    F32In x;
    Halves packed;
    F32 scales;
    uint k;
    uint x_stride;
    uint pitch; // groups of four elements
    uint rows;
    uint parts; // rows here of a row of x
} p;

// Elements i .. i + 4 of a row; those beyond the end are 0.
vec4 load4(uint start, uint i) {
    if (ALIGNED && i + 4 <= p.k) return Vec4In(p.x).v[(start + i) / 4];
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4 && i + j < p.k; j++) v[j] = p.x.v[start + i + j];
    return v;
}

void main() {
    const uint row = folded_group();
    if (row >= p.rows) return;
    const uint start = row / p.parts * p.x_stride + row % p.parts * p.k;
    const uint first = gl_LocalInvocationIndex, step = gl_WorkGroupSize.x;
    vec4 kept[ROOM];
    float greatest = 0.0;
    [[unroll]] for (uint c = 0; c < KEPT; c++) {
        const uint i = first + c * step;
        kept[c] = i < p.pitch ? load4(start, 4 * i) : vec4(0.0);
    }
    [[unroll]] for (uint c = 0; c < KEPT; c++) greatest = max(greatest, largest_magnitude(kept[c]));
    for (uint i = first; KEPT == 0 && i < p.pitch; i += step) {
        greatest = max(greatest, largest_magnitude(load4(start, 4 * i)));
    }
    const uint exponent = packed_exponent(workgroup_max(greatest));
    const float scale = packed_scale(exponent);
    [[unroll]] for (uint c = 0; c < KEPT; c++) {
        const uint i = first + c * step;
        if (i < p.pitch) store_packed(p.packed, 2 * row * p.pitch, i, scale * kept[c]);
    }
    for (uint i = first; KEPT == 0 && i < p.pitch; i += step) {
        store_packed(p.packed, 2 * row * p.pitch, i, scale * load4(start, 4 * i));
    }
    if (gl_LocalInvocationIndex == 0) p.scales.v[row] = packed_inverse(exponent);
}
