#version 460
// Softmax attention of rows whose queries are ready and whose keys and values are in the cache already: each row's keys are split over
// workgroups.
// variants: KV=f16|f32|q8_0
#include "types.glsl"
#include "kv.glsl"
#include "attention.glsl"

layout(push_constant, scalar) uniform Push {
    F32In q;
    uvec2 k_cache;
    uvec2 v_cache;
    RowsIn rows;
    U32In pages;
    F32In sinks;
    CommonVec4 parts;
    F32 out_;
    uint q_stride;
    uint out_stride_;
    uint max_pages;
    uint window;
    float scale;
    float softcap;
    uint has_sinks_;
} p;

#define OWN_KEYS 0
#include "split.glsl"

uint out_stride() { return p.out_stride_; }
bool has_sinks() { return p.has_sinks_ != 0; }
vec4 openings(uint head, uint column) { return vec4(1.0); }

void prepare(uint heads) {
    for (uint i = gl_LocalInvocationIndex; i < HEADS * KEY_SIZE / 4; i += THREADS) {
        uint at = row * p.q_stride + first_head * KEY_SIZE + 4 * i;
        bool used = i < heads * KEY_SIZE / 4;
        query[i] = used ? vec4(p.q.v[at], p.q.v[at + 1], p.q.v[at + 2], p.q.v[at + 3]) : vec4(0.0);
    }
}

KvChunk own_key(KvChunk bits, uint key, uint chunk) { return bits; }
KvChunk own_value(KvChunk bits, uint key, uint chunk) { return bits; }
