// MXFP4: a chunk is a block. Planes: codes, E8M0 exponents. The table holds the E2M1 values doubled.
#define CHUNK 32
#define RUNS 1
#define RUN 32
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 0
#define CODE_UNIT 1.0
#define CODE_ORIGIN 0.0

#define HAS_TABLE
#include "decode_table.glsl"

float table_value(uint i) {
    float e2m1[8] = float[](0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0);
    return i < 8 ? e2m1[i] : -e2m1[i - 8];
}

struct Codes { uvec4 q; uint e; };

uvec3 planes(uint blocks) { return uvec3(padded(blocks, PLANE0_BYTES), 0, 0); }

uint chunk_base(uint chunk) { return 32 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    return Codes(UVec4In(row).v[chunk], uint(U8In(row).v[plane.x + chunk]));
}

// Half of 2^(e − 127), a subnormal where e < 2.
vec2 run_scale(Codes c, uint run) {
    return vec2(uintBitsToFloat(c.e < 2 ? 0x00200000u << c.e : (c.e - 1) << 23), 0.0);
}

vec4 run_codes(Codes c, uint run, uint quad) {
    return quad < 4 ? low_nibble_values(c.q[quad]) : high_nibble_values(c.q[quad - 4]);
}

#define PACKED_SIGNED 1
#define PACKED_PARTS 1
#define PACKED_ORIGIN 0.0

float packed_unit(uint run, uint part) { return 1.0; }

// The low nibbles of the bytes of w as signed bytes, four at a time: a table would take a load for each.
uint e2m1_bytes(uint w) {
    // The magnitude of code m is m below 4, then m + m % 4, and 2 more for 7.
    uint high = w & 0x04040404u, more = w & (high - (high >> 2)), last = more & (more >> 1) & 0x01010101u;
    uint magnitude = (w & 0x07070707u) + more + 2 * last;
    // A negative byte is the complement and 1, with bit 7 apart: nothing is carried to the next byte.
    uint sign = (w >> 3) & 0x01010101u;
    return (((magnitude ^ (255 * sign)) & 0x7F7F7F7Fu) + sign) ^ (sign << 7);
}

uint run_packed(Codes c, uint run, uint word) {
    return e2m1_bytes(word < 4 ? c.q[word] : c.q[word - 4] >> 4);
}
