#version 460
// What attention_matrix.comp computes, on matrices of 16 × 16 × 16 whose sums lie in the subgroup's 32 lanes as the first factor of a product does: lane l has, of rows l / 4
// and l / 4 + 8, columns 2t, 2t + 1, 2t + 8 and 2t + 9, t = l % 4 (`lanes/mod.rs` asks the device). So weights stay in the registers where their scores were, what belongs to a row
// lies in four lanes, and only keys and values go through shared memory.
//
// A subgroup has 16 queries. While it multiplies the scores of the next keys, the present ones become weights, so that matrix cores do not wait for exponentials. Sums of scores
// begin with minus the row's reference. Keys and values have a buffer each; a block of keys takes two barriers.
// variants: KV=f16|f32|q8_0
#include "matrix_tile.glsl"
#extension GL_KHR_shader_subgroup_clustered : require

// Scores of a lane, of which each step of the next keys makes EACH to weights.
const uint SCORES = SCORE_TILES * 8;
const uint EACH = (SCORES + KEY_STEPS - 1) / KEY_STEPS;

Sums next[SCORE_TILES];
Left weights[SCORE_TILES];
// Of the lane's two rows: sums of its own weights, and what scores are taken less.
float total[2];
float reference[2];

// Rows of the cache where pages of a block begin.
uint page_row[KEYS / PAGE_TOKENS];

#include "matrix_stage.glsl"

// Pages beyond what is seen stand for the nearest one that is.
void find_pages(uint base, uint sequence, uint low, uint high) {
    [[unroll]] for (uint i = 0; i < KEYS / PAGE_TOKENS; i++) {
        uint position = clamp(base + i * PAGE_TOKENS, low, high);
        page_row[i] = kv_row(p.pages, sequence, p.max_pages, position / PAGE_TOKENS * PAGE_TOKENS, p.kv_heads, kv_head);
    }
}

// Chunk number self + j · THREADS of rows of so many: all of a page's rows lie behind each other. Which page that is is known, where a turn of all invocations is within one.
KvChunk load_chunk(uvec2 cache, uint j, uint size, uint chunks, uint items) {
    const uint page_chunks = PAGE_TOKENS * chunks, first = j * THREADS / page_chunks, last = ((j + 1) * THREADS - 1) / page_chunks;
    uint i = min(self + j * THREADS, items - 1), row = page_row[first];
    [[unroll]] for (uint page = first + 1; page <= last; page++) {
        if (page < KEYS / PAGE_TOKENS && i / page_chunks >= page) row = page_row[page < KEYS / PAGE_TOKENS ? page : 0];
    }
    return kv_chunk(cache, row + i / chunks % PAGE_TOKENS, size, i % chunks);
}

void load_keys() {
    [[unroll]] for (uint j = 0; j < KEY_LOADS; j++) bits[j] = load_chunk(p.k_cache, j, KEY_SIZE, KEY_CHUNKS, KEY_ITEMS);
}

void load_values() {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) bits[j] = load_chunk(p.v_cache, j, VALUE_SIZE, VALUE_CHUNKS, VALUE_ITEMS);
}

// Some of the scores become weights.
void weigh(uint part) {
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint at = part * EACH + e, n = at / 8, i = at % 8;
        if (at >= SCORES) break;
        float weight = exp2(score[n][i]);
        weights[n][i] = float16_t(weight);
        total[i / 4] += weight;
    }
}

