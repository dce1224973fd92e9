#version 460
// Softmax attention of a tile of rows: a workgroup takes QUERIES (row, query head) pairs of a KV head and walks over the keys that any
// of its rows sees, KEYS at a time, so that keys and values are loaded once a tile. Its arithmetic is that of attention.glsl.
//
// Keys (as many elements as STAGE_LANES lanes of the dot product take) and values (VALUE_KEYS keys) lie in shared memory as f32, the
// next ones in registers. Every invocation computes a rectangle of scores, then one of values. Rows of several sequences are
// computed sequence by sequence.
// variants: KV=f16|f32|q8_0
#include "types.glsl"
#include "kv.glsl"
#include "attention.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 128;
layout(constant_id = 1) const uint KEY_SIZE = 128;
layout(constant_id = 2) const uint VALUE_SIZE = 128;
// Query heads of a KV head that the tile has of each row.
layout(constant_id = 3) const uint HEADS = 4;
layout(constant_id = 4) const uint KEY_BLOCK = 32;
layout(constant_id = 5) const uint QUERIES = 64;
// Key blocks at a time; divides SPAN.
layout(constant_id = 6) const uint BLOCKS = 2;
// Invocations side by side over the keys, and over the columns of the values.
layout(constant_id = 7) const uint KEY_THREADS = 16;
layout(constant_id = 8) const uint COLUMN_THREADS = 16;
layout(constant_id = 9) const uint STAGE_LANES = 2;
layout(constant_id = 10) const uint VALUE_KEYS = 16;
// The tile's queries stay in shared memory; else they are brought there with each stage of keys.
layout(constant_id = 11) const bool RESIDENT = false;
// Queries and output begin at multiples of 16 bytes.
layout(constant_id = 12) const bool ALIGNED = true;

layout(push_constant, scalar) uniform Push {
    F32In q;
    uvec2 k_cache;
    uvec2 v_cache;
    RowsIn rows;
    U32In pages;
    F32In sinks;
    F32 out_;
    uint q_stride;
    uint out_stride;
    uint row_count;
    uint kv_heads;
    uint group;      // query heads a KV head
    uint max_pages;
    uint window;     // 0: none
    float scale;
    float softcap;   // 0: none
    uint has_sinks;
} p;

const uint KEYS = BLOCKS * KEY_BLOCK;
const uint ROWS = QUERIES / HEADS;
const uint KEY_CHUNKS = KEY_SIZE / 8;
const uint VALUE_CHUNKS = VALUE_SIZE / 8;
const uint COLUMNS = VALUE_SIZE / 4;

// Chunks of 8 elements of a lane of the dot product, and lanes that have any.
const uint LANE_CHUNKS = (KEY_CHUNKS + LANES - 1) / LANES;
const uint USED_LANES = KEY_CHUNKS < LANES ? KEY_CHUNKS : LANES;
const uint STAGE_CHUNKS = STAGE_LANES * LANE_CHUNKS;

// Scores of an invocation: queries score_row + SCORE_ROWS · i, keys KEYS_EACH · score_key + j.
const uint SCORE_ROWS = THREADS / KEY_THREADS;
const uint QUERIES_EACH = QUERIES / SCORE_ROWS;
const uint KEYS_EACH = KEYS / KEY_THREADS;
const uint SCORES_EACH = QUERIES_EACH * KEYS_EACH;
// Values of an invocation: queries value_row + VALUE_ROWS · i, columns of four value_column + COLUMN_THREADS · c.
const uint VALUE_ROWS = THREADS / COLUMN_THREADS;
const uint ROWS_EACH = QUERIES / VALUE_ROWS;
const uint COLUMNS_EACH = (COLUMNS + COLUMN_THREADS - 1) / COLUMN_THREADS;
const uint VALUES_EACH = ROWS_EACH * COLUMNS_EACH;

// Strides in vec4; odd, so that rows spread over the banks of shared memory.
const uint STAGE_STRIDE = 2 * STAGE_CHUNKS + 1;
const uint QUERY_LANES = RESIDENT ? (USED_LANES + STAGE_LANES - 1) / STAGE_LANES * STAGE_LANES : STAGE_LANES;
const uint QUERY_STRIDE = 2 * QUERY_LANES * LANE_CHUNKS + 1;
const uint VALUE_STRIDE = COLUMN_THREADS * COLUMNS_EACH;
const uint SCORE_STRIDE = KEYS / 4 + 1;

