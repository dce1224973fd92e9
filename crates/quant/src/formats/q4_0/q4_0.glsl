// Q4_0: a chunk is a block. Planes: codes, d.
#define CHUNK 32
#define RUNS 1
#define RUN 32
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 0
#define CODE_UNIT 16.0
#define CODE_ORIGIN 24.0

struct Codes { uvec4 q; uint d; };

uvec3 planes(uint blocks) { return uvec3(padded(blocks, PLANE0_BYTES), 0, 0); }

uint chunk_base(uint chunk) { return 32 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    return Codes(UVec4In(row).v[chunk], uint(U16In(row).v[plane.x / 2 + chunk]));
}

vec2 run_scale(Codes c, uint run) { return vec2(half_low(c.d), 0.0); }

vec4 run_codes(Codes c, uint run, uint quad) {
    return quad < 4 ? low_nibbles(c.q[quad]) : high_nibbles(c.q[quad - 4]);
}

#define PACKED_SIGNED 0
#define PACKED_PARTS 2
#define PACKED_ORIGIN 8.0
#define HAS_ORIGIN

float packed_unit(uint run, uint part) { return part == 0 ? 1.0 : 1.0 / 16.0; }

uint run_packed(Codes c, uint run, uint word) {
    return word < 4 ? c.q[word] & 0x0F0F0F0Fu : c.q[word - 4] & 0xF0F0F0F0u;
}
