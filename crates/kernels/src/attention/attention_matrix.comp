#version 460
// Softmax attention of a tile of rows on matrix cores: f16 products with f32 sums. A workgroup takes QUERIES (row, query head) pairs of a
// KV head and walks over the keys that any of its rows sees, KEYS at a time. A row group of subgroups has ROW_TILES matrices of rows; its
// COLUMN_GROUPS subgroups share out the keys of a score and the columns of the values.
//
// Queries stay in registers, times the scale and log2 e. Keys and values pass through two buffers of shared memory in turn, the next ones
// already in registers, so that a stage takes one barrier. Weights are 2^(score - reference): the reference of a row follows its maximum
// only where a score is beyond 2^GROWTH times it, which is seldom after the first keys; only then are rows reduced and values rescaled.
// What a row's reference is depends on its own scores alone.
//
// Which element of a matrix a component is, nobody says; but it is the same in all matrices of a type. So a matrix of row factors is loaded
// with a stride of 0, and one of element numbers (`place`) tells a component's row and column.
// variants: KV=f16|f32|q8_0
#include "matrix_tile.glsl"

const uint WEIGHT_STRIDE = KEYS / 8 + 1;
const uint TILE_STRIDE = N / 4 + 1;

// A row group's weights, or an f32 matrix of each row tile of its subgroups.
const uint WEIGHTS = ROW_TILES * M * WEIGHT_STRIDE;
const uint TILES = ROW_TILES * M * TILE_STRIDE;
const uint SCRATCH = WEIGHTS > COLUMN_GROUPS * TILES ? WEIGHTS : COLUMN_GROUPS * TILES;

// Rows of the cache, of the present keys and of the next.
shared uint cache_row[2 * KEYS];
shared uvec4 scratch[ROW_GROUPS * SCRATCH];
// The number of each element of a matrix.
shared float place[M * N];
// Of each query: the reference of its weights, and a factor of its values.
shared float row_reference[QUERIES];
shared float row_factor[QUERIES];
shared uint grown[ROW_GROUPS * COLUMN_GROUPS];

#define Halves coopmat<float16_t, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

// Reference of a row that has seen no key.
const float NOTHING = -1e20;

// Sums of the weights in the same columns, and the rows' references.
Sums total[ROW_TILES];
Sums reference[ROW_TILES];

// 16 bytes of scratch where the row group's and the subgroup's own begin.
uint group_scratch, own_scratch;

#include "matrix_stage.glsl"

void find_cache_rows(uint half_, uint base, uint sequence, uint low, uint high) {
    for (uint i = self; i < KEYS; i += THREADS) {
        uint position = clamp(base + i, low, high);
        cache_row[half_ * KEYS + i] = kv_row(p.pages, sequence, p.max_pages, position, p.kv_heads, kv_head);
    }
}

void load_keys(uint half_, uint slice) {
    [[unroll]] for (uint j = 0; j < KEY_LOADS; j++) {
        uint i = min(self + j * THREADS, KEY_ITEMS - 1), chunk = slice * STAGE_CHUNKS + i % STAGE_CHUNKS;
        KvRow key = kv_address(p.k_cache, cache_row[half_ * KEYS + i / STAGE_CHUNKS], KEY_SIZE);
        bits[j] = kv_load(key, min(chunk, KEY_CHUNKS - 1));
    }
}

void load_values(uint half_, uint first_key) {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = min(self + j * THREADS, VALUE_ITEMS - 1), chunk = i % COLUMN_CHUNKS;
        uint row = cache_row[half_ * KEYS + first_key + i / COLUMN_CHUNKS];
        bits[j] = kv_load(kv_address(p.v_cache, row, VALUE_SIZE), min(chunk, VALUE_CHUNKS - 1));
    }
}

// The part of the scores that a stage's elements add.
void add_scores(uint slice) {
    [[unroll]] for (uint s = 0; s < STAGE_STEPS; s++) {
        [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
            Right keys;
            uint at = buffer_ * BUFFER + (column_group * SCORE_TILES + n) * N * KEY_STRIDE + s * K / 8;
            coopMatLoad(keys, stage, at, KEY_STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
                uint i = t * SCORE_TILES + n;
                score[i] = coopMatMulAdd(query[t * KEY_STEPS + slice * STAGE_STEPS + s], keys, score[i]);
            }
        }
    }
}

#include "matrix_weights.glsl"

