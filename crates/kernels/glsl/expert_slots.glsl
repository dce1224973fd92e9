// Columns of a workgroup: those of a batch, or with EXPERTS slots of rows. A slot is a row's input, or its part for the slot, times the matrix of
// the expert in the slot; the columns of a workgroup have one expert, and z counts their groups. A column's bits do not depend on how columns are
// grouped.
//
// For kernels with the constants EXPERTS (0: none; 1: a workgroup for each slot of the choice; 2: for each tile that was packed from it), COLUMNS,
// SLOTS (with EXPERTS: COLUMNS), and the push constants choice (2: the lists that were packed from it), slots (of a row), columns, m, x_stride,
// x_step (from a slot's x to the next one's; 0 where they share it), expert_bytes (from an expert's matrix to the next one's), result_stride,
// choice_at (1: stride of the choice; 2: where the lists' slots begin). What begins where is counted in the strides' units.

// With EXPERTS: where each column's result and its x begin.
shared uvec2 slot_of[SLOTS];
uint expert = 0;
uint own_columns = COLUMNS;

// Finds the expert and the slots of the workgroup; false where there are none.
bool take_slots() {
    uint first = gl_WorkGroupID.z;
    if (EXPERTS == 1) {
        expert = uint(p.choice.v[first / p.slots * p.choice_at + first % p.slots]);
        own_columns = 1;
    } else {
        if (gl_WorkGroupID.z >= U32In(p.choice).v[0]) return false;
        uvec4 tile = UVec4In(p.choice).v[1 + gl_WorkGroupID.z];
        expert = tile.x;
        first = tile.y;
        own_columns = tile.z;
    }
    for (uint c = gl_LocalInvocationIndex; c < COLUMNS; c += gl_WorkGroupSize.x) {
        uint slot = EXPERTS == 1 ? first : U32In(p.choice).v[p.choice_at + first + min(c, own_columns - 1)];
        uint row = slot / p.slots, part = slot % p.slots;
        slot_of[c] = uvec2(row * p.result_stride + part * p.m, row * p.x_stride + part * p.x_step);
    }
    barrier();
    return true;
}

// Where a column of this workgroup begins, whose columns begin with `first`. Columns beyond the end stand for the last one.
uint x_start(uint first, uint column) {
    if (EXPERTS != 0) return slot_of[column].y;
    return min(first + column, p.columns - 1) * p.x_stride;
}

// The matrix of this workgroup, `matrix` being the first expert's.
uvec2 own_matrix(uvec2 matrix) {
    return EXPERTS != 0 ? address_at(matrix, expert, p.expert_bytes) : matrix;
}
