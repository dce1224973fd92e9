#version 460
// Softmax attention of a row over one block of KEY_BLOCK keys: a workgroup takes the HEADS query heads of a KV head that
// share the loads of K and V, and writes maximum, sum and weighted values of each. attention_combine joins the blocks.
//
// Blocks lie at multiples of KEY_BLOCK positions, so what a workgroup computes depends on its row alone. Workgroups beyond
// the row's position, or outside its window, leave at once.
// variants: KV=f16|f32
#include "types.glsl"
#include "kv.glsl"
#include "attention.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 128;
layout(constant_id = 1) const uint KEY_SIZE = 128;
layout(constant_id = 2) const uint VALUE_SIZE = 128;
// Query heads a workgroup.
layout(constant_id = 3) const uint HEADS = 4;
// Lanes that share a key: a power of two, at most a subgroup.
layout(constant_id = 4) const uint LANES = 8;
// A multiple of THREADS / LANES.
layout(constant_id = 5) const uint KEY_BLOCK = 64;

layout(push_constant, scalar) uniform Push {
    F32In q;
    uvec2 k_cache;
    uvec2 v_cache;
    RowsIn rows;
    U32In pages;
    F32 parts;       // [row][head][block](VALUE_SIZE values, maximum, sum, 2 unused)
    uint q_stride;
    uint kv_heads;
    uint group;      // query heads a KV head
    uint max_pages;
    uint max_blocks; // of a row, in `parts`
    uint window;     // 0: none
    float scale;
    float softcap;   // 0: none
} p;

const uint TEAMS = THREADS / LANES;
const uint TEAM_KEYS = KEY_BLOCK / TEAMS;
const uint KEY_CHUNKS = KEY_SIZE / 8;
const uint VALUE_CHUNKS = VALUE_SIZE / 8;
// The values' keys are shared out over slices of the workgroup.
const uint SLICES = THREADS / VALUE_CHUNKS;
// Keys of a slice, and how many of their values are loaded before the scores are computed.
const uint SLICE_KEYS = (KEY_BLOCK + SLICES - 1) / SLICES;
const uint EARLY_KEYS = SLICE_KEYS < 8 ? SLICE_KEYS : 8;
// Heads that are summed over the slices at a time: as many as 16 KiB hold.
const uint SUM_HEADS = HEADS < 512 / THREADS ? HEADS : (THREADS < 512 ? 512 / THREADS : 1);

shared vec4 query[HEADS * KEY_SIZE / 4];
shared uint cache_row[KEY_BLOCK];
shared float score[HEADS * KEY_BLOCK];
shared vec4 slice_sum[SUM_HEADS * SLICES * VALUE_SIZE / 4];

float dot8(vec4 a0, vec4 a1, vec4 b0, vec4 b1, float sum) {
    sum = fma(a0.x, b0.x, sum);
    sum = fma(a0.y, b0.y, sum);
    sum = fma(a0.z, b0.z, sum);
    sum = fma(a0.w, b0.w, sum);
    sum = fma(a1.x, b1.x, sum);
    sum = fma(a1.y, b1.y, sum);
    sum = fma(a1.z, b1.z, sum);
    return fma(a1.w, b1.w, sum);
}

// score[head][key] of the block.
void compute_scores(uint first, uint last) {
    uint team = gl_SubgroupID * (gl_SubgroupSize / LANES) + gl_SubgroupInvocationID / LANES;
    uint lane = gl_SubgroupInvocationID % LANES;
    float sum[TEAM_KEYS * HEADS];
    [[unroll]] for (uint i = 0; i < TEAM_KEYS * HEADS; i++) sum[i] = 0.0;
    uvec2 key[TEAM_KEYS];
    [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) {
        key[j] = kv_address(p.k_cache, cache_row[team + TEAMS * j], KEY_SIZE);
    }
    for (uint c = lane; c < KEY_CHUNKS; c += LANES) {
        vec4 k0[TEAM_KEYS], k1[TEAM_KEYS];
        [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) kv_decode(kv_load(key[j], c), k0[j], k1[j]);
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            vec4 q0 = query[h * KEY_SIZE / 4 + 2 * c], q1 = query[h * KEY_SIZE / 4 + 2 * c + 1];
            [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) {
                sum[j * HEADS + h] = dot8(q0, q1, k0[j], k1[j], sum[j * HEADS + h]);
            }
        }
    }
    [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) {
        uint i = team + TEAMS * j;
        bool visible = i >= first && i <= last;
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            float s = sum[j * HEADS + h];
            [[unroll]] for (uint other = LANES / 2; other > 0; other /= 2) s += subgroupShuffleXor(s, other);
            s *= p.scale;
            if (p.softcap != 0.0) s = p.softcap * tanh(clamp(s / p.softcap, -15.0, 15.0));
            if (lane == 0) score[h * KEY_BLOCK + i] = visible ? s : HIDDEN;
        }
    }
}

