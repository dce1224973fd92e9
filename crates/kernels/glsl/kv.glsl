// The paged KV cache: [page][kv_head][16 tokens][size], of f16, f32 or q8_0. It is read and written in chunks of 8 elements.

const uint PAGE_TOKENS = 16;

// Number of a token's row of `size` elements.
uint kv_row(U32In pages, uint sequence, uint max_pages, uint position, uint kv_heads, uint head) {
    uint page = pages.v[sequence * max_pages + position / PAGE_TOKENS];
    return (page * kv_heads + head) * PAGE_TOKENS + position % PAGE_TOKENS;
}

// f32 to f16, ties to even. A driver's own conversion may truncate.
uint half_bits(float value) {
    uint bits = floatBitsToUint(value), sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    // Below 2^-14 a number of 2^-24, as the sum with 1/2 is. Few instructions: attention has this sixteen times.
    uint small = floatBitsToUint(uintBitsToFloat(bits) + 0.5) - 0x3f000000u;
    uint normal = min((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13, 0x7c00u);
    uint rounded = bits < 0x38800000u ? small : normal;
    return sign | (bits > 0x7f800000u ? 0x7e00u : rounded);
}

// Each type defines how it is read and written, in chunks of 8 elements:
//     KvRow                                        // where the elements of a token and a head lie
//     KvChunk, KvQuad                              // eight elements and four of them as they lie in memory
//     KvRow kv_address(uvec2 cache, uint row, uint size);  // a cache may be larger than 4 GiB
//     KvChunk kv_load(KvRow row, uint chunk);
//     KvQuad kv_low(KvChunk bits);
//     KvQuad kv_high(KvChunk bits);
//     vec4 kv_decode_quad(KvQuad bits);
//     KvChunk kv_encode(vec4 low, vec4 high);      // as the cache will have them; of q8_0 by four lanes together
//     void kv_store(KvRow row, uint chunk, KvChunk bits);
#if defined(KV_F16)
#include "kv_f16.glsl"
#elif defined(KV_Q8_0)
#include "kv_q8_0.glsl"
#else
#include "kv_f32.glsl"
#endif

// A chunk of a row. Caches of f16 of up to 64 GiB have an index for each.
KvChunk kv_chunk(uvec2 cache, uint row, uint size, uint chunk) {
#ifdef KV_F16
    return UVec4In(cache).v[row * (size / 8) + chunk];
#else
    return kv_load(kv_address(cache, row, size), chunk);
#endif
}

void kv_decode(KvChunk bits, out vec4 low, out vec4 high) {
    low = kv_decode_quad(kv_low(bits));
    high = kv_decode_quad(kv_high(bits));
}
