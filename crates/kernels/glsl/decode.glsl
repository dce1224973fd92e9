// Codes to floats, see format.md. All results are exact.

// Field `mask` of w, whose lowest bit is number `shift`, less `zero`. The field ends below bit 23.
float field(uint w, uint mask, uint shift, float zero) {
    float unit = uintBitsToFloat((127u - shift) << 23);
    return fma(uintBitsToFloat((w & mask) | 0x4B000000u), unit, -8388608.0 * unit - zero);
}

// Bytes that are put into a float's mantissa, one instruction each where the compiler finds its byte permutation.

// 1 + u / 2^bits for the bytes 128 + (u << (7 − bits)) of w. CODE_UNIT is 2^bits.
vec4 unit_floats(uint w) {
    return uintBitsToFloat(uvec4(bitfieldInsert(0x3F000000u, w, 16, 8), bitfieldInsert(0x3F000000u, w >> 8, 16, 8),
                                 bitfieldInsert(0x3F000000u, w >> 16, 16, 8), bitfieldInsert(0x3F000000u, w >> 24, 16, 8)));
}

// 32768 + u for the bytes u of w. CODE_UNIT is 1.
vec4 byte_floats(uint w) {
    return uintBitsToFloat(uvec4(bitfieldInsert(0x47000000u, w, 8, 8), bitfieldInsert(0x47000000u, w >> 8, 8, 8),
                                 bitfieldInsert(0x47000000u, w >> 16, 8, 8), bitfieldInsert(0x47000000u, w >> 24, 8, 8)));
}

// Four codes of 4 bits as 1 + u / 16: the low nibbles of the bytes of w, and the high ones.
vec4 low_nibbles(uint w) {
    return unit_floats(((w << 3) & 0x78787878u) | 0x80808080u);
}

vec4 high_nibbles(uint w) {
    return unit_floats(((w >> 1) & 0x78787878u) | 0x80808080u);
}

// The f16 in the low 16 bits.
float half_low(uint bits) {
    return unpackHalf2x16(bits).x;
}

// Bytes of a plane, padded.
uint padded(uint blocks, uint bytes) {
    return (blocks * bytes + 15u) & ~15u;
}
