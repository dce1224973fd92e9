// Constants and operands of the products of tiles.

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 1;
layout(constant_id = 1) const uint ROWS = 16;
layout(constant_id = 2) const uint COLUMNS = 16;
layout(constant_id = 3) const uint STEP = 64;
layout(constant_id = 4) const uint SUB_ROWS = 16;
layout(constant_id = 5) const uint SUB_COLUMNS = 16;
layout(constant_id = 6) const uint BUFFERS = 1; // of the operands in shared memory, 1 or 2
layout(constant_id = 7) const uint TM = 16;
layout(constant_id = 8) const uint TN = 16;
layout(constant_id = 9) const uint TK = 16;
layout(constant_id = 10) const bool BIAS = false;
layout(constant_id = 11) const bool RESIDUAL = false;
layout(constant_id = 12) const bool GATE = false;
layout(constant_id = 13) const uint ACTIVATION = 0; // with GATE: silu, gelu_tanh, oai_swiglu
layout(constant_id = 14) const float ALPHA = 0.0; // of oai_swiglu
layout(constant_id = 15) const float LIMIT = 0.0;
layout(constant_id = 16) const uint EXPERTS = 0;
layout(constant_id = 17) const uint SLOTS = 1;
layout(constant_id = 20) const bool IN_PARTS = false;
// All subgroups of a workgroup come by the same number of barriers, a subgroup's own ones too.
layout(constant_id = 21) const bool MEET = false;
layout(constant_id = 22) const uint SOLO = 0; // lanes of a subgroup, where the subgroups of a workgroup split a tile's steps
// Columns fill their tiles: where one begins takes a register each if it depends on how many there are, a twentieth of a large tile's time.
layout(constant_id = 23) const bool WHOLE = false;
// What four matrices of results need is asked for together.
layout(constant_id = 24) const bool TOGETHER = false;

layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer Partials { vec4 v[]; };

layout(push_constant, scalar) uniform Push {
    uvec2 weight; // the gate where there is one
    uvec2 up;
    uvec2 x; // rows as `convert` packed them
    F32In scales; // by column
    F32In bias;
    F32In residual; // with GATE the bias of up
    F32In choice;
    F32 result;
    Partials partials; // by tile, part, unit and sum
    CommonU32 done; // parts of a tile that are done, by tile; 0 before and after
    uint m;
    uint k;
    uint row_bytes;
    uint x_stride; // quads of words from a row of x to the next; with EXPERTS to the next row's
    uint columns;
    uint residual_stride;
    uint result_stride;
    uint slots;
    uint x_step;
    uint expert_bytes;
    uint choice_at;
    uint x_pitch; // quads of words of a packed row
} p;
