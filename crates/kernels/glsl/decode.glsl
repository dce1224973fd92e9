// Codes to floats without integer conversions, see format.md. All results are exact.

// Field `mask` of w, whose lowest bit is number `shift`, less `zero`. The field ends below bit 23.
float field(uint w, uint mask, uint shift, float zero) {
    float unit = uintBitsToFloat((127u - shift) << 23);
    return fma(uintBitsToFloat((w & mask) | 0x4B000000u), unit, -8388608.0 * unit - zero);
}

// The low nibbles of the four bytes of w, less `zero`. One shift serves this and `high_nibbles`.
vec4 low_nibbles(uint w, float zero) {
    uint w12 = w >> 12;
    return vec4(field(w, 0xFu, 0, zero), field(w, 0xF00u, 8, zero),
                field(w, 0xF0000u, 16, zero), field(w12, 0xF000u, 12, zero));
}

// The high nibbles.
vec4 high_nibbles(uint w, float zero) {
    uint w12 = w >> 12;
    return vec4(field(w, 0xF0u, 4, zero), field(w12, 0xFu, 0, zero),
                field(w12, 0xF00u, 8, zero), field(w12, 0xF0000u, 16, zero));
}

// The four bytes of w, each below 128, less `zero`.
vec4 small_bytes(uint w, float zero) {
    return vec4(field(w, 0x7Fu, 0, zero), field(w, 0x7F00u, 8, zero),
                field(w, 0x7F0000u, 16, zero), field(w >> 8, 0x7F0000u, 16, zero));
}

// The four bytes of w less `zero`.
vec4 whole_bytes(uint w, float zero) {
    return vec4(field(w, 0xFFu, 0, zero), field(w, 0xFF00u, 8, zero),
                field(w >> 16, 0xFFu, 0, zero), field(w >> 16, 0xFF00u, 8, zero));
}

// The f16 in the low 16 bits.
float half_low(uint bits) {
    return unpackHalf2x16(bits).x;
}

// Bytes of a plane, padded.
uint padded(uint blocks, uint bytes) {
    return (blocks * bytes + 15u) & ~15u;
}
