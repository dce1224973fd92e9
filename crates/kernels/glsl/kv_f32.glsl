// A KV cache of f32, see kv.glsl.

struct KvChunk { vec4 low, high; };
#define KvRow uvec2
#define KvQuad vec4

KvRow kv_address(uvec2 cache, uint row, uint size) { return address_at(cache, row, 4 * size); }

KvChunk kv_load(KvRow row, uint chunk) {
    return KvChunk(Vec4In(row).v[2 * chunk], Vec4In(row).v[2 * chunk + 1]);
}

KvQuad kv_low(KvChunk bits) { return bits.low; }

KvQuad kv_high(KvChunk bits) { return bits.high; }

vec4 kv_decode_quad(KvQuad bits) { return bits; }

KvChunk kv_encode(vec4 low, vec4 high) { return KvChunk(low, high); }

void kv_store(KvRow row, uint chunk, KvChunk bits) {
    Vec4(row).v[2 * chunk] = bits.low;
    Vec4(row).v[2 * chunk + 1] = bits.high;
}
