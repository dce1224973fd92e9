#version 460
// Attention from the projections on, of rows that each are the last of a sequence: queries are normed and turned; the workgroups of a row's last
// block norm and turn its key, and use key and value as the cache will have them, and one of them stores both.
// Where gates lie between the query heads, results are multiplied with their sigmoids.
// Bits as of qk_norm_rope_kv.comp, attention.comp and elementwise.comp one after the other.
// variants: KV=f16|f32|q8_0
#include "types.glsl"
#include "chunk.glsl"
#include "head.glsl"
#include "rope.glsl"
#include "kv.glsl"
#include "gate.glsl"
#include "attention.glsl"

layout(constant_id = 10) const uint ROTATED_PAIRS = 64;
layout(constant_id = 11) const uint PAIRING = 1;
layout(constant_id = 12) const bool NORMS = true;
layout(constant_id = 13) const float EPS = 1e-6;
layout(constant_id = 14) const bool SINKS = false;
// Lanes of a subgroup.
layout(constant_id = 15) const uint SUBGROUP = 32;
layout(constant_id = 17) const bool VALUE_NORMS = false; // without weights
layout(constant_id = 18) const bool GATED = false; // a gate, as wide, follows each query head

layout(push_constant, scalar) uniform Push {
    F32In q;
    F32In k;
    F32In v;
    F32In q_weight;
    F32In k_weight;
    RopeTable table;
    uvec2 k_cache;
    uvec2 v_cache;
    RowsIn rows;
    U32In pages;
    F32In sinks;
    CommonVec4 parts;
    F32 out_;
    uint strides_qk; // low half: of q, high half: of k
    uint strides_vo; // of v and the output
    uint max_pages;
    uint window;
    float scale;
    float softcap;
} p;

// The row's own key lies behind the queries.
#define OWN_KEYS 1
#include "split.glsl"

const uint SLOTS = (KEY_SIZE / 2 + SUBGROUP - 1) / SUBGROUP;

shared KvChunk own_key_bits[KEY_CHUNKS];
shared KvChunk own_value_bits[VALUE_CHUNKS];

uint out_stride() { return p.strides_vo >> 16; }
bool has_sinks() { return SINKS; }

// Whether the row's own position lies in the block.
bool has_own() { return base + KEY_BLOCK > info.position; }

// Where the row's own key and value go.
uint own_row() { return kv_row(p.pages, info.sequence, p.max_pages, info.position, kv_heads, kv_head); }

// Where a query head begins; its gate is the head behind it.
uint query_at(uint head) { return row * (p.strides_qk & 0xffffu) + head * (GATED ? 2 * KEY_SIZE : KEY_SIZE); }

vec4 openings(uint head, uint column) {
    return GATED ? sigmoid(load4(p.q, query_at(head) + KEY_SIZE + 4 * column, 4)) : vec4(1.0);
}

// A head, normed and turned, becomes number `h` of `query`.
void turn(F32In x, uint from, F32In weights, uint h) {
    vec2 pair[SLOTS], factors[SLOTS], angle[SLOTS];
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        uint slot = min(gl_SubgroupInvocationID + i * SUBGROUP, KEY_SIZE / 2 - 1);
        uvec2 dims = rope_dims(slot, ROTATED_PAIRS, PAIRING);
        pair[i] = vec2(x.v[from + dims.x], x.v[from + dims.y]);
        if (NORMS) factors[i] = vec2(weights.v[dims.x], weights.v[dims.y]);
        if (slot < ROTATED_PAIRS) angle[i] = p.table.v[info.position * ROTATED_PAIRS + slot];
    }
    float factor = 1.0;
    if (NORMS) factor = head_factor(x, from, KEY_SIZE, EPS);
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        uint slot = gl_SubgroupInvocationID + i * SUBGROUP;
        if (slot >= KEY_SIZE / 2) break;
        uvec2 dims = rope_dims(slot, ROTATED_PAIRS, PAIRING), at = h * KEY_SIZE + dims;
        vec2 v = pair[i];
        if (NORMS) v = v * factor * factors[i];
        if (slot < ROTATED_PAIRS) v = rope_by(v, angle[i]);
        query[at.x / 4][at.x % 4] = v.x;
        query[at.y / 4][at.y % 4] = v.y;
    }
}

// The row's own key as the cache will hold it, once it is normed and turned.
void store_own_key() {
    KvRow to = kv_address(p.k_cache, own_row(), KEY_SIZE);
    for (uint c = gl_SubgroupInvocationID; c < KEY_CHUNKS; c += gl_SubgroupSize) {
        KvChunk bits = kv_encode(query[HEADS * KEY_SIZE / 4 + 2 * c], query[HEADS * KEY_SIZE / 4 + 2 * c + 1]);
        own_key_bits[c] = bits;
        if (gl_WorkGroupID.y % SPLITS == 0) kv_store(to, c, bits);
    }
}

void take_own_value() {
    uint from = row * (p.strides_vo & 0xffffu) + kv_head * VALUE_SIZE;
    KvRow to = kv_address(p.v_cache, own_row(), VALUE_SIZE);
    float factor = 1.0;
    if (VALUE_NORMS) factor = head_factor(p.v, from, VALUE_SIZE, EPS);
    for (uint c = gl_SubgroupInvocationID; c < VALUE_CHUNKS; c += gl_SubgroupSize) {
        vec4 low = load4(p.v, from + 8 * c, 4), high = load4(p.v, from + 8 * c + 4, 4);
        if (VALUE_NORMS) {
            low *= factor;
            high *= factor;
        }
        KvChunk bits = kv_encode(low, high);
        own_value_bits[c] = bits;
        if (gl_WorkGroupID.y % SPLITS == 0) kv_store(to, c, bits);
    }
}

void prepare(uint heads) {
    bool own = end_block * KEY_BLOCK > info.position;
    uint units = own ? HEADS + 2 : HEADS;
    for (uint unit = gl_SubgroupID; unit < units; unit += gl_NumSubgroups) {
        if (unit == HEADS) {
            turn(p.k, row * (p.strides_qk >> 16) + kv_head * KEY_SIZE, p.k_weight, HEADS);
        } else if (unit == HEADS + 1) {
            take_own_value();
        } else {
            // Queries that there are not are as good as the last one.
            uint head = first_head + min(unit, heads - 1);
            turn(p.q, query_at(head), p.q_weight, unit);
        }
    }
    if (!own) return;
    // All subgroups come by it, though one needs it: Mesa's software driver counts a subgroup's barriers among those of the workgroup.
    subgroupBarrier();
    if (gl_SubgroupID == HEADS % gl_NumSubgroups) store_own_key();
}

// Hidden keys behind the row's own one stand for it too.
KvChunk own_key(KvChunk bits, uint key, uint chunk) {
    if (has_own() && key >= last_key) return own_key_bits[chunk];
    return bits;
}

KvChunk own_value(KvChunk bits, uint key, uint chunk) {
    if (has_own() && key >= last_key) return own_value_bits[chunk];
    return bits;
}
