// Q8_0: a chunk is a block. Planes: codes, d. The sign bits are turned, so that a code is a byte less 128.
#define CHUNK 32
#define RUNS 1
#define RUN 32
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 0
#define CODE_UNIT 1.0
#define CODE_ORIGIN 32896.0

struct Codes { uvec4 q0; uvec4 q1; uint d; };

uvec3 planes(uint blocks) { return uvec3(padded(blocks, PLANE0_BYTES), 0, 0); }

uint chunk_base(uint chunk) { return 32 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    UVec4In codes = UVec4In(row);
    return Codes(codes.v[2 * chunk], codes.v[2 * chunk + 1], uint(U16In(row).v[plane.x / 2 + chunk]));
}

vec2 run_scale(Codes c, uint run) { return vec2(half_low(c.d), 0.0); }

vec4 run_codes(Codes c, uint run, uint quad) {
    uint w = quad < 4 ? c.q0[quad] : c.q1[quad - 4];
    return byte_floats(w ^ 0x80808080u);
}

#define PACKED_SIGNED 1
#define PACKED_PARTS 1
#define PACKED_ORIGIN 0.0

float packed_unit(uint run, uint part) { return 1.0; }

uint run_packed(Codes c, uint run, uint word) { return word < 4 ? c.q0[word] : c.q1[word - 4]; }