void add_values(uint first_key) {
    [[unroll]] for (uint s = 0; s < VALUE_KEYS / K; s++) {
        Left weights[ROW_TILES];
        [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
            uint at = group_scratch + t * M * WEIGHT_STRIDE + (first_key + s * K) / 8;
            coopMatLoad(weights[t], scratch, at, WEIGHT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint c = 0; c < COLUMN_TILES; c++) {
            Right values;
            uint at = buffer_ * BUFFER + s * K * VALUE_STRIDE + (column_group * COLUMN_TILES + c) * N / 8;
            coopMatLoad(values, stage, at, VALUE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
                uint i = t * COLUMN_TILES + c;
                value[i] = coopMatMulAdd(weights[t], values, value[i]);
            }
        }
    }
}

// A stage of keys. Meanwhile the next one is loaded.
void add_slice(uint slice, uint half_) {
    store_keys(slice);
    barrier();
    if (slice + 1 < KEY_SLICES) load_keys(half_, slice + 1);
    else load_values(half_, 0);
    add_scores(slice);
    buffer_ ^= 1;
}

// Unrolled by hand: loops around so much code are not unrolled everywhere, and matrices that are indexed at run time lie in memory.
#define ADD_SLICE(i) if (i < KEY_SLICES) add_slice(i, half_);
#define ADD_SLICES_4(i) ADD_SLICE(i) ADD_SLICE((i + 1)) ADD_SLICE((i + 2)) ADD_SLICE((i + 3))

// KEYS keys from `base` on.
void add_keys(uint half_, uint base, bool hide, bool more) {
    [[unroll]] for (uint i = 0; i < ROW_TILES * SCORE_TILES; i++) score[i] = Sums(0.0);
    ADD_SLICES_4(0)
    ADD_SLICES_4(4)
    ADD_SLICES_4(8)
    ADD_SLICES_4(12)
    if (p.cap != 0.0) cap_scores();
    if (hide) hide_scores(base);
    write_weights();
    for (uint key = 0; key < KEYS; key += VALUE_KEYS) {
        store_values(0, ~0u);
        barrier();
        if (key + VALUE_KEYS < KEYS) load_values(half_, key + VALUE_KEYS);
        else if (more) load_keys(half_ ^ 1, 0);
        add_values(key);
        buffer_ ^= 1;
    }
}

// Over the sums of the weights, a sink's included.
void normalise() {
    barrier();
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        coopMatStore(total[t], scratch, own_scratch + t * M * TILE_STRIDE, TILE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    for (uint r = column_group * gl_SubgroupSize + gl_SubgroupInvocationID; r < ROW_TILES * M; r += COLUMN_GROUPS * gl_SubgroupSize) {
        uint m = first_query + r, h = m % HEADS;
        float sum = 0.0, factor = 1.0;
        for (uint c = 0; c < COLUMN_GROUPS; c++) {
            for (uint n = 0; n < N; n++) sum += tile_element(group_scratch + c * TILES, r, n);
        }
        if (p.has_sinks != 0 && h < heads) {
            float sink = p.sinks.v[first_head + h] * LOG2_E, old = row_reference[m], greater = max(old, sink);
            factor = exp2(max(old - greater, -126.0));
            sum = sum * factor + exp2(max(sink - greater, -126.0));
        }
        row_factor[m] = factor / sum;
    }
    barrier();
}

// A matrix of values of the rows start .. end of the tile.
void write_tile(Sums result, uint t, uint c, uint start, uint end) {
    subgroupBarrier();
    coopMatStore(result, scratch, own_scratch, TILE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
    [[dont_unroll]] for (uint i = gl_SubgroupInvocationID; i < M * N / 4; i += gl_SubgroupSize) {
        uint m = first_query + t * M + i / (N / 4), r = m / HEADS, h = m % HEADS;
        uint column = (column_group * COLUMN_TILES + c) * N + i % (N / 4) * 4;
        if (r < start || r >= end || h >= heads || column >= VALUE_SIZE) continue;
        vec4 four = uintBitsToFloat(scratch[own_scratch + i / (N / 4) * TILE_STRIDE + i % (N / 4)]);
        uint at = (tile_row + r) * p.out_stride + (first_head + h) * VALUE_SIZE + column;
        if (ALIGNED) {
            Vec4(p.out_).v[at / 4] = four;
        } else {
            for (uint n = 0; n < 4; n++) p.out_.v[at + n] = four[n];
        }
    }
}

// The index stays within the array also where the call is not made: RADV's compiler (Mesa 26.1) crashes on copies of what lies beyond (docs/rdna4.md).
#define WRITE(i) if (i < VALUES) write_tile(value[i < VALUES ? i : 0], i / COLUMN_TILES, i % COLUMN_TILES, start, end);
#define WRITE_8(i) WRITE(i) WRITE((i + 1)) WRITE((i + 2)) WRITE((i + 3)) WRITE((i + 4)) WRITE((i + 5)) WRITE((i + 6)) WRITE((i + 7))

// Rows start .. end of the tile.
void write_values(uint start, uint end) {
    normalise();
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        Sums factor;
        coopMatLoad(factor, row_factor, first_query + t * M, 0, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < factor.length(); i++) {
            [[unroll]] for (uint c = 0; c < COLUMN_TILES; c++) value[t * COLUMN_TILES + c][i] *= factor[i];
        }
    }
    WRITE_8(0)
    WRITE_8(8)
    WRITE_8(16)
    WRITE_8(24)
}

// Rows start .. end of the tile, which belong to one sequence. Together they see the positions low to high, each of them those
// from all_from to all_to.
void attend(uint start, uint end, uint sequence, uint low, uint high, uint all_from, uint all_to) {
    barrier();
    find_queries(start, end);
    for (uint m = self; m < QUERIES; m += THREADS) row_reference[m] = NOTHING;
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        total[t] = Sums(0.0);
        reference[t] = Sums(NOTHING);
    }
    [[unroll]] for (uint i = 0; i < ROW_TILES * COLUMN_TILES; i++) value[i] = Sums(0.0);
    uint base = low / KEYS * KEYS, half_ = 0;
    find_cache_rows(half_, base, sequence, low, high);
    barrier();
    load_keys(half_, 0);
    for (; base <= high; base += KEYS) {
        bool more = base + KEYS <= high;
        if (more) find_cache_rows(half_ ^ 1, base + KEYS, sequence, low, high);
        add_keys(half_, base, base < all_from || base + KEYS - 1 > all_to, more);
        half_ ^= 1;
    }
    write_values(start, end);
}

#include "matrix_runs.glsl"

void main() {
    begin_tile();
    group_scratch = row_group * SCRATCH;
    own_scratch = group_scratch + column_group * TILES;
    for (uint i = self; i < M * N; i += THREADS) place[i] = float(i);
    load_queries();
    attend_runs();
}
