#version 460
// variants: FORMAT=*
//
// result[i] = table[rows[i].token]·scale, bit-exact with the decoder on the host. An invocation decodes a chunk.
#include "types.glsl"
#include "decode.glsl"
#include "format.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    uvec2 weight;
    RowsIn rows;
    F32 result;
    uint count; // rows of the batch
    uint m; // rows of the table
    uint k;
    uint row_bytes;
    uint result_stride;
    float scale;
} p;

void store(uint at, float value) {
    precise float scaled = value * p.scale;
    p.result.v[at] = scaled;
}

void main() {
#ifdef HAS_TABLE
    for (uint i = gl_LocalInvocationIndex; i < 16; i += gl_WorkGroupSize.x) table[i] = table_value(i);
    barrier();
#endif
    // The last invocation of a row takes what is no whole chunk.
    const uint chunks = p.k / CHUNK;
    const uint per_row = (p.k + CHUNK - 1) / CHUNK;
    const uint number = folded_group() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    const uint i = number / per_row, chunk = number % per_row;
    if (i >= p.count) return;
    const uvec2 row = address_at(p.weight, min(p.rows.v[i].token, p.m - 1), p.row_bytes);
    const uint to = i * p.result_stride;
    if (chunk < chunks) {
        Codes codes = load_chunk(row, planes(p.k / BLOCK_ELEMS), chunk);
        [[unroll]] for (uint run = 0; run < RUNS; run++) {
            precise vec2 scale = run_scale(codes, run);
            uint at = to + chunk_base(chunk) + run * RUN_STRIDE;
            [[unroll]] for (uint quad = 0; quad < RUN / 4; quad++) {
                #if HAS_SCALE
                precise vec4 value = fma(run_codes(codes, run, quad), vec4(CODE_UNIT), vec4(-CODE_ORIGIN)) * scale.x;
#else
                precise vec4 value = run_codes(codes, run, quad);
#endif
#if HAS_MIN
                value = value + scale.y;
#endif
                [[unroll]] for (uint e = 0; e < 4; e++) store(at + 4 * quad + e, value[e]);
            }
        }
    }
#if BLOCK_ELEMS == 1
    else {
        for (uint e = chunks * CHUNK; e < p.k; e++) store(to + e, element(row, e));
    }
#endif
}
