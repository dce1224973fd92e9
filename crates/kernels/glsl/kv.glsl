// The paged KV cache: [page][kv_head][16 tokens][size], of f16 or f32.

const uint PAGE_TOKENS = 16;

// Number of a token's row of `size` elements.
uint kv_row(U32In pages, uint sequence, uint max_pages, uint position, uint kv_heads, uint head) {
    uint page = pages.v[sequence * max_pages + position / PAGE_TOKENS];
    return (page * kv_heads + head) * PAGE_TOKENS + position % PAGE_TOKENS;
}

layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer UVec4 { uvec4 v[]; };

#ifdef KV_F16
#define KV_BYTES 2
#else
#define KV_BYTES 4
#endif

// Address of a row; the cache may be larger than 4 GiB.
uvec2 kv_address(uvec2 cache, uint row, uint size) {
    return address_at(cache, row, size * KV_BYTES);
}

// f32 to f16, ties to even. A driver's own conversion may truncate.
uint half_bits(float value) {
    uint bits = floatBitsToUint(value);
    uint sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return sign | 0x7e00u;
    if (bits >= 0x47800000u) return sign | 0x7c00u;
    if (bits < 0x38800000u) { // below 2^-14: a number of 2^-24, in integers (a driver's roundEven rounds 0.5 to 1)
        uint mantissa = (bits & 0x7fffffu) | 0x800000u, shift = 126 - (bits >> 23);
        if (shift > 24) return sign;
        return sign | ((mantissa + (1u << (shift - 1)) - 1 + ((mantissa >> shift) & 1u)) >> shift);
    }
    return sign | ((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13);
}

void kv_store(uvec2 row, uint dim, float value) {
#ifdef KV_F16
    U16(row).v[dim] = uint16_t(half_bits(value));
#else
    F32(row).v[dim] = value;
#endif
}

// Elements 8·chunk .. 8·chunk + 8 of a row, as they lie in memory.
#ifdef KV_F16
#define KvChunk uvec4
#else
struct KvChunk { vec4 low, high; };
#endif

KvChunk kv_load(uvec2 row, uint chunk) {
#ifdef KV_F16
    return UVec4In(row).v[chunk];
#else
    return KvChunk(Vec4In(row).v[2 * chunk], Vec4In(row).v[2 * chunk + 1]);
#endif
}

void kv_decode(KvChunk bits, out vec4 low, out vec4 high) {
#ifdef KV_F16
    low = vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
    high = vec4(unpackHalf2x16(bits.z), unpackHalf2x16(bits.w));
#else
    low = bits.low;
    high = bits.high;
#endif
}

// Eight elements as the cache has them.
KvChunk kv_encode(vec4 low, vec4 high) {
#ifdef KV_F16
    return uvec4(half_bits(low.x) | half_bits(low.y) << 16, half_bits(low.z) | half_bits(low.w) << 16,
                 half_bits(high.x) | half_bits(high.y) << 16, half_bits(high.z) | half_bits(high.w) << 16);
#else
    return KvChunk(low, high);
#endif
}

void kv_store_chunk(uvec2 row, uint chunk, KvChunk bits) {
#ifdef KV_F16
    UVec4(row).v[chunk] = bits;
#else
    Vec4(row).v[2 * chunk] = bits.low;
    Vec4(row).v[2 * chunk + 1] = bits.high;
#endif
}