const uint KEY_STAGE = KEYS * STAGE_STRIDE;
const uint VALUE_STAGE = VALUE_KEYS * VALUE_STRIDE;

const uint KEY_ITEMS = KEYS * STAGE_CHUNKS;
const uint KEY_LOADS = (KEY_ITEMS + THREADS - 1) / THREADS;
const uint VALUE_ITEMS = VALUE_KEYS * VALUE_CHUNKS;
const uint VALUE_LOADS = (VALUE_ITEMS + THREADS - 1) / THREADS;

shared vec4 query[QUERIES * QUERY_STRIDE];
shared vec4 stage[KEY_STAGE > VALUE_STAGE ? KEY_STAGE : VALUE_STAGE];
shared vec4 score[QUERIES * SCORE_STRIDE];
shared float block_exponent[QUERIES * BLOCKS];
shared float block_sum[QUERIES * BLOCKS];
// Of the spans that are done: their values lie in the output.
shared float done_exponent[QUERIES];
shared float done_sum[QUERIES];
// Rows of the cache, of the present keys and of the next.
shared uint cache_row[2 * KEYS];
// Visible positions of each row; none where first > last.
shared uint row_first[ROWS];
shared uint row_last[ROWS];

#define self gl_LocalInvocationIndex
uint tile_row, kv_head, first_head, heads;

// Of the present span, times 2^-largest.
vec4 span_value[VALUES_EACH];
float span_sum[ROWS_EACH];
float largest[ROWS_EACH];

// Chunks on their way to shared memory.
KvChunk key_bits[KEY_LOADS];
KvChunk value_bits[VALUE_LOADS];

void find_cache_rows(uint half_, uint base, uint sequence, uint low, uint high) {
    for (uint i = self; i < KEYS; i += THREADS) {
        uint position = clamp(base + i, low, high);
        cache_row[half_ * KEYS + i] = kv_row(p.pages, sequence, p.max_pages, position, p.kv_heads, kv_head);
    }
}

// The chunk of a head that place t of a stage holds.
uint stage_chunk(uint first_lane, uint t) {
    return first_lane + t / LANE_CHUNKS + LANES * (t % LANE_CHUNKS);
}

// Where a stage's part of a query begins in `query`.
uint query_stage(uint first_lane) {
    return RESIDENT ? 2 * first_lane * LANE_CHUNKS : 0;
}

void load_keys(uint half_, uint first_lane) {
    [[unroll]] for (uint j = 0; j < KEY_LOADS; j++) {
        uint i = min(self + j * THREADS, KEY_ITEMS - 1), t = i % STAGE_CHUNKS;
        uint chunk = stage_chunk(first_lane, t);
        KvRow key = kv_address(p.k_cache, cache_row[half_ * KEYS + i / STAGE_CHUNKS], KEY_SIZE);
        key_bits[j] = kv_load(key, min(chunk, KEY_CHUNKS - 1));
    }
}

// Chunks beyond the head are 0.
void store_keys(uint first_lane) {
    [[unroll]] for (uint j = 0; j < KEY_LOADS; j++) {
        uint i = self + j * THREADS, t = i % STAGE_CHUNKS, key = i / STAGE_CHUNKS;
        if (i >= KEY_ITEMS) break;
        bool used = stage_chunk(first_lane, t) < KEY_CHUNKS;
        vec4 low, high;
        kv_decode(key_bits[j], low, high);
        uint at = (key % KEYS_EACH * KEY_THREADS + key / KEYS_EACH) * STAGE_STRIDE + 2 * t;
        stage[at] = used ? low : vec4(0.0);
        stage[at + 1] = used ? high : vec4(0.0);
    }
}

void load_values(uint half_, uint first_key) {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = min(self + j * THREADS, VALUE_ITEMS - 1);
        uint row = cache_row[half_ * KEYS + first_key + i / VALUE_CHUNKS];
        value_bits[j] = kv_load(kv_address(p.v_cache, row, VALUE_SIZE), i % VALUE_CHUNKS);
    }
}

