// Tiles of rows on matrix cores: how they are cut, and what attention_matrix.comp and attention_lanes.comp have of them alike.
#include "types.glsl"
#include "kv.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 128;
layout(constant_id = 1) const uint KEY_SIZE = 128;
layout(constant_id = 2) const uint VALUE_SIZE = 128;
// Query heads of a KV head that the tile has of each row.
layout(constant_id = 3) const uint HEADS = 4;
layout(constant_id = 4) const uint KEYS = 64;
layout(constant_id = 5) const uint ROW_GROUPS = 4;
layout(constant_id = 6) const uint COLUMN_GROUPS = 1;
layout(constant_id = 7) const uint ROW_TILES = 1;
// The device's matrices: M x K times K x N.
layout(constant_id = 8) const uint M = 16;
layout(constant_id = 9) const uint N = 16;
layout(constant_id = 10) const uint K = 16;
// Matrices along a key that a stage holds; divides the key's. Values of a stage.
layout(constant_id = 11) const uint STAGE_STEPS = 8;
layout(constant_id = 12) const uint VALUE_KEYS = 64;
// Queries and output begin at multiples of 16 bytes.
layout(constant_id = 13) const bool ALIGNED = true;

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
    float query_scale;
    float cap;       // of the scores, times log2 e; 0: none
    uint has_sinks;
} p;

// In powers of two. f16 holds weights up to 2^15, and all bits of those down to 2^-14.
const float GROWTH = 15.0;
const float HEADROOM = 7.0;
// Score of a key that a row does not see.
const float HIDDEN = -1e38;
const float LOG2_E = 1.44269504;

const uint QUERIES = ROW_GROUPS * ROW_TILES * M;
const uint ROWS = QUERIES / HEADS;
const uint KEY_CHUNKS = KEY_SIZE / 8;
const uint VALUE_CHUNKS = VALUE_SIZE / 8;

// Matrices along a key; scores of a subgroup side by side; columns of a subgroup.
const uint KEY_STEPS = (KEY_SIZE + K - 1) / K;
const uint KEY_SLICES = KEY_STEPS / STAGE_STEPS;
const uint SCORE_TILES = KEYS / (N * COLUMN_GROUPS);
const uint COLUMN_TILES = (VALUE_SIZE + N * COLUMN_GROUPS - 1) / (N * COLUMN_GROUPS);
const uint VALUES = ROW_TILES * COLUMN_TILES;

// Strides in 16 bytes; odd where it matters, so that rows spread over the banks of shared memory.
const uint STAGE_CHUNKS = STAGE_STEPS * K / 8;
const uint KEY_STRIDE = STAGE_CHUNKS + 1;
const uint COLUMN_CHUNKS = COLUMN_GROUPS * COLUMN_TILES * N / 8;
const uint VALUE_STRIDE = COLUMN_CHUNKS + 1;

const uint KEY_STAGE = KEYS * KEY_STRIDE;
const uint VALUE_STAGE = VALUE_KEYS * VALUE_STRIDE;
const uint BUFFER = KEY_STAGE > VALUE_STAGE ? KEY_STAGE : VALUE_STAGE;

// Matrices along a query that both buffers hold.
const uint QUERY_ROOM = (2 * BUFFER / QUERIES - 1) / (K / 8);
const uint QUERY_STEPS = QUERY_ROOM < KEY_STEPS ? QUERY_ROOM : KEY_STEPS;
const uint QUERY_PASSES = (KEY_STEPS + QUERY_STEPS - 1) / QUERY_STEPS;
const uint QUERY_CHUNKS = QUERY_STEPS * K / 8;
const uint QUERY_STRIDE = QUERY_CHUNKS + 1;

const uint KEY_ITEMS = KEYS * STAGE_CHUNKS;
const uint KEY_LOADS = (KEY_ITEMS + THREADS - 1) / THREADS;
const uint VALUE_ITEMS = VALUE_KEYS * COLUMN_CHUNKS;
const uint VALUE_LOADS = (VALUE_ITEMS + THREADS - 1) / THREADS;
const uint LOADS = KEY_LOADS > VALUE_LOADS ? KEY_LOADS : VALUE_LOADS;

shared uvec4 stage[2 * BUFFER];
// Visible positions of each query; none where first > last.
shared uint query_first[QUERIES];
shared uint query_last[QUERIES];

#define Left coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define Right coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

Left query[ROW_TILES * KEY_STEPS];
Sums score[ROW_TILES * SCORE_TILES];
Sums value[ROW_TILES * COLUMN_TILES];

#define self gl_LocalInvocationIndex
uint tile_row, kv_head, first_head, heads;
// The subgroup's row group, its place in it and its first query.
uint row_group, column_group, first_query;

// Chunks of the cache on their way to shared memory, where they are f16, and the buffer that they go to.
KvChunk bits[LOADS];
uint buffer_;

void begin_tile() {
    // Late rows see the most keys: they go first.
    tile_row = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * ROWS;
    uint splits = (p.group + HEADS - 1) / HEADS;
    kv_head = gl_WorkGroupID.y / splits;
    first_head = gl_WorkGroupID.y % splits * HEADS;
    heads = min(HEADS, p.group - first_head);
    first_head += kv_head * p.group;
    row_group = gl_SubgroupID / COLUMN_GROUPS;
    column_group = gl_SubgroupID % COLUMN_GROUPS;
    first_query = row_group * ROW_TILES * M;
    buffer_ = 0;
}
