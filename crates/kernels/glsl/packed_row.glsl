// Rows in f16 as the products of matrices read them (`gemm::Packed`): a row is a multiple of 64 elements, what is beyond its end is zero. A row is
// multiplied with a power of two that puts its largest magnitude between 2^14 and 2^15: nothing overflows, and what is 2^28 times smaller still has
// all its bits. Behind the rows lie the inverses.
//
// Elements 4t … 4t + 3 of each 16 lie at 2t, 2t + 8, 2t + 1 and 2t + 9: the first and third together, the second and fourth together, as they come out of a word of
// four codes with a shift and a mask (gemm_stage.glsl), and where matrices of 16 × 16 have them in lane t of a row (gemm_lanes.comp).

layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer Halves { f16vec2 v[]; };

// Stores elements 4i … 4i + 3 of a row that begins with pair `first`.
void store_packed(Halves to, uint first, uint i, vec4 v) {
    const uint at = first + i / 4 * 8 + i % 4;
    to.v[at] = f16vec2(v.xz);
    to.v[at + 4] = f16vec2(v.yw);
}

// Of the largest magnitude of a row.
uint packed_exponent(float greatest) {
    return clamp(floatBitsToUint(greatest) >> 23, 15u, 254u);
}

float packed_scale(uint exponent) {
    return uintBitsToFloat((268u - exponent) << 23);
}

float packed_inverse(uint exponent) {
    return uintBitsToFloat((exponent - 14u) << 23);
}

float largest_magnitude(vec4 v) {
    v = abs(v);
    return max(max(v.x, v.y), max(v.z, v.w));
}