void store_values() {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = self + j * THREADS, at = i / VALUE_CHUNKS * VALUE_STRIDE + 2 * (i % VALUE_CHUNKS);
        if (i < VALUE_ITEMS) kv_decode(value_bits[j], stage[at], stage[at + 1]);
    }
}

void store_queries(uint first_lane) {
    for (uint i = self; i < QUERIES * STAGE_CHUNKS; i += THREADS) {
        uint m = i / STAGE_CHUNKS, t = i % STAGE_CHUNKS, row = tile_row + m / HEADS, h = m % HEADS;
        uint chunk = stage_chunk(first_lane, t);
        vec4 low = vec4(0.0), high = vec4(0.0);
        if (m < ROWS * HEADS && row < p.row_count && h < heads && chunk < KEY_CHUNKS) {
            uint from = row * p.q_stride + (first_head + h) * KEY_SIZE + 8 * chunk;
            if (ALIGNED) {
                low = Vec4In(p.q).v[from / 4];
                high = Vec4In(p.q).v[from / 4 + 1];
            } else {
                low = vec4(p.q.v[from], p.q.v[from + 1], p.q.v[from + 2], p.q.v[from + 3]);
                high = vec4(p.q.v[from + 4], p.q.v[from + 5], p.q.v[from + 6], p.q.v[from + 7]);
            }
        }
        uint at = m * QUERY_STRIDE + query_stage(first_lane) + 2 * t;
        query[at] = low;
        query[at + 1] = high;
    }
}

// The partial sums of the stage's lanes, in order.
void add_lanes(uint first_lane, inout float dot[SCORES_EACH]) {
    uint score_row = self / KEY_THREADS, score_key = self % KEY_THREADS;
    uint from = score_row * QUERY_STRIDE + query_stage(first_lane);
    for (uint lane = 0; lane < STAGE_LANES; lane++) {
        float sum[SCORES_EACH];
        [[unroll]] for (uint i = 0; i < SCORES_EACH; i++) sum[i] = 0.0;
        for (uint c = lane * LANE_CHUNKS * 2; c < (lane + 1) * LANE_CHUNKS * 2; c++) {
            vec4 k[KEYS_EACH];
            [[unroll]] for (uint j = 0; j < KEYS_EACH; j++) k[j] = stage[(j * KEY_THREADS + score_key) * STAGE_STRIDE + c];
            [[unroll]] for (uint i = 0; i < QUERIES_EACH; i++) {
                vec4 q = query[from + i * SCORE_ROWS * QUERY_STRIDE + c];
                [[unroll]] for (uint j = 0; j < KEYS_EACH; j++) sum[i * KEYS_EACH + j] = dot4(q, k[j], sum[i * KEYS_EACH + j]);
            }
        }
        [[unroll]] for (uint i = 0; i < SCORES_EACH; i++) dot[i] += sum[i];
    }
}

void write_scores(uint base, float dot[SCORES_EACH]) {
    uint score_row = self / KEY_THREADS, score_key = self % KEY_THREADS;
    uint position = base + score_key * KEYS_EACH;
    [[unroll]] for (uint i = 0; i < QUERIES_EACH; i++) {
        uint m = score_row + i * SCORE_ROWS, r = min(m / HEADS, ROWS - 1);
        uint first = row_first[r], last = row_last[r];
        [[unroll]] for (uint j = 0; j < KEYS_EACH; j += 4) {
            vec4 s;
            [[unroll]] for (uint n = 0; n < 4; n++) {
                bool visible = position + j + n >= first && position + j + n <= last;
                s[n] = visible ? finish_score(dot[i * KEYS_EACH + j + n], p.scale, p.softcap) : HIDDEN;
            }
            score[m * SCORE_STRIDE + (score_key * KEYS_EACH + j) / 4] = s;
        }
    }
}

