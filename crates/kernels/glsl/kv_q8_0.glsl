// A KV cache of q8_0, see kv.glsl: for 32 elements their codes, 8 bits with a sign, and an f16 that they are multiplied by. Sizes are multiples of 32.
//
// Of a page's head first come all codes, [16 tokens][size], then all scales, [16 tokens][size / 32]: as many bytes as blocks of 34, but loads of 8
// codes are aligned.
#include "decode.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer UVec2 { uvec2 v[]; };

struct KvRow { uvec2 codes, scales; };
struct KvChunk { uvec2 codes; uint scale; };
// Codes, and their scale.
#define KvQuad uvec2

KvRow kv_address(uvec2 cache, uint row, uint size) {
    uint token = row % PAGE_TOKENS;
    uvec2 head = address_at(cache, row / PAGE_TOKENS, PAGE_TOKENS * (size + size / 16));
    return KvRow(address_at(head, token, size), address_at(head, 16 * PAGE_TOKENS + token, size / 16));
}

KvChunk kv_load(KvRow row, uint chunk) {
    return KvChunk(UVec2In(row.codes).v[chunk], uint(U16In(row.scales).v[chunk / 4]));
}

KvQuad kv_low(KvChunk bits) { return uvec2(bits.codes.x, bits.scale); }

KvQuad kv_high(KvChunk bits) { return uvec2(bits.codes.y, bits.scale); }

// Exact: 7 bits times 11.
vec4 kv_decode_quad(KvQuad bits) {
    precise vec4 codes = byte_floats(bits.x ^ 0x80808080u) - 32896.0;
    precise vec4 values = codes * half_low(bits.y);
    return values;
}

// Rounding is in integers, so that it is the same everywhere: quotients and conversions of drivers are off by a unit, or truncate.

// The bits of a magnitude over 127.
uint over_127(uint bits) {
    uint mantissa = (bits & 0x7fffffu) | 0x800000u, shift = mantissa < 127u << 17 ? 7 : 6;
    uint scaled = mantissa << shift, quotient = scaled / 127u;
    if (scaled - 127u * quotient > 63u) quotient++;
    return (((bits >> 23) - shift) << 23) + (quotient - 0x800000u);
}

// 1 / value for a normal value.
float reciprocal(uint bits) {
    uint exponent = bits >> 23, mantissa = (bits & 0x7fffffu) | 0x800000u;
    if (mantissa == 0x800000u) return uintBitsToFloat((254u - exponent) << 23);
    // 2^47 over the mantissa: a driver's quotient of 1 and 1 .. 2, and how far it is off.
    uint guess = floatBitsToUint(1.0 / uintBitsToFloat(0x3f800000u | (bits & 0x7fffffu)));
    uint quotient = (clamp(guess, 0x3f000000u, 0x3f7fffffu) & 0x7fffffu) | 0x800000u;
    int rest = -int(mantissa * quotient), divisor = int(mantissa);
    for (; 2 * rest > divisor; rest -= divisor) quotient++;
    for (; 2 * rest < -divisor; rest += divisor) quotient--;
    return uintBitsToFloat(((253u - exponent) << 23) + (quotient - 0x800000u));
}

// To the nearest, halves away from zero.
uint codes_of(vec4 values) {
    ivec4 whole = ivec4(values);
    vec4 rest = values - vec4(whole);
    whole += ivec4(greaterThanEqual(rest, vec4(0.5))) - ivec4(lessThanEqual(rest, vec4(-0.5)));
    uvec4 bytes = uvec4(whole) & 0xffu;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

// Magnitudes as bits have their order, and what is no number comes last.
uint greatest_bits(vec4 values) {
    uvec4 bits = floatBitsToUint(values) & 0x7fffffffu;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// As the reference of GGML: the scale is the largest magnitude over 127, before it is rounded to f16, and codes are rounded values over it. Four lanes
// side by side, the first of them a multiple of 4, have the four chunks of a block. Where the scale is 0 codes are 0, and where f16 has none, nothing in
// the block is a number.
KvChunk kv_encode(vec4 low, vec4 high) {
    uint most = max(greatest_bits(low), greatest_bits(high));
    most = max(most, subgroupShuffleXor(most, 1));
    most = max(most, subgroupShuffleXor(most, 2));
    if (most < 0x36000000u) return KvChunk(uvec2(0), 0); // 2^-19, of which a 127th is no f16
    uint scale = over_127(most), rounded = half_bits(uintBitsToFloat(scale));
    if (rounded == 0 || rounded >= 0x7c00u) return KvChunk(uvec2(0), rounded == 0 ? 0 : 0x7e00u);
    float inverse = reciprocal(scale);
    precise vec4 low_scaled = low * inverse, high_scaled = high * inverse;
    return KvChunk(uvec2(codes_of(low_scaled), codes_of(high_scaled)), rounded);
}

void kv_store(KvRow row, uint chunk, KvChunk bits) {
    UVec2(row.codes).v[chunk] = bits.codes;
    if (chunk % 4 == 0) U16(row.scales).v[chunk / 4] = uint16_t(bits.scale);
}
