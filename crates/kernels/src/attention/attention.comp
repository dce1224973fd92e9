#version 460
// Softmax attention of a row over one block of KEY_BLOCK keys: a workgroup takes the HEADS query heads of a KV head that
// share the loads of K and V, and writes exponent, sum and weighted values of each. attention_combine joins the blocks.
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
// A multiple of THREADS / LANES.
layout(constant_id = 4) const uint KEY_BLOCK = 64;
// Elements of a value that are in shared memory at a time, a multiple of 8.
layout(constant_id = 5) const uint VALUE_PART = 128;

layout(push_constant, scalar) uniform Push {
    F32In q;
    uvec2 k_cache;
    uvec2 v_cache;
    RowsIn rows;
    U32In pages;
    F32 parts;       // [row][head][block](VALUE_SIZE values, exponent, sum, 2 unused)
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
const uint PART_CHUNKS = VALUE_PART / 8;
// Chunks of values that an invocation loads; the first part's before the scores are computed.
const uint VALUE_LOADS = (KEY_BLOCK * PART_CHUNKS + THREADS - 1) / THREADS;
// The padding spreads the lanes over the banks of shared memory.
const uint PARTIALS = HEADS * KEY_BLOCK + 4;

// Four elements of a value as they lie in the cache.
#ifdef KV_F16
#define Quad uvec2
#else
#define Quad vec4
#endif

shared vec4 query[HEADS * KEY_SIZE / 4];
shared uint cache_row[KEY_BLOCK];
shared float partial[LANES * PARTIALS];
shared float weight[HEADS * KEY_BLOCK];
shared float head_exponent[HEADS];
shared Quad values[KEY_BLOCK * VALUE_PART / 4];

vec4 decode(Quad bits) {
#ifdef KV_F16
    return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
#else
    return bits;
#endif
}

// partial[lane][head][key] of the block.
void compute_partials() {
    uint team = gl_LocalInvocationIndex / LANES, lane = gl_LocalInvocationIndex % LANES;
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
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            partial[lane * PARTIALS + h * KEY_BLOCK + team + TEAMS * j] = sum[j * HEADS + h];
        }
    }
}

// Scores become weights; a subgroup takes a head. The maximum is the same in any order.
void compute_weights(uint heads, uint first, uint last) {
    for (uint h = gl_SubgroupID; h < heads; h += gl_NumSubgroups) {
        float maximum = HIDDEN;
        for (uint i = gl_SubgroupInvocationID; i < KEY_BLOCK; i += gl_SubgroupSize) {
            float dot = 0.0;
            [[unroll]] for (uint lane = 0; lane < LANES; lane++) dot += partial[lane * PARTIALS + h * KEY_BLOCK + i];
            float s = i >= first && i <= last ? finish_score(dot, p.scale, p.softcap) : HIDDEN;
            weight[h * KEY_BLOCK + i] = s;
            maximum = max(maximum, s);
        }
        float r = exponent(subgroupMax(maximum));
        for (uint i = gl_SubgroupInvocationID; i < KEY_BLOCK; i += gl_SubgroupSize) {
            float s = weight[h * KEY_BLOCK + i];
            weight[h * KEY_BLOCK + i] = s == HIDDEN ? 0.0 : weight_of(s, r);
        }
        if (subgroupElect()) head_exponent[h] = r;
    }
}

// The chunks of a part that this invocation brings to shared memory.
void load_values(uint first_chunk, out KvChunk bits[VALUE_LOADS]) {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = gl_LocalInvocationIndex + j * THREADS;
        uint key = min(i / PART_CHUNKS, KEY_BLOCK - 1), chunk = min(first_chunk + i % PART_CHUNKS, VALUE_CHUNKS - 1);
        bits[j] = kv_load(kv_address(p.v_cache, cache_row[key], VALUE_SIZE), chunk);
    }
}

void store_values(KvChunk bits[VALUE_LOADS]) {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = gl_LocalInvocationIndex + j * THREADS;
        if (i < KEY_BLOCK * PART_CHUNKS) {
#ifdef KV_F16
            values[2 * i] = bits[j].xy;
            values[2 * i + 1] = bits[j].zw;
#else
            values[2 * i] = bits[j].low;
            values[2 * i + 1] = bits[j].high;
#endif
        }
    }
}

// The sums of the part that is in shared memory, whose first column is 4 · `first_column`.
void compute_values(uint part, uint heads, uint first_column) {
    for (uint i = gl_LocalInvocationIndex; i < HEADS * (VALUE_PART / 4); i += THREADS) {
        uint h = i / (VALUE_PART / 4), own = i % (VALUE_PART / 4), column = first_column + own;
        if (h >= heads || column >= VALUE_SIZE / 4) continue;
        vec4 sum = vec4(0.0);
        for (uint key = 0; key < KEY_BLOCK; key += 8) {
            [[unroll]] for (uint j = 0; j < 8; j++) {
                vec4 v = decode(values[(key + j) * (VALUE_PART / 4) + own]);
                sum = fma(vec4(weight[h * KEY_BLOCK + key + j]), v, sum);
            }
        }
        Vec4(p.parts).v[(part + h * p.max_blocks * (VALUE_SIZE + PART_EXTRA)) / 4 + column] = sum;
    }
}

void write_sums(uint part, uint heads) {
    uint h = gl_LocalInvocationIndex;
    if (h >= heads) return;
    vec4 sum = vec4(0.0);
    for (uint i = h * KEY_BLOCK; i < (h + 1) * KEY_BLOCK; i += 4) {
        sum += vec4(weight[i], weight[i + 1], weight[i + 2], weight[i + 3]);
    }
    uint at = part + h * p.max_blocks * (VALUE_SIZE + PART_EXTRA) + VALUE_SIZE;
    p.parts.v[at] = head_exponent[h];
    p.parts.v[at + 1] = (sum.x + sum.y) + (sum.z + sum.w);
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
    KvChunk bits[VALUE_LOADS];
    load_values(0, bits);
    compute_partials();
    store_values(bits);
    barrier();
    compute_weights(heads, first, last);
    barrier();
    uint part = ((row * p.kv_heads * p.group + first_head) * p.max_blocks + gl_WorkGroupID.x) * (VALUE_SIZE + PART_EXTRA);
    compute_values(part, heads, 0);
    for (uint chunk = PART_CHUNKS; chunk < VALUE_CHUNKS; chunk += PART_CHUNKS) {
        barrier();
        load_values(chunk, bits);
        store_values(bits);
        barrier();
        compute_values(part, heads, 2 * chunk);
    }
    write_sums(part, heads);
}
