// IQ4_NL: a chunk is a block. Planes: codes, d.
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

struct Codes { uvec4 q; uint d; };

uvec3 planes(uint blocks) { return uvec3(padded(blocks, PLANE0_BYTES), 0, 0); }

uint chunk_base(uint chunk) { return 32 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    return Codes(UVec4In(row).v[chunk], uint(U16In(row).v[plane.x / 2 + chunk]));
}

vec2 run_scale(Codes c, uint run) { return vec2(half_low(c.d), 0.0); }

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
