// A head's norm: the same sums wherever a head is normed by a subgroup. Needs chunk.glsl.

// What a head of `size` elements is multiplied by.
float head_factor(F32In x, uint from, uint size, float eps) {
    float squares = 0.0;
    for (uint c = gl_SubgroupInvocationID; c < (size + 3) / 4; c += gl_SubgroupSize) {
        squares = square_sum(load4(x, from + 4 * c, size - 4 * c), squares);
    }
    return 1.0 / sqrt(subgroupAdd(squares) / float(size) + eps);
}