// Scores become weights; an invocation takes a block of a query.
void compute_weights() {
    for (uint item = self; item < QUERIES * BLOCKS; item += THREADS) {
        uint at = item % QUERIES * SCORE_STRIDE + item / QUERIES * (KEY_BLOCK / 4);
        vec4 maximum = vec4(HIDDEN);
        for (uint i = 0; i < KEY_BLOCK / 4; i++) maximum = max(maximum, score[at + i]);
        float r = exponent(max(max(maximum.x, maximum.y), max(maximum.z, maximum.w)));
        vec4 sum = vec4(0.0);
        for (uint i = 0; i < KEY_BLOCK / 4; i++) {
            vec4 s = score[at + i], w;
            [[unroll]] for (uint n = 0; n < 4; n++) w[n] = s[n] == HIDDEN ? 0.0 : weight_of(s[n], r);
            score[at + i] = w;
            sum += w;
        }
        block_exponent[item] = r;
        block_sum[item] = (sum.x + sum.y) + (sum.z + sum.w);
    }
}

void add_values(uint first_key, inout vec4 value[VALUES_EACH]) {
    uint value_row = self / COLUMN_THREADS, value_column = self % COLUMN_THREADS;
    for (uint key = 0; key < VALUE_KEYS; key += 4) {
        vec4 w[ROWS_EACH];
        [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) {
            w[i] = score[(value_row + i * VALUE_ROWS) * SCORE_STRIDE + (first_key + key) / 4];
        }
        [[unroll]] for (uint n = 0; n < 4; n++) {
            [[unroll]] for (uint c = 0; c < COLUMNS_EACH; c++) {
                vec4 v = stage[(key + n) * VALUE_STRIDE + value_column + c * COLUMN_THREADS];
                [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) {
                    value[i * COLUMNS_EACH + c] = fma(vec4(w[i][n]), v, value[i * COLUMNS_EACH + c]);
                }
            }
        }
    }
}

void join_block(uint block, vec4 value[VALUES_EACH]) {
    [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) {
        uint item = block * QUERIES + self / COLUMN_THREADS + i * VALUE_ROWS;
        float own = block_exponent[item], greater = max(largest[i], own);
        float old_scale = power_of_two(largest[i] - greater), scale = power_of_two(own - greater);
        largest[i] = greater;
        span_sum[i] = fma(scale, block_sum[item], span_sum[i] * old_scale);
        [[unroll]] for (uint c = 0; c < COLUMNS_EACH; c++) {
            uint at = i * COLUMNS_EACH + c;
            span_value[at] = fma(vec4(scale), value[at], span_value[at] * old_scale);
        }
    }
}

// The largest exponent is kept: it counts from the row's first block on.
void begin_span() {
    [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) span_sum[i] = 0.0;
    [[unroll]] for (uint i = 0; i < VALUES_EACH; i++) span_value[i] = vec4(0.0);
}

// Adds the span to those before it; the last time also divides by the sum.
void finish_span(uint start, uint end, bool first, bool last) {
    [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) {
        uint m = self / COLUMN_THREADS + i * VALUE_ROWS, r = m / HEADS, head = first_head + m % HEADS;
        bool used = r >= start && r < end && m % HEADS < heads;
        float done_scale = first ? 0.0 : power_of_two(done_exponent[m] - largest[i]), sum = span_sum[i], scale = 1.0;
        if (!first) sum = fma(done_sum[m], done_scale, sum);
        span_sum[i] = sum;
        if (last && p.has_sinks != 0 && used) {
            float sink = p.sinks.v[head], greater = max(largest[i], exponent(sink));
            scale = power_of_two(largest[i] - greater);
            sum = sum * scale + weight_of(sink, greater);
        }
        for (uint c = 0; c < COLUMNS_EACH; c++) {
            uint column = self % COLUMN_THREADS + c * COLUMN_THREADS;
            if (!used || column >= COLUMNS) break;
            uint at = (tile_row + r) * p.out_stride + head * VALUE_SIZE + 4 * column;
            vec4 value = span_value[i * COLUMNS_EACH + c];
            if (!first) {
                vec4 done = ALIGNED ? Vec4(p.out_).v[at / 4] : vec4(p.out_.v[at], p.out_.v[at + 1], p.out_.v[at + 2], p.out_.v[at + 3]);
                value = fma(done, vec4(done_scale), value);
            }
            if (last) value = normalise(value * scale, sum);
            if (ALIGNED) {
                Vec4(p.out_).v[at / 4] = value;
            } else {
                for (uint n = 0; n < 4; n++) p.out_.v[at + n] = value[n];
            }
        }
    }
    barrier();
    [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) {
        uint m = self / COLUMN_THREADS + i * VALUE_ROWS;
        if (self % COLUMN_THREADS == 0) {
            done_exponent[m] = largest[i];
            done_sum[m] = span_sum[i];
        }
    }
    begin_span();
}

