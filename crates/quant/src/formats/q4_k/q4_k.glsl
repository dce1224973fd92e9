// Q4_K: a chunk is 16 of a block's 128 bytes of codes, half of the 32 bytes j; the low nibbles belong to sub-block 2j, the high ones to
// 2j + 1. Neighbouring lanes read neighbouring 16 bytes. One plane.
#define CHUNK 32
#define RUNS 2
#define RUN 16
#define RUN_STRIDE 32
#define HAS_MIN 1

struct Codes { uvec4 head; uvec4 codes; uint j; };

uvec3 planes(uint blocks) { return uvec3(0); }

uint chunk_base(uint chunk) { return chunk / 2 * 64 + chunk % 2 * 16; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    UVec4In words = UVec4In(row);
    uint part = chunk % 8, head = chunk / 8 * 9;
    return Codes(words.v[head], words.v[head + 1 + part], part / 2);
}

vec2 run_scale(Codes c, uint run) { return k_scale(c.head, c.j, run); }

vec4 run_codes(Codes c, uint run, uint quad) {
    uint w = c.codes[quad];
    return run == 0 ? low_nibbles(w, 0.0) : high_nibbles(w, 0.0);
}
