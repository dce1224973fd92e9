// A KV cache of f16, see kv.glsl.

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer UVec4 { uvec4 v[]; };

#define KvRow uvec2
#define KvChunk uvec4
#define KvQuad uvec2

KvRow kv_address(uvec2 cache, uint row, uint size) { return address_at(cache, row, 2 * size); }

KvChunk kv_load(KvRow row, uint chunk) { return UVec4In(row).v[chunk]; }

KvQuad kv_low(KvChunk bits) { return bits.xy; }

KvQuad kv_high(KvChunk bits) { return bits.zw; }

vec4 kv_decode_quad(KvQuad bits) { return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y)); }

KvChunk kv_encode(vec4 low, vec4 high) {
    return uvec4(half_bits(low.x) | half_bits(low.y) << 16, half_bits(low.z) | half_bits(low.w) << 16,
                 half_bits(high.x) | half_bits(high.y) << 16, half_bits(high.z) | half_bits(high.w) << 16);
}

void kv_store(KvRow row, uint chunk, KvChunk bits) { UVec4(row).v[chunk] = bits; }
