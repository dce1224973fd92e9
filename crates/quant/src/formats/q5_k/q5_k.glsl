// Q5_K: a chunk is the 32 bytes j of a block's low bits, 64 elements; the low nibbles are sub-block 2j, the high ones 2j + 1. Their fifth bits
// are bits 2j and 2j + 1 of the block's 32 bytes of fifth bits. One plane.
#define CHUNK 64
#define RUNS 2
#define RUN 32
#define RUN_STRIDE 32
#define HAS_SCALE 1
#define HAS_MIN 1
#define CODE_UNIT 32.0
#define CODE_ORIGIN 32.0

// The fifth bits are shifted so that those of run 0 are bit 0 of each byte and those of run 1 bit 1.
struct Codes { uvec4 head; uvec4 q0; uvec4 q1; uvec4 fifth0; uvec4 fifth1; uint j; };

uvec3 planes(uint blocks) { return uvec3(0); }

uint chunk_base(uint chunk) { return 64 * chunk; }

Codes load_chunk(uvec2 row, uvec3 plane, uint chunk) {
    UVec4In words = UVec4In(row);
    uint j = chunk % 4, head = chunk / 4 * 11, codes = head + 3 + 2 * j;
    return Codes(words.v[head], words.v[codes], words.v[codes + 1],
                 words.v[head + 1] >> (2 * j), words.v[head + 2] >> (2 * j), j);
}

vec2 run_scale(Codes c, uint run) { return k_scale(c.head, c.j, run); }

vec4 run_codes(Codes c, uint run, uint quad) {
    uint w = quad < 4 ? c.q0[quad] : c.q1[quad - 4];
    uint fifths = quad < 4 ? c.fifth0[quad] : c.fifth1[quad - 4];
    uint low = run == 0 ? w << 2 : w >> 2;
    uint high = run == 0 ? fifths << 6 : fifths << 5;
    return unit_floats((low & 0x3C3C3C3Cu) | (high & 0x40404040u) | 0x80808080u);
}

#define PACKED_SIGNED 0
#define PACKED_PARTS 1
#define PACKED_ORIGIN 0.0

float packed_unit(uint run, uint part) { return 1.0; }

uint run_packed(Codes c, uint run, uint word) {
    uint w = word < 4 ? c.q0[word] : c.q1[word - 4];
    uint fifths = word < 4 ? c.fifth0[word] : c.fifth1[word - 4];
    uint low = run == 0 ? w : w >> 4;
    uint high = run == 0 ? fifths << 4 : fifths << 3;
    return (low & 0x0F0F0F0Fu) | (high & 0x10101010u);
}

struct Share { uint q0; uint q1; uint fifth0; uint fifth1; };

Share load_share(uvec2 row, uvec3 plane, uint chunk, uint t) {
    U32In words = U32In(row);
    uint j = chunk % 4, head = chunk / 4 * 44, codes = head + 12 + 8 * j + t;
    return Share(words.v[codes], words.v[codes + 4], words.v[head + 4 + t] >> (2 * j), words.v[head + 8 + t] >> (2 * j));
}

uint share_packed(Share s, uint run, uint i) {
    uint w = i == 0 ? s.q0 : s.q1, fifths = i == 0 ? s.fifth0 : s.fifth1;
    uint low = run == 0 ? w : w >> 4;
    uint high = run == 0 ? fifths << 4 : fifths << 3;
    return (low & 0x0F0F0F0Fu) | (high & 0x10101010u);
}