// Scores of the keys that are in shared memory.
void add_scores(bool weighing) {
    [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
        [[unroll]] for (uint i = 0; i < 8; i++) next[n][i] = p.cap != 0.0 ? 0.0 : -reference[i / 4];
    }
    [[unroll]] for (uint s = 0; s < KEY_STEPS; s++) {
        if (weighing) weigh(s);
        [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
            Right keys;
            coopMatLoad(keys, stage, n * N * KEY_STRIDE + s * K / 8, KEY_STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            next[n] = coopMatMulAdd(query[s], keys, next[n]);
        }
    }
}

void add_values() {
    [[unroll]] for (uint s = 0; s < SCORE_TILES; s++) {
        [[unroll]] for (uint c = 0; c < COLUMN_TILES; c++) {
            Right values;
            coopMatLoad(values, stage, BUFFER + s * K * VALUE_STRIDE + c * N / 8, VALUE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            value[c] = coopMatMulAdd(weights[s], values, value[c]);
        }
    }
}

void cap_scores() {
    [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
        [[unroll]] for (uint i = 0; i < 8; i++) score[n][i] = p.cap * tanh(clamp(score[n][i], -15.0, 15.0)) - reference[i / 4];
    }
}

void hide_scores(uint base) {
    [[unroll]] for (uint r = 0; r < 2; r++) {
        uint m = first_query + gl_SubgroupInvocationID / 4 + 8 * r, first = query_first[m], last = query_last[m];
        [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
            [[unroll]] for (uint i = 0; i < 4; i++) {
                uint position = base + n * N + gl_SubgroupInvocationID % 4 * 2 + i % 2 + i / 2 * 8;
                if (position < first || position > last) score[n][4 * r + i] = HIDDEN;
            }
        }
    }
}

// The row's new reference, its greatest score being so far above the old one, and what there is of it in terms of that.
void follow(uint r, float greatest) {
    float sum = subgroupClusteredAdd(total[r], 4);
    greatest = subgroupClusteredMax(greatest, 4);
    if (greatest <= (sum == 0.0 ? HIDDEN : GROWTH)) return;
    float shift = greatest - HEADROOM, factor = sum == 0.0 ? 1.0 : exp2(max(-shift, -126.0));
    reference[r] += shift;
    total[r] *= factor;
    [[unroll]] for (uint i = 4 * r; i < 4 * r + 4; i++) {
        [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) score[n][i] -= shift;
        [[unroll]] for (uint c = 0; c < COLUMN_TILES; c++) value[c][i] *= factor;
    }
}

// What was multiplied becomes the present scores, of KEYS keys from `base` on. A row that has seen no key takes its reference from the first ones.
void take_scores(uint base, bool hide) {
    [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) score[n] = next[n];
    if (p.cap != 0.0) cap_scores();
    if (hide) hide_scores(base);
    float greatest[2];
    bool grown = false;
    [[unroll]] for (uint r = 0; r < 2; r++) {
        greatest[r] = HIDDEN;
        [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
            [[unroll]] for (uint i = 4 * r; i < 4 * r + 4; i++) greatest[r] = max(greatest[r], score[n][i]);
        }
        grown = grown || greatest[r] > (total[r] == 0.0 ? HIDDEN : GROWTH);
    }
    if (subgroupAny(grown)) {
        [[unroll]] for (uint r = 0; r < 2; r++) follow(r, greatest[r]);
    }
}

// Rows start .. end of the tile, over the sums of their weights, a sink's included.
void write_values(uint start, uint end) {
    [[unroll]] for (uint r = 0; r < 2; r++) {
        uint m = first_query + gl_SubgroupInvocationID / 4 + 8 * r, row = m / HEADS, h = m % HEADS;
        float sum = subgroupClusteredAdd(total[r], 4), factor = 1.0;
        if (p.has_sinks != 0 && h < heads) {
            float sink = p.sinks.v[first_head + h] * LOG2_E, greater = max(reference[r], sink);
            factor = exp2(max(reference[r] - greater, -126.0));
            sum = sum * factor + exp2(max(sink - greater, -126.0));
        }
        if (row < start || row >= end || h >= heads) continue;
        uint from = (tile_row + row) * p.out_stride + (first_head + h) * VALUE_SIZE + gl_SubgroupInvocationID % 4 * 2;
        [[unroll]] for (uint c = 0; c < COLUMN_TILES; c++) {
            [[unroll]] for (uint i = 0; i < 4; i++) p.out_.v[from + c * N + i % 2 + i / 2 * 8] = value[c][4 * r + i] * (factor / sum);
        }
    }
}

// Rows start .. end of the tile, which belong to one sequence. Together they see the positions low to high, each of them those
// from all_from to all_to.
void attend(uint start, uint end, uint sequence, uint low, uint high, uint all_from, uint all_to) {
    barrier();
    find_queries(start, end);
    [[unroll]] for (uint r = 0; r < 2; r++) {
        total[r] = 0.0;
        reference[r] = 0.0;
    }
    [[unroll]] for (uint c = 0; c < COLUMN_TILES; c++) value[c] = Sums(0.0);
    uint base = low / KEYS * KEYS;
    find_pages(base, sequence, low, high);
    load_keys();
    buffer_ = 0;
    store_keys(0);
    barrier();
    find_pages(base + KEYS, sequence, low, high);
    load_keys();
    add_scores(false);
    take_scores(base, base < all_from || base + KEYS - 1 > all_to);
    barrier();
    for (; base <= high; base += KEYS) {
        buffer_ = 0;
        store_keys(0);
        find_pages(base, sequence, low, high);
        barrier();
        load_values();
        add_scores(true);
        buffer_ = 1;
        store_values(max(base, low) - base, high - base);
        find_pages(base + 2 * KEYS, sequence, low, high);
        barrier();
        load_keys();
        add_values();
        take_scores(base + KEYS, base + KEYS < all_from || base + 2 * KEYS - 1 > all_to);
    }
    write_values(start, end);
}

#include "matrix_runs.glsl"

void main() {
    begin_tile();
    load_queries();
    attend_runs();
}
