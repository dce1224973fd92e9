// What Q4_K and Q5_K share: the first 16 bytes of a block, d and dmin as f16 and the 12 bytes of `k_scales.rs`.

// (scale, −minimum) of sub-block 2j + run. Scales and minimums of the sub-blocks 2j and 2j + 1 come in one word each, bytes 0 and 1.
vec2 k_scale(uvec4 head, uint j, uint run) {
    uint shift = 16 * (j & 1u);
    uint a = head.y >> shift, b = head.z >> shift, both = head.w >> shift;
    bool upper = j >= 2;
    uint scales = upper ? (both & 0x0F0Fu) | ((a >> 2) & 0x3030u) : a & 0x3F3Fu;
    uint mins = upper ? ((both >> 4) & 0x0F0Fu) | ((b >> 2) & 0x3030u) : b & 0x3F3Fu;
    vec2 d = unpackHalf2x16(head.x);
    if (run == 0) return vec2(d.x * field(scales, 0x3Fu, 0, 0.0), -d.y * field(mins, 0x3Fu, 0, 0.0));
    return vec2(d.x * field(scales, 0x3F00u, 8, 0.0), -d.y * field(mins, 0x3F00u, 8, 0.0));
}
