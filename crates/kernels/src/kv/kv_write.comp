#version 460
// Stores key and value heads at their row's position. An invocation stores a chunk of a key or of a value.
// variants: KV=f16|f32|q8_0
#include "types.glsl"
#include "grid.glsl"
#include "chunk.glsl"
#include "kv.glsl"

layout(push_constant, scalar) uniform Push {
    F32In k;
    F32In v;
    RowsIn rows;
    U32In pages;
    uvec2 k_cache;
    uvec2 v_cache;
    uint n_rows;
    uint kv_heads;
    uint key_size;
    uint value_size;
    uint k_stride;
    uint v_stride;
    uint max_pages;
} p;

void main() {
    uint chunks = p.kv_heads * (p.key_size + p.value_size) / 8;
    // Neighbours in a subgroup have neighbouring chunks.
    uint id = folded_group() * gl_WorkGroupSize.x + gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint row = id / chunks, column = id % chunks * 8;
    if (row >= p.n_rows) return;
    bool is_key = column < p.kv_heads * p.key_size;
    if (!is_key) column -= p.kv_heads * p.key_size;
    uint size = is_key ? p.key_size : p.value_size;
    F32In from = is_key ? p.k : p.v;
    uint at = row * (is_key ? p.k_stride : p.v_stride) + column;
    RowInfo info = p.rows.v[row];
    uint cache_row = kv_row(p.pages, info.sequence, p.max_pages, info.position, p.kv_heads, column / size);
    KvRow to = kv_address(is_key ? p.k_cache : p.v_cache, cache_row, size);
    kv_store(to, column % size / 8, kv_encode(load4(from, at, 4), load4(from, at + 4, 4)));
}
