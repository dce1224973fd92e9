#version 460
// One subgroup a head: query heads are normed, turned and written; key heads are normed, turned and stored in the cache;
// value heads are stored, normed without weights where the rotation's bit says so.
// variants: KV=f16|f32|q8_0
#include "types.glsl"
#include "chunk.glsl"
#include "head.glsl"
#include "rope.glsl"
#include "kv.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    F32In q;
    F32In k;
    F32In v;
    F32In q_weight;
    F32In k_weight;
    RopeTable table;
    RowsIn rows;
    U32In pages;
    uvec2 k_cache;
    uvec2 v_cache;
    F32 out_;
    uint n_rows;
    uint q_stride;
    uint k_stride;
    uint v_stride;
    uint out_stride;
    uint heads;     // low half: query heads, high half: KV heads
    uint sizes;     // low half: size of a query or key head, high half: of a value head
    uint rotation;  // low half: rotated pairs, bit 16: pairing, bit 17: norms, bit 18: gates between query heads, bit 19: norms of value heads
    uint max_pages;
    float eps;
} p;

// A pair of dimensions of a head, normed and turned.
vec2 turned(F32In x, uint from, F32In weight, float factor, uint position, uint slot) {
    uint rotated_pairs = p.rotation & 0xffffu, pairing = (p.rotation >> 16) & 1;
    uvec2 dims = rope_dims(slot, rotated_pairs, pairing);
    vec2 v = vec2(x.v[from + dims.x], x.v[from + dims.y]);
    if ((p.rotation & 0x20000u) != 0) v = v * factor * vec2(weight.v[dims.x], weight.v[dims.y]);
    return rope_turn(v, p.table, position, slot, rotated_pairs);
}

void main() {
    uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
    uint q_heads = p.heads & 0xffffu, kv_heads = p.heads >> 16;
    uint size = p.sizes & 0xffffu, value_size = p.sizes >> 16;
    uint rotated_pairs = p.rotation & 0xffffu, pairing = (p.rotation >> 16) & 1;
    bool norm = (p.rotation & 0x20000u) != 0;

    uint units = q_heads + 2 * kv_heads;
    uint team = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    uint row = team / units, unit = team % units;
    if (row >= p.n_rows) return;
    RowInfo info = p.rows.v[row];

    if (unit >= q_heads + kv_heads) {
        uint head = unit - q_heads - kv_heads;
        uint cache_row = kv_row(p.pages, info.sequence, p.max_pages, info.position, kv_heads, head);
        KvRow to = kv_address(p.v_cache, cache_row, value_size);
        uint from = row * p.v_stride + head * value_size;
        bool value_norm = (p.rotation & 0x80000u) != 0;
        float factor = 1.0;
        if (value_norm) factor = head_factor(p.v, from, value_size, p.eps);
        for (uint c = lane; c < value_size / 8; c += lanes) {
            vec4 low = load4(p.v, from + 8 * c, 4), high = load4(p.v, from + 8 * c + 4, 4);
            if (value_norm) {
                low *= factor;
                high *= factor;
            }
            kv_store(to, c, kv_encode(low, high));
        }
        return;
    }

    bool is_q = unit < q_heads;
    uint head = is_q ? unit : unit - q_heads;
    F32In x = is_q ? p.q : p.k;
    F32In weight = is_q ? p.q_weight : p.k_weight;
    bool gated = (p.rotation & 0x40000u) != 0;
    uint from = is_q ? row * p.q_stride + head * (gated ? 2 * size : size) : row * p.k_stride + head * size;
    float factor = 1.0;
    if (norm) factor = head_factor(x, from, size, p.eps);
    if (is_q) {
        uint o = row * p.out_stride + head * size;
        for (uint slot = lane; slot < size / 2; slot += lanes) {
            uvec2 dims = rope_dims(slot, rotated_pairs, pairing);
            vec2 v = turned(x, from, weight, factor, info.position, slot);
            p.out_.v[o + dims.x] = v.x;
            p.out_.v[o + dims.y] = v.y;
        }
        return;
    }
    // The cache is written in chunks, so each pair is turned once for either dimension.
    uint cache_row = kv_row(p.pages, info.sequence, p.max_pages, info.position, kv_heads, head);
    KvRow to = kv_address(p.k_cache, cache_row, size);
    for (uint c = lane; c < size / 8; c += lanes) {
        vec4 low, high;
        [[unroll]] for (uint i = 0; i < 8; i++) {
            uint dim = 8 * c + i, slot = rope_slot(dim, rotated_pairs, pairing);
            vec2 v = turned(x, from, weight, factor, info.position, slot);
            float value = rope_dims(slot, rotated_pairs, pairing).x == dim ? v.x : v.y;
            if (i < 4) low[i] = value;
            else high[i - 4] = value;
        }
        kv_store(to, c, kv_encode(low, high));
    }
}
