// Codes to floats, see format.md. All results are exact.

// Field `mask` of w, whose lowest bit is number `shift`, less `zero`. The field ends below bit 23.
float field(uint w, uint mask, uint shift, float zero) {
    float unit = uintBitsToFloat((127u - shift) << 23);
    return fma(uintBitsToFloat((w & mask) | 0x4B000000u), unit, -8388608.0 * unit - zero);
}

// Half of the codes are converted and half go through `field`: on an H200 conversions alone reach 16 an SM and cycle, fields alone
// cost too many instructions, and the two run on different units.

// The four bytes of w less `zero`.
vec4 whole_bytes(uint w, float zero) {
    return vec4(float(w & 0xFFu) - zero, field(w, 0xFF00u, 8, zero),
                float((w >> 16) & 0xFFu) - zero, field(w >> 16, 0xFF00u, 8, zero));
}

// The low nibbles of the four bytes of w, less `zero`.
vec4 low_nibbles(uint w, float zero) {
    uint low = w & 0x0F0F0F0Fu;
    return vec4(float(low & 0xFFu), float((low >> 8) & 0xFFu), float((low >> 16) & 0xFFu), float(low >> 24)) - zero;
}

// The high nibbles.
vec4 high_nibbles(uint w, float zero) {
    uint w12 = w >> 12;
    return vec4(field(w, 0xF0u, 4, zero), field(w12, 0xFu, 0, zero),
                field(w12, 0xF00u, 8, zero), field(w12, 0xF0000u, 16, zero));
}

// The f16 in the low 16 bits.
float half_low(uint bits) {
    return unpackHalf2x16(bits).x;
}

// Bytes of a plane, padded.
uint padded(uint blocks, uint bytes) {
    return (blocks * bytes + 15u) & ~15u;
}
