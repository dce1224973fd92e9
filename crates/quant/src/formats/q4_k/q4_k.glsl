// Q4_K: a chunk is the 32 bytes j of a block's codes, 64 elements; the low nibbles are sub-block 2j, the high ones 2j + 1. Planes:
// heads, the first halves of all chunks' codes, the second ones: what the lanes of a load read lies side by side.
#define CHUNK 64
#define RUNS 2
#define RUN 32
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 1
#define CODE_UNIT 16.0
#define CODE_ORIGIN 16.0

struct Codes { uvec4 head; uvec4 q0; uvec4 q1; uint j; };

uvec3 planes(uint blocks) { return blocks * uvec3(PLANE0_BYTES, PLANE0_BYTES + PLANE1_BYTES, 0); }

uint chunk_base(uint chunk) { return 64 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    UVec4In words = UVec4In(row);
    return Codes(words.v[chunk / 4], words.v[plane.x / 16 + chunk], words.v[plane.y / 16 + chunk], chunk % 4);
}

vec2 run_scale(Codes c, uint run) { return k_scale(c.head, c.j, run); }

vec4 run_codes(Codes c, uint run, uint quad) {
    uint w = quad < 4 ? c.q0[quad] : c.q1[quad - 4];
    return run == 0 ? low_nibbles(w) : high_nibbles(w);
}

#define PACKED_SIGNED 0
#define PACKED_PARTS 1
#define PACKED_ORIGIN 0.0

float packed_unit(uint run, uint part) { return run == 0 ? 1.0 : 1.0 / 16.0; }

uint run_packed(Codes c, uint run, uint word) {
    uint w = word < 4 ? c.q0[word] : c.q1[word - 4];
    return w & (run == 0 ? 0x0F0F0F0Fu : 0xF0F0F0F0u);
}

struct Share { uint q0; uint q1; };

Share load_share(uvec2 row, uvec3 plane, uint chunk, uint t) {
    U32In words = U32In(row);
    return Share(words.v[plane.x / 4 + 4 * chunk + t], words.v[plane.y / 4 + 4 * chunk + t]);
}

uint share_packed(Share s, uint run, uint i) {
    return (i == 0 ? s.q0 : s.q1) & (run == 0 ? 0x0F0F0F0Fu : 0xF0F0F0F0u);
}
