// Rows in f16 as the products of matrices read them (`gemm::Packed`): a row is a multiple of 64 elements, what is beyond its end is zero. A row is
// multiplied with a power of two that puts its largest magnitude between 2^14 and 2^15: nothing overflows, and what is 2^28 times smaller still has
// all its bits. Behind the rows lie the inverses.

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Halves { f16vec4 v[]; };

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
