// Q5_0: a chunk is a block. Planes: low nibbles, fifth bits, d.
#define CHUNK 32
#define RUNS 1
#define RUN 32
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 0
#define CODE_UNIT 32.0
#define CODE_ORIGIN 48.0

struct Codes { uvec4 q; uint fifth; uint d; };

uvec3 planes(uint blocks) {
    uint first = padded(blocks, PLANE0_BYTES);
    return uvec3(first, first + padded(blocks, PLANE1_BYTES), 0);
}

uint chunk_base(uint chunk) { return 32 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    return Codes(UVec4In(row).v[chunk], U32In(row).v[plane.x / 4 + chunk], uint(U16In(row).v[plane.y / 2 + chunk]));
}

vec2 run_scale(Codes c, uint run) { return vec2(half_low(c.d), 0.0); }

// Bits 4·quad … 4·quad + 3 of `fifth` become bit 4 of the four bytes: the product has a copy of them at each byte.
vec4 run_codes(Codes c, uint run, uint quad) {
    uint nibbles = quad < 4 ? c.q[quad] << 2 : c.q[quad - 4] >> 2;
    uint fifths = ((c.fifth >> (4 * quad)) & 15u) * 0x08102040u;
    return unit_floats((nibbles & 0x3C3C3C3Cu) | (fifths & 0x40404040u) | 0x80808080u);
}

#define PACKED_SIGNED 0
#define PACKED_PARTS 1
#define PACKED_ORIGIN 16.0
#define HAS_ORIGIN

float packed_unit(uint run, uint part) { return 1.0; }

// As above, the fifth bits as bit 4.
uint run_packed(Codes c, uint run, uint word) {
    uint nibbles = word < 4 ? c.q[word] : c.q[word - 4] >> 4;
    uint fifths = ((c.fifth >> (4 * word)) & 15u) * 0x02040810u;
    return (nibbles & 0x0F0F0F0Fu) | (fifths & 0x10101010u);
}
