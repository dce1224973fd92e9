// Q2_K: a chunk is 16 bytes of codes, part p of half h of a block; run g has bits 2g of each byte and sub-block 8h + 2g + p.
// Planes: codes, scales and minimums, d and dmin.
#define CHUNK 64
#define RUNS 4
#define RUN 16
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 1
#define CODE_UNIT 4.0
#define CODE_ORIGIN 4.0

struct Codes { uvec4 q; uvec2 scales; uint d; };

uvec3 planes(uint blocks) {
    uint first = padded(blocks, PLANE0_BYTES);
    return uvec3(first, first + padded(blocks, PLANE1_BYTES), 0);
}

uint chunk_base(uint chunk) { return chunk / 2 * 128 + chunk % 2 * 16; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    uvec2 half_scales = UVec2In(row).v[plane.x / 8 + chunk / 2];
    return Codes(UVec4In(row).v[chunk], half_scales >> (chunk % 2 * 8), U32In(row).v[plane.y / 4 + chunk / 4]);
}

vec2 run_scale(Codes c, uint run) {
    uint s = (run < 2 ? c.scales.x : c.scales.y) >> (run % 2 * 16);
    vec2 d = unpackHalf2x16(c.d);
    return vec2(d.x * field(s, 0xFu, 0, 0.0), -d.y * field(s, 0xF0u, 4, 0.0));
}

vec4 run_codes(Codes c, uint run, uint quad) {
    return unit_floats((run < 3 ? c.q[quad] << (5 - 2 * run) : c.q[quad] >> 1) & 0x60606060u | 0x80808080u);
}

#define PACKED_SIGNED 0
#define PACKED_PARTS 1
#define PACKED_ORIGIN 0.0

// The codes stay where they are in their bytes.
float packed_unit(uint run, uint part) { return 1.0 / float(1u << (2 * run)); }

uint run_packed(Codes c, uint run, uint word) { return c.q[word] & (0x03030303u << (2 * run)); }
