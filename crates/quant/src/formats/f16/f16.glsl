// F16: two values a word.
#define CHUNK 16
#define RUNS 1
#define RUN 16
#define RUN_STRIDE 16
#define HAS_SCALE 0
#define HAS_MIN 0
#define HAS_HALVES

struct Codes { uvec4 w[2]; };

uvec3 planes(uint blocks) { return uvec3(0); }

uint chunk_base(uint chunk) { return 16 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    Codes c;
    [[unroll]] for (uint i = 0; i < 2; i++) c.w[i] = UVec4In(row).v[2 * chunk + i];
    return c;
}

vec2 run_scale(Codes c, uint run) { return vec2(1.0, 0.0); }

vec4 run_codes(Codes c, uint run, uint quad) {
    uvec4 w = c.w[quad / 2];
    uvec2 pair = quad % 2 == 0 ? w.xy : w.zw;
    return vec4(unpackHalf2x16(pair.x), unpackHalf2x16(pair.y));
}

uvec4 run_halves(Codes c, uint run, uint i) { return c.w[i]; }

float element(uvec2 row, uint i) { return half_low(uint(U16In(row).v[i])); }
