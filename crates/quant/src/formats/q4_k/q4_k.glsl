// Q4_K: a chunk is 16 of a block's 128 bytes of codes, half of the 32 bytes j; the low nibbles belong to sub-block 2j, the high ones to
// 2j + 1. Neighbouring lanes read neighbouring 16 bytes. One plane.
#define CHUNK 32
#define RUNS 2
#define RUN 16
#define RUN_STRIDE 32
#define HAS_MIN 1

struct Codes { uvec4 head; uvec4 codes; uint j; };

uvec3 planes(uint blocks) { return uvec3(0); }

uint chunk_base(uint chunk) { return chunk / 2 * 64 + chunk % 2 * 16; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    UVec4In words = UVec4In(row);
    uint part = chunk % 8, head = chunk / 8 * 9;
    return Codes(words.v[head], words.v[head + 1 + part], part / 2);
}

// Scales and minimums of the sub-blocks 2j and 2j + 1 in one word each, bytes 0 and 1; see `k_scales.rs` for the 12 bytes.
vec2 run_scale(Codes c, uint run) {
    uint shift = 16 * (c.j & 1u);
    uint a = c.head.y >> shift, b = c.head.z >> shift, both = c.head.w >> shift;
    bool upper = c.j >= 2;
    uint scales = upper ? (both & 0x0F0Fu) | ((a >> 2) & 0x3030u) : a & 0x3F3Fu;
    uint mins = upper ? ((both >> 4) & 0x0F0Fu) | ((b >> 2) & 0x3030u) : b & 0x3F3Fu;
    vec2 d = unpackHalf2x16(c.head.x);
    if (run == 0) return vec2(d.x * field(scales, 0x3Fu, 0, 0.0), -d.y * field(mins, 0x3Fu, 0, 0.0));
    return vec2(d.x * field(scales, 0x3F00u, 8, 0.0), -d.y * field(mins, 0x3F00u, 8, 0.0));
}

vec4 run_codes(Codes c, uint run, uint quad) {
    uint w = c.codes[quad];
    return run == 0 ? low_nibbles(w, 0.0) : high_nibbles(w, 0.0);
}
