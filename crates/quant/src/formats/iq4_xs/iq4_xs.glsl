// IQ4_XS: a chunk is a sub-block. Planes: codes, low bits of the scales, upper bits, d. The levels are those of IQ4_NL.
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
    float levels[16] = float[](-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0,
                               1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);
    return levels[i];
}

struct Codes { uvec4 q; uint scale; uint d; };

uvec3 planes(uint blocks) {
    uint first = padded(blocks, PLANE0_BYTES);
    uint second = first + padded(blocks, PLANE1_BYTES);
    return uvec3(first, second, second + padded(blocks, PLANE2_BYTES));
}

uint chunk_base(uint chunk) { return 32 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    uint block = chunk / 8, sub = chunk % 8;
    uint low = uint(U8In(row).v[plane.x + chunk / 2]) >> (sub % 2 * 4);
    uint upper = uint(U16In(row).v[plane.y / 2 + block]) >> (2 * sub);
    return Codes(UVec4In(row).v[chunk], (low & 15u) | ((upper & 3u) << 4), uint(U16In(row).v[plane.z / 2 + block]));
}

vec2 run_scale(Codes c, uint run) { return vec2(half_low(c.d) * field(c.scale, 0x3Fu, 0, 32.0), 0.0); }

vec4 run_codes(Codes c, uint run, uint quad) {
    return quad < 4 ? low_nibble_values(c.q[quad]) : high_nibble_values(c.q[quad - 4]);
}

#define PACKED_SIGNED 1
#define PACKED_PARTS 1
#define PACKED_ORIGIN 0.0

float packed_unit(uint run, uint part) { return 1.0; }

uint run_packed(Codes c, uint run, uint word) {
    return word < 4 ? low_nibble_bytes(c.q[word]) : high_nibble_bytes(c.q[word - 4]);
}
