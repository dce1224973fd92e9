// Attention of a row over one block of KEY_BLOCK keys, or over the blocks of a span one after the other: a workgroup takes the HEADS query heads of
// a KV head that share the loads of K and V. The last workgroup of a row and its heads joins what there is (`join.glsl`).
//
// Blocks lie at multiples of KEY_BLOCK positions, so what a workgroup computes depends on its row alone. Workgroups beyond
// the row's position, or outside its window, leave at once.
//
// Whoever includes this declares the push constants with `k_cache`, `v_cache`, `rows`, `pages`, `sinks`, `parts`, `out_`, `max_pages`,
// `window` (0: none), `scale` and `softcap` (0: none), defines OWN_KEYS (how many heads `query` has besides the workgroup's), and then
//     uint out_stride();
//     bool has_sinks();
//     vec4 openings(uint head, uint column);       // what four columns of a head's result are multiplied with
//     void prepare(uint heads);                    // the queries to `query`, and what `own_key` and `own_value` need
//     KvChunk own_key(KvChunk bits, uint key, uint chunk);     // what stands in the cache of a key of the block, or will
//     KvChunk own_value(KvChunk bits, uint key, uint chunk);

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 128;
layout(constant_id = 2) const uint KEY_SIZE = 128;
layout(constant_id = 3) const uint VALUE_SIZE = 128;
// Query heads a workgroup.
layout(constant_id = 4) const uint HEADS = 4;
// A multiple of THREADS / LANES.
layout(constant_id = 5) const uint KEY_BLOCK = 64;
// Elements of a value that are in shared memory at a time, a multiple of 8.
layout(constant_id = 6) const uint VALUE_PART = 128;
// Query heads a KV head.
layout(constant_id = 7) const uint GROUP = 4;
// Blocks that are joined at once; of more, each span first.
layout(constant_id = 8) const uint AT_ONCE = 64;
// Loads that an invocation has under way, about.
layout(constant_id = 9) const uint AHEAD = 8;
// A workgroup takes a span, whose keys and values are loaded a block ahead: where there are enough of them. VALUE_PART is VALUE_SIZE then.
layout(constant_id = 16) const bool WHOLE_SPANS = false;

const uint TEAMS = THREADS / LANES;
const uint TEAM_KEYS = KEY_BLOCK / TEAMS;
const uint KEY_CHUNKS = KEY_SIZE / 8;
const uint LANE_CHUNKS = (KEY_CHUNKS + LANES - 1) / LANES;
// Chunks of each key that a lane loads at a time; the first ones before the queries are there.
const uint KEY_AHEAD = AHEAD < TEAM_KEYS ? 1 : AHEAD / TEAM_KEYS < LANE_CHUNKS ? AHEAD / TEAM_KEYS : LANE_CHUNKS;
const uint VALUE_CHUNKS = VALUE_SIZE / 8;
const uint PART_CHUNKS = VALUE_PART / 8;
// Chunks of values that an invocation loads; the first part's before the scores are computed.
const uint VALUE_LOADS = (KEY_BLOCK * PART_CHUNKS + THREADS - 1) / THREADS;
// Groups of four columns of the values in shared memory that are an invocation's.
const uint ITEMS = (HEADS * (VALUE_PART / 4) + THREADS - 1) / THREADS;
// The padding spreads the lanes over the banks of shared memory.
const uint PARTIALS = HEADS * KEY_BLOCK + 4;
// Workgroups that share a KV head's query heads.
const uint SPLITS = (GROUP + HEADS - 1) / HEADS;

shared vec4 query[(HEADS + OWN_KEYS) * KEY_SIZE / 4];
shared float partial[LANES * PARTIALS];
shared vec4 weight[HEADS * KEY_BLOCK / 4];
shared float head_exponent[HEADS];
shared KvQuad values[KEY_BLOCK * VALUE_PART / 4];

// The workgroup's row and heads.
uint row, kv_heads, kv_head, first_head;
RowInfo info;
// Behind its last block.
uint end_block;
// The first position that the row sees.
uint visible;
// A block's first position, and its first and last visible key, counted from there.
uint base, first_key, last_key;

uint out_stride();
bool has_sinks();
vec4 openings(uint head, uint column);
void prepare(uint heads);
KvChunk own_key(KvChunk bits, uint key, uint chunk);
KvChunk own_value(KvChunk bits, uint key, uint chunk);

