// Q6_K: a chunk is 16 bytes of upper bits, part p of half h of a block, and the two times 16 bytes of low bits that belong to them; run g
// has bits 2g of the upper bits and sub-block 8h + 2g + p. Planes: low bits, upper bits, scales, d.
#define CHUNK 64
#define RUNS 4
#define RUN 16
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 0
#define CODE_UNIT 64.0
#define CODE_ORIGIN 96.0

// Scales: byte 2g, as they stand in the half.
struct Codes { uvec4 low0; uvec4 low1; uvec4 upper; uvec2 scales; uint d; };

uvec3 planes(uint blocks) {
    uint first = padded(blocks, PLANE0_BYTES);
    uint second = first + padded(blocks, PLANE1_BYTES);
    return uvec3(first, second, second + padded(blocks, PLANE2_BYTES));
}

uint chunk_base(uint chunk) { return chunk / 2 * 128 + chunk % 2 * 16; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    UVec4In words = UVec4In(row);
    uint half_block = chunk / 2, part = chunk % 2, low = 4 * half_block + part;
    return Codes(words.v[low], words.v[low + 2], words.v[plane.x / 16 + chunk],
                 UVec2In(row).v[plane.y / 8 + half_block] >> (8 * part),
                 uint(U16In(row).v[plane.z / 2 + chunk / 4]));
}

vec2 run_scale(Codes c, uint run) {
    uint s = ((run < 2 ? c.scales.x : c.scales.y) >> (run % 2 * 16)) ^ 0x80u;
    return vec2(half_low(c.d) * field(s, 0xFFu, 0, 128.0), 0.0);
}

vec4 run_codes(Codes c, uint run, uint quad) {
    uint w = run % 2 == 0 ? c.low0[quad] : c.low1[quad];
    uint low = run < 2 ? w << 1 : w >> 3;
    uint upper = run < 3 ? c.upper[quad] << (5 - 2 * run) : c.upper[quad] >> 1;
    return unit_floats((low & 0x1E1E1E1Eu) | (upper & 0x60606060u) | 0x80808080u);
}

#define PACKED_SIGNED 0
#define PACKED_PARTS 1
#define PACKED_ORIGIN 32.0
#define HAS_ORIGIN

float packed_unit(uint run, uint part) { return 1.0; }

uint run_packed(Codes c, uint run, uint word) {
    uint w = run % 2 == 0 ? c.low0[word] : c.low1[word];
    uint low = run < 2 ? w : w >> 4;
    uint upper = run < 3 ? c.upper[word] << (4 - 2 * run) : c.upper[word] >> 2;
    return (low & 0x0F0F0F0Fu) | (upper & 0x30303030u);
}

struct Share { uint low0; uint low1; uint upper; };

Share load_share(uvec2 row, uvec3 plane, uint chunk, uint t) {
    U32In words = U32In(row);
    uint low = chunk / 2 * 16 + chunk % 2 * 4 + t;
    return Share(words.v[low], words.v[low + 8], words.v[plane.x / 4 + 4 * chunk + t]);
}

uint share_packed(Share s, uint run, uint i) {
    uint w = run % 2 == 0 ? s.low0 : s.low1;
    uint low = run < 2 ? w : w >> 4;
    uint upper = run < 3 ? s.upper << (4 - 2 * run) : s.upper >> 2;
    return (low & 0x0F0F0F0Fu) | (upper & 0x30303030u);
}
