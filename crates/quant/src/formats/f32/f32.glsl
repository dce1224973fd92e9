// F32: the values themselves.
#define CHUNK 16
#define RUNS 1
#define RUN 16
#define RUN_STRIDE 16
#define HAS_SCALE 0
#define HAS_MIN 0

struct Codes { uvec4 w[4]; };

uvec3 planes(uint blocks) { return uvec3(0); }

uint chunk_base(uint chunk) { return 16 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    Codes c;
    [[unroll]] for (uint i = 0; i < 4; i++) c.w[i] = UVec4In(row).v[4 * chunk + i];
    return c;
}

vec2 run_scale(Codes c, uint run) { return vec2(1.0, 0.0); }

vec4 run_codes(Codes c, uint run, uint quad) { return uintBitsToFloat(c.w[quad]); }

float element(uvec2 row, uint i) { return F32In(row).v[i]; }