#include "join.glsl"

// Where a key of the block lies. Hidden ones read a visible one's place: their own pages may not exist.
uint cache_row(uint key) {
    uint position = base + clamp(key, first_key, last_key);
    return kv_row(p.pages, info.sequence, p.max_pages, position, kv_heads, kv_head);
}

// The invocation's keys and what it holds of them.
KvRow key_at[TEAM_KEYS];
KvChunk key_bits[TEAM_KEYS * KEY_AHEAD];
float dots[TEAM_KEYS * HEADS];

uint team() { return gl_LocalInvocationIndex / LANES; }
uint team_lane() { return gl_LocalInvocationIndex % LANES; }

void load_keys(uint step_) {
    [[unroll]] for (uint s = 0; s < KEY_AHEAD; s++) {
        uint chunk = min(team_lane() + LANES * (step_ + s), KEY_CHUNKS - 1);
        [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) key_bits[s * TEAM_KEYS + j] = kv_load(key_at[j], chunk);
    }
}

void add_dots(uint step_) {
    [[unroll]] for (uint s = 0; s < KEY_AHEAD; s++) {
        uint chunk = team_lane() + LANES * (step_ + s);
        if (chunk >= KEY_CHUNKS) break;
        vec4 k0[TEAM_KEYS], k1[TEAM_KEYS];
        [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) {
            kv_decode(own_key(key_bits[s * TEAM_KEYS + j], team() + TEAMS * j, chunk), k0[j], k1[j]);
        }
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            vec4 q0 = query[h * KEY_SIZE / 4 + 2 * chunk], q1 = query[h * KEY_SIZE / 4 + 2 * chunk + 1];
            [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) {
                dots[j * HEADS + h] = dot8(q0, q1, k0[j], k1[j], dots[j * HEADS + h]);
            }
        }
    }
}

// partial[lane][head][key] of the block.
void store_partials() {
    [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            partial[team_lane() * PARTIALS + h * KEY_BLOCK + team() + TEAMS * j] = dots[j * HEADS + h];
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
            weight[(h * KEY_BLOCK + i) / 4][i % 4] = s;
            maximum = max(maximum, s);
        }
        float r = exponent(subgroupMax(maximum));
        for (uint i = gl_SubgroupInvocationID; i < KEY_BLOCK; i += gl_SubgroupSize) {
            float s = weight[(h * KEY_BLOCK + i) / 4][i % 4];
            weight[(h * KEY_BLOCK + i) / 4][i % 4] = s == HIDDEN ? 0.0 : weight_of(s, r);
        }
        if (subgroupElect()) head_exponent[h] = r;
    }
}

// The chunks of a part that this invocation brings to shared memory.
KvChunk value_bits[VALUE_LOADS];

void load_values(uint first_chunk) {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = gl_LocalInvocationIndex + j * THREADS;
        uint key = min(i / PART_CHUNKS, KEY_BLOCK - 1), chunk = min(first_chunk + i % PART_CHUNKS, VALUE_CHUNKS - 1);
        value_bits[j] = kv_load(kv_address(p.v_cache, cache_row(key), VALUE_SIZE), chunk);
    }
}

void store_values(uint first_chunk) {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = gl_LocalInvocationIndex + j * THREADS;
        if (i < KEY_BLOCK * PART_CHUNKS) {
            KvChunk bits = own_value(value_bits[j], i / PART_CHUNKS, min(first_chunk + i % PART_CHUNKS, VALUE_CHUNKS - 1));
            values[2 * i] = kv_low(bits);
            values[2 * i + 1] = kv_high(bits);
        }
    }
}

// With WHOLE_SPANS the sums of the blocks so far.
Sums span_sums[ITEMS];

