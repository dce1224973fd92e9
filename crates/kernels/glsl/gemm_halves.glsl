// Weights in f16 arithmetic, two at a time, from the bytes that integer products take: half the instructions and registers of f32. The middle of the
// codes is taken from them first, so that w = a·(v − centre) + b has small addends and rounds like a weight that is rounded once. All is
// 2^8 times as large, so that the scales of small weights keep their bits; weights reach 255 then.
#define WEIGHT_SCALE 256.0
const float MIDDLE = HAS_MIN == 1 ? 0.5 * CODE_UNIT : PACKED_ORIGIN;

// Bytes 0 and 2 of w as 1024 + v.
f16vec2 two_bytes(uint w) {
    return unpackFloat2x16((w & 0x00FF00FFu) | 0x64006400u);
}
