// Q3_K: a chunk is 16 bytes of low bits, part p of half h of a block; run g has bits 2g of each byte, bit 4h + g of the bytes of third bits
// and sub-block s = 8h + 2g + p. Planes: low bits, third bits, scales, d.
#define CHUNK 64
#define RUNS 4
#define RUN 16
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 0
#define CODE_UNIT 8.0
#define CODE_ORIGIN 12.0

// Scales: `low` has the nibble of run g at bit 16·(g mod 2) of word g/2, `high` the upper bits at 16·(g mod 2) + 2·(g/2).
struct Codes { uvec4 q; uvec4 thirds; uvec2 low; uint high; uint d; };

uvec3 planes(uint blocks) {
    uint first = padded(blocks, PLANE0_BYTES);
    uint second = first + padded(blocks, PLANE1_BYTES);
    return uvec3(first, second, second + padded(blocks, PLANE2_BYTES));
}

uint chunk_base(uint chunk) { return chunk / 2 * 128 + chunk % 2 * 16; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    uint block = chunk / 4, part = chunk % 2, shift = chunk / 2 % 2 * 4;
    U32In scales = U32In(row);
    uint s = plane.y / 4 + 3 * block;
    Codes c;
    c.q = UVec4In(row).v[chunk];
    c.thirds = UVec4In(row).v[plane.x / 16 + 2 * block + part] >> shift;
    c.low = uvec2(scales.v[s], scales.v[s + 1]) >> (8 * part + shift);
    c.high = scales.v[s + 2] >> (8 * part + shift);
    c.d = uint(U16In(row).v[plane.z / 2 + block]);
    return c;
}

vec2 run_scale(Codes c, uint run) {
    uint low = ((run < 2 ? c.low.x : c.low.y) >> (run % 2 * 16)) & 15u;
    uint high = (c.high >> (run % 2 * 16 + run / 2 * 2)) & 3u;
    return vec2(half_low(c.d) * field(low | (high << 4), 0x3Fu, 0, 32.0), 0.0);
}

vec4 run_codes(Codes c, uint run, uint quad) {
    uint low = (run < 2 ? c.q[quad] << (4 - 2 * run) : c.q[quad] >> (2 * run - 4)) & 0x30303030u;
    uint third = (c.thirds[quad] << (6 - run)) & 0x40404040u;
    return unit_floats(low | third | 0x80808080u);
}

#define PACKED_SIGNED 0
#define PACKED_PARTS 1
#define PACKED_ORIGIN 4.0
#define HAS_ORIGIN

// The codes stay where their low bits are, those of run 3 a run below, so that there is room for the third bits.
float packed_unit(uint run, uint part) { return 1.0 / float(1u << (2 * min(run, 2u))); }

uint run_packed(Codes c, uint run, uint word) {
    uint place = min(run, 2u);
    uint low = (run < 3 ? c.q[word] : c.q[word] >> 2) & (0x03030303u << (2 * place));
    return low | ((c.thirds[word] << (2 * place + 2 - run)) & (0x04040404u << (2 * place)));
}