// The scores of KEYS keys. Meanwhile the first values are loaded.
void score_keys(uint half_, uint base, bool first) {
    float dot[SCORES_EACH];
    [[unroll]] for (uint i = 0; i < SCORES_EACH; i++) dot[i] = 0.0;
    for (uint lane = 0; lane < USED_LANES; lane += STAGE_LANES) {
        barrier();
        store_keys(lane);
        if (first || !RESIDENT) store_queries(lane);
        barrier();
        if (lane + STAGE_LANES < USED_LANES) load_keys(half_, lane + STAGE_LANES);
        else load_values(half_, 0);
        add_lanes(lane, dot);
    }
    write_scores(base, dot);
}

// The values of KEYS keys. Meanwhile the next keys are loaded.
void value_keys(uint half_, bool more) {
    for (uint block = 0; block < BLOCKS; block++) {
        vec4 value[VALUES_EACH];
        [[unroll]] for (uint i = 0; i < VALUES_EACH; i++) value[i] = vec4(0.0);
        for (uint key = block * KEY_BLOCK; key < (block + 1) * KEY_BLOCK; key += VALUE_KEYS) {
            barrier();
            store_values();
            if (key == 0) compute_weights();
            barrier();
            if (key + VALUE_KEYS < KEYS) load_values(half_, key + VALUE_KEYS);
            else if (more) load_keys(half_ ^ 1, 0);
            add_values(key, value);
        }
        join_block(block, value);
    }
}

// Rows start .. end of the tile, which belong to one sequence; together they see the positions low to high.
void attend(uint start, uint end, uint sequence, uint low, uint high) {
    barrier();
    for (uint r = self; r < ROWS; r += THREADS) {
        bool used = r >= start && r < end;
        uint position = used ? p.rows.v[tile_row + r].position : 0;
        row_first[r] = used ? first_visible(position, p.window) : 1;
        row_last[r] = position;
    }
    [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) largest[i] = HIDDEN;
    begin_span();
    uint base = low / KEYS * KEYS, half_ = 0;
    find_cache_rows(half_, base, sequence, low, high);
    barrier();
    load_keys(half_, 0);
    bool first_keys = true, first_span = true;
    for (; base <= high; base += KEYS) {
        bool more = base + KEYS <= high;
        if (more) find_cache_rows(half_ ^ 1, base + KEYS, sequence, low, high);
        score_keys(half_, base, first_keys);
        value_keys(half_, more);
        if (!more || (base + KEYS) % (SPAN * KEY_BLOCK) == 0) {
            finish_span(start, end, first_span, !more);
            first_span = false;
        }
        first_keys = false;
        half_ ^= 1;
    }
}

void main() {
    // Late rows see the most keys: they go first.
    tile_row = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * ROWS;
    uint splits = (p.group + HEADS - 1) / HEADS;
    kv_head = gl_WorkGroupID.y / splits;
    first_head = gl_WorkGroupID.y % splits * HEADS;
    heads = min(HEADS, p.group - first_head);
    first_head += kv_head * p.group;

    uint limit = min(p.row_count - tile_row, ROWS);
    for (uint start = 0; start < limit;) {
        uint sequence = p.rows.v[tile_row + start].sequence, end = start, low = ~0u, high = 0;
        while (end < limit && p.rows.v[tile_row + end].sequence == sequence) {
            uint position = p.rows.v[tile_row + end].position;
            low = min(low, first_visible(position, p.window));
            high = max(high, position);
            end++;
        }
        attend(start, end, sequence, low, high);
        start = end;
    }
}