// Adds up the part that is in shared memory, whose first column is 4 · `first_column`: to the span's sums, or to the block's part of each head.
void compute_values(uint heads, uint first_column) {
    [[unroll]] for (uint n = 0; n < ITEMS; n++) {
        uint i = gl_LocalInvocationIndex + n * THREADS;
        uint h = i / (VALUE_PART / 4), own = i % (VALUE_PART / 4), column = first_column + own;
        if (h >= heads || column >= COLUMNS) continue;
        vec4 value = vec4(0.0), sum = vec4(0.0);
        for (uint key = 0; key < KEY_BLOCK; key += 8) {
            vec4 w0 = weight[(h * KEY_BLOCK + key) / 4], w1 = weight[(h * KEY_BLOCK + key) / 4 + 1];
            [[unroll]] for (uint j = 0; j < 8; j++) {
                vec4 v = kv_decode_quad(values[(key + j) * (VALUE_PART / 4) + own]);
                value = fma(vec4(j < 4 ? w0[j % 4] : w1[j % 4]), v, value);
            }
            sum += w0;
            sum += w1;
        }
        Sums part = Sums(value, (sum.x + sum.y) + (sum.z + sum.w), head_exponent[h]);
        if (WHOLE_SPANS) span_sums[n] = add(span_sums[n], part);
        else store_part(h, gl_WorkGroupID.x, column, part);
    }
}

// The span's sums to its part of each head, or to the result if there is no other span.
void store_span(uint heads) {
    [[unroll]] for (uint n = 0; n < ITEMS; n++) {
        uint i = gl_LocalInvocationIndex + n * THREADS, h = i / COLUMNS, column = i % COLUMNS;
        if (h >= heads) continue;
        if (gl_NumWorkGroups.x == 1) write_result(h, column, span_sums[n], openings(first_head + h, column));
        else store_part(h, gl_WorkGroupID.x, column, span_sums[n]);
    }
}

// Goes on to a block, and asks for its keys and values.
void take_block(uint block) {
    base = block * KEY_BLOCK;
    first_key = max(visible, base) - base;
    last_key = min(info.position - base, KEY_BLOCK - 1);
    [[unroll]] for (uint j = 0; j < TEAM_KEYS; j++) {
        key_at[j] = kv_address(p.k_cache, cache_row(team() + TEAMS * j), KEY_SIZE);
    }
    load_keys(0);
    load_values(0);
}

// The weights of the block whose keys and first values are on the way, and with `more` the next one's loads; its values go to shared memory.
void weigh_block(uint block, uint heads, bool more) {
    [[unroll]] for (uint i = 0; i < TEAM_KEYS * HEADS; i++) dots[i] = 0.0;
    barrier();
    for (uint s = 0; s < LANE_CHUNKS; s += KEY_AHEAD) {
        if (s > 0) load_keys(s);
        add_dots(s);
    }
    store_partials();
    store_values(0);
    if (PART_CHUNKS < VALUE_CHUNKS) load_values(PART_CHUNKS);
    uint first = first_key, last = last_key;
    if (more) take_block(block + 1);
    barrier();
    compute_weights(heads, first, last);
    barrier();
}

void main() {
    row = gl_WorkGroupID.z;
    info = p.rows.v[row];
    visible = first_visible(info.position, p.window);
    uint row_block = visible / KEY_BLOCK, row_end = info.position / KEY_BLOCK + 1;
    uint span = row_block / SPAN + gl_WorkGroupID.x, block = row_block + gl_WorkGroupID.x;
    end_block = block + 1;
    if (WHOLE_SPANS) {
        block = max(span * SPAN, row_block);
        end_block = min((span + 1) * SPAN, row_end);
    }
    if (block >= row_end) return;
    kv_heads = gl_NumWorkGroups.y / SPLITS;
    kv_head = gl_WorkGroupID.y / SPLITS;
    first_head = gl_WorkGroupID.y % SPLITS * HEADS;
    uint heads = min(HEADS, GROUP - first_head);
    first_head += kv_head * GROUP;

    take_block(block);
    prepare(heads);
    if (WHOLE_SPANS) {
        [[unroll]] for (uint n = 0; n < ITEMS; n++) span_sums[n] = NO_SUMS;
        for (; block < end_block; block++) {
            weigh_block(block, heads, block + 1 < end_block);
            compute_values(heads, 0);
        }
        store_span(heads);
        if (gl_NumWorkGroups.x > 1) join_spans(heads, (row_end + SPAN - 1) / SPAN - row_block / SPAN);
    } else {
        weigh_block(block, heads, false);
        compute_values(heads, 0);
        for (uint chunk = PART_CHUNKS; chunk < VALUE_CHUNKS; chunk += PART_CHUNKS) {
            barrier();
            store_values(chunk);
            if (chunk + PART_CHUNKS < VALUE_CHUNKS) load_values(chunk + PART_CHUNKS);
            barrier();
            compute_values(heads, 2 * chunk);
        }
        join_blocks(heads, row_block, row_end, block);
    }
}