// Turns scores into exp(score - maximum); a subgroup takes a head.
void compute_weights(uint part, uint heads) {
    for (uint h = gl_SubgroupID; h < heads; h += gl_NumSubgroups) {
        float maximum = HIDDEN;
        for (uint i = gl_SubgroupInvocationID; i < KEY_BLOCK; i += gl_SubgroupSize) {
            maximum = max(maximum, score[h * KEY_BLOCK + i]);
        }
        maximum = subgroupMax(maximum);
        float sum = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < KEY_BLOCK; i += gl_SubgroupSize) {
            float s = score[h * KEY_BLOCK + i];
            float weight = s == HIDDEN ? 0.0 : exp(s - maximum);
            score[h * KEY_BLOCK + i] = weight;
            sum += weight;
        }
        sum = subgroupAdd(sum);
        if (subgroupElect()) {
            uint at = part + h * p.max_blocks * (VALUE_SIZE + PART_EXTRA) + VALUE_SIZE;
            p.parts.v[at] = maximum;
            p.parts.v[at + 1] = sum;
        }
    }
}

KvChunk load_values(uint chunk, uint i) {
    return kv_load(kv_address(p.v_cache, cache_row[i], VALUE_SIZE), chunk);
}

void add_values(KvChunk bits, uint i, inout vec4 v0[HEADS], inout vec4 v1[HEADS]) {
    vec4 x0, x1;
    kv_decode(bits, x0, x1);
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        vec4 w = vec4(score[h * KEY_BLOCK + i]);
        v0[h] = fma(w, x0, v0[h]);
        v1[h] = fma(w, x1, v1[h]);
    }
}

void compute_values(uint part, uint heads, KvChunk early[EARLY_KEYS]) {
    uint slice = gl_LocalInvocationIndex / VALUE_CHUNKS, chunk = gl_LocalInvocationIndex % VALUE_CHUNKS;
    vec4 v0[HEADS], v1[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; h++) v0[h] = v1[h] = vec4(0.0);
    if (slice < SLICES) {
        [[unroll]] for (uint j = 0; j < EARLY_KEYS; j++) {
            uint i = slice + j * SLICES;
            if (i < KEY_BLOCK) add_values(early[j], i, v0, v1);
        }
        for (uint i = slice + EARLY_KEYS * SLICES; i < KEY_BLOCK; i += SLICES) {
            add_values(load_values(chunk, i), i, v0, v1);
        }
    }
    [[unroll]] for (uint first = 0; first < HEADS; first += SUM_HEADS) {
        barrier();
        if (slice < SLICES) {
            [[unroll]] for (uint h = 0; h < SUM_HEADS; h++) {
                if (first + h < HEADS) {
                    uint at = (h * SLICES + slice) * (VALUE_SIZE / 4) + 2 * chunk;
                    slice_sum[at] = v0[first + h];
                    slice_sum[at + 1] = v1[first + h];
                }
            }
        }
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < SUM_HEADS * VALUE_SIZE / 4; i += THREADS) {
            uint h = i / (VALUE_SIZE / 4), column = i % (VALUE_SIZE / 4);
            if (first + h >= heads) break;
            vec4 sum = vec4(0.0);
            for (uint s = 0; s < SLICES; s++) sum += slice_sum[(h * SLICES + s) * (VALUE_SIZE / 4) + column];
            Vec4(p.parts).v[(part + (first + h) * p.max_blocks * (VALUE_SIZE + PART_EXTRA)) / 4 + column] = sum;
        }
    }
}

void main() {
    uint row = gl_WorkGroupID.z;
    RowInfo info = p.rows.v[row];
    uint first_key = first_visible(info.position, p.window);
    uint base = (first_key / KEY_BLOCK + gl_WorkGroupID.x) * KEY_BLOCK;
    if (base > info.position) return;
    // First and last visible key, counted from the block's start.
    uint first = max(first_key, base) - base, last = min(info.position - base, KEY_BLOCK - 1);

    uint splits = (p.group + HEADS - 1) / HEADS;
    uint kv_head = gl_WorkGroupID.y / splits, first_head = gl_WorkGroupID.y % splits * HEADS;
    uint heads = min(HEADS, p.group - first_head);
    first_head += kv_head * p.group;

    // Hidden keys read a visible one's place: the others' pages may not exist.
    for (uint i = gl_LocalInvocationIndex; i < KEY_BLOCK; i += THREADS) {
        uint position = base + clamp(i, first, last);
        cache_row[i] = kv_row(p.pages, info.sequence, p.max_pages, position, p.kv_heads, kv_head);
    }
    for (uint i = gl_LocalInvocationIndex; i < HEADS * KEY_SIZE / 4; i += THREADS) {
        uint at = row * p.q_stride + first_head * KEY_SIZE + 4 * i;
        bool used = i < heads * KEY_SIZE / 4;
        query[i] = used ? vec4(p.q.v[at], p.q.v[at + 1], p.q.v[at + 2], p.q.v[at + 3]) : vec4(0.0);
    }
    barrier();
    KvChunk early[EARLY_KEYS];
    uint slice = gl_LocalInvocationIndex / VALUE_CHUNKS;
    [[unroll]] for (uint j = 0; j < EARLY_KEYS; j++) {
        early[j] = load_values(gl_LocalInvocationIndex % VALUE_CHUNKS, min(slice + j * SLICES, KEY_BLOCK - 1));
    }
    compute_scores(first, last);
    barrier();
    uint part = ((row * p.kv_heads * p.group + first_head) * p.max_blocks + gl_WorkGroupID.x) * (VALUE_SIZE + PART_EXTRA);
    compute_weights(part, heads);
    barrier();
    compute_values(part, heads, early);
}
