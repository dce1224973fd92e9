#version 460
// What becomes of a row, stage by stage, with the row in registers: the stages are specialisation constants, with the numbers of their first
// operands. A subgroup or a workgroup works on a row, its lanes taking the columns that they take in norm.comp, so sums have the same order.
//
// Operands can be asked for before the first stage: of a few rows each would wait for memory in turn, behind the reductions before it.
// variants: TEAM=subgroup|workgroup
#include "types.glsl"
#include "chunk.glsl"
#include "workgroup.glsl"
#include "gate.glsl"
#include "packed_row.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint CHUNKS = 1; // of four columns, a lane
layout(constant_id = 3) const uint STAGE_0 = 0;
layout(constant_id = 4) const uint STAGE_1 = 0;
layout(constant_id = 5) const uint STAGE_2 = 0;
layout(constant_id = 6) const uint STAGE_3 = 0;
layout(constant_id = 7) const uint STAGE_4 = 0;
layout(constant_id = 8) const uint STAGE_5 = 0;
layout(constant_id = 9) const uint STAGE_6 = 0;
layout(constant_id = 10) const uint STAGE_7 = 0;
layout(constant_id = 11) const uint STAGE_8 = 0;
layout(constant_id = 12) const uint STAGE_9 = 0;
layout(constant_id = 13) const uint STAGE_10 = 0;
layout(constant_id = 14) const uint STAGE_11 = 0;
// Gates are GATE_LEN columns from GATE_FIRST on of each GATE_STRIDE columns.
layout(constant_id = 15) const uint GATE_LEN = 1;
layout(constant_id = 16) const uint GATE_STRIDE = 1;
layout(constant_id = 17) const uint GATE_FIRST = 0;
layout(constant_id = 18) const uint AHEAD = 1; // slots of experts whose rows are loaded before the first is added
layout(constant_id = 19) const uint GATE_ROW = 1; // columns from a row of gates to the next
// A bit an operand:
layout(constant_id = 20) const uint OF_ROWS = 0; // it has a row for each row; else it is a vector
layout(constant_id = 21) const uint WIDE_AHEAD = 0; // it is as wide as the row, and loaded before the first stage
layout(constant_id = 22) const uint SINGLES = 0; // one element a row is read, before the first stage

// `Stage::code`.
const uint LOAD = 1, EXPERTS = 2, EXPERTS_SCALED = 3, ADD = 4, ADD_GATED = 5, ADD_NORMED = 6, NORM = 7, SCALE = 8, SCALE_BY = 9, STORE = 10,
           STORE_NORMED = 11, STORE_NORMED_SCALED = 12, PACK = 13, DOT = 14, GATE = 15;

layout(push_constant, scalar) uniform Push {
    uvec2 at[13];
    uint n_rows;
    uint width;
    uint top_k;
    uint pitch; // elements of a packed row
    float eps;
    float scale;
} p;

vec4 row[CHUNKS];
vec4 other[CHUNKS]; // what is added, and what was stored last
vec4 ahead[13 * CHUNKS];
float single[13];
uint lane, lanes, number;

// A product is not contracted with the sum that it goes into: operations apart cannot do so either.
void add(uint i, vec4 v) {
    precise vec4 sum = row[i] + v;
    row[i] = sum;
}

// A lane's columns number `i` from element `first` on, 0 beyond the end of the row. Without a branch, so that loads are asked for one behind the other.
vec4 columns_from(uvec2 from, uint first, uint i) {
    uint c = lane + i * lanes;
    vec4 v = vec4(0.0);
    if (ALIGNED) v = Vec4In(from).v[first / 4 + min(c, p.width / 4 - 1)];
    else if (4 * c < p.width) v = load4(F32In(from), first + 4 * c, p.width - 4 * c);
    return 4 * c < p.width ? v : vec4(0.0);
}

bool is(uint set, uint operand) {
    return (set >> operand & 1) != 0;
}

// Of operand number `o`, a matrix without gaps or a vector.
vec4 columns(uint o, uint i) {
    if (is(WIDE_AHEAD, o)) return ahead[o * CHUNKS + i];
    return columns_from(p.at[o], is(OF_ROWS, o) ? number * p.width : 0, i);
}

void fetch(uint o) {
    if (is(SINGLES, o)) single[o] = F32In(p.at[o]).v[is(OF_ROWS, o) ? number : 0];
    if (!is(WIDE_AHEAD, o)) return;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        ahead[o * CHUNKS + i] = columns_from(p.at[o], is(OF_ROWS, o) ? number * p.width : 0, i);
    }
}

void store(uint o, uint i, vec4 v) {
    uint c = lane + i * lanes;
    if (4 * c < p.width) store4(F32(p.at[o]), number * p.width + 4 * c, p.width - 4 * c, v);
}

float team_sum(float v) {
#ifdef TEAM_SUBGROUP
    return subgroupAdd(v);
#else
    return workgroup_sum(v);
#endif
}

float team_max(float v) {
#ifdef TEAM_SUBGROUP
    return subgroupMax(v);
#else
    return workgroup_max(v);
#endif
}

float norm_factor(float squares) {
    return 1.0 / sqrt(team_sum(squares) / float(p.width) + p.eps);
}

float row_factor() {
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) squares = square_sum(row[i], squares);
    return norm_factor(squares);
}

void experts(uint o, bool scaled) {
    uvec2 x = p.at[o], choice = p.at[o + 1];
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) row[i] = vec4(0.0);
    for (uint first = 0; first < p.top_k; first += AHEAD) {
        float factor[AHEAD];
        vec4 part[AHEAD * CHUNKS];
        [[unroll]] for (uint a = 0; a < AHEAD; a++) {
            uint slot = min(first + a, p.top_k - 1), at = 2 * number * p.top_k + slot;
            factor[a] = F32In(choice).v[at + p.top_k];
            if (scaled) factor[a] *= F32In(p.at[o + 2]).v[uint(F32In(choice).v[at])];
            [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
                part[a * CHUNKS + i] = columns_from(x, (number * p.top_k + slot) * p.width, i);
            }
        }
        [[unroll]] for (uint a = 0; a < AHEAD; a++) {
            if (first + a >= p.top_k) continue;
            [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
                row[i] = fma(vec4(factor[a]), part[a * CHUNKS + i], row[i]);
            }
        }
    }
}

void add_normed(uint o) {
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        other[i] = columns(o, i);
        squares = square_sum(other[i], squares);
    }
    float factor = norm_factor(squares);
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) add(i, other[i] * factor * columns(o + 1, i));
}

void store_normed(uint o, bool scaled) {
    float factor = row_factor();
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        other[i] = row[i] * factor * columns(o, i);
        if (scaled) other[i] *= p.scale;
        store(o + 1, i, other[i]);
    }
}

void pack(uint o) {
    uvec2 to = p.at[o];
    float greatest = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) greatest = max(greatest, largest_magnitude(other[i]));
    uint exponent = packed_exponent(team_max(greatest));
    float scale = packed_scale(exponent);
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint c = lane + i * lanes;
        if (4 * c < p.pitch) store_packed(Halves(to), number * (p.pitch / 2), c, scale * other[i]);
    }
    if (lane == 0) F32(address_at(to, p.n_rows, 2 * p.pitch)).v[number] = packed_inverse(exponent);
}

void dot_stored(uint o) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        vec4 w = columns(o, i);
        [[unroll]] for (uint e = 0; e < 4; e++) sum = fma(w[e], other[i][e], sum);
    }
    sum = team_sum(sum);
    if (lane == 0) F32(p.at[o + 1]).v[number] = sum;
}

void gate(uint o) {
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint c = 4 * (lane + i * lanes), at = c / GATE_LEN * GATE_STRIDE + GATE_FIRST + c % GATE_LEN;
        if (c < p.width) {
            row[i] *= sigmoid(load4(F32In(p.at[o]), number * GATE_ROW + at, p.width - c));
        }
    }
}

// Of `Stage::code`, and the number of its first operand.
void stage(uint code_and_operand) {
    uint code = code_and_operand & 15, o = code_and_operand >> 4;
    if (code == EXPERTS || code == EXPERTS_SCALED) experts(o, code == EXPERTS_SCALED);
    if (code == ADD_NORMED) add_normed(o);
    if (code == STORE_NORMED || code == STORE_NORMED_SCALED) store_normed(o, code == STORE_NORMED_SCALED);
    if (code == PACK) pack(o);
    if (code == DOT) dot_stored(o);
    if (code == GATE) gate(o);
    if (code == LOAD || code == ADD) {
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            if (code == LOAD) row[i] = columns(o, i);
            else add(i, columns(o, i));
        }
    }
    if (code == ADD_GATED) {
        vec4 open = sigmoid(vec4(single[o + 1]));
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) add(i, columns(o, i) * open);
    }
    if (code == NORM) {
        float factor = row_factor();
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) row[i] = row[i] * factor * columns(o, i);
    }
    if (code == SCALE || code == SCALE_BY) {
        float factor = p.scale;
        if (code == SCALE_BY) factor = single[o];
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) row[i] *= factor;
    }
    if (code == STORE) {
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            store(o, i, row[i]);
            other[i] = row[i];
        }
    }
}

void main() {
#ifdef TEAM_SUBGROUP
    number = folded_group() * gl_NumSubgroups + gl_SubgroupID;
    lane = gl_SubgroupInvocationID;
    lanes = gl_SubgroupSize;
#else
    number = folded_group();
    lane = gl_LocalInvocationIndex;
    lanes = gl_WorkGroupSize.x;
#endif
    if (number >= p.n_rows) return;
    fetch(0);
    fetch(1);
    fetch(2);
    fetch(3);
    fetch(4);
    fetch(5);
    fetch(6);
    fetch(7);
    fetch(8);
    fetch(9);
    fetch(10);
    fetch(11);
    fetch(12);
    stage(STAGE_0);
    stage(STAGE_1);
    stage(STAGE_2);
    stage(STAGE_3);
    stage(STAGE_4);
    stage(STAGE_5);
    stage(STAGE_6);
    stage(STAGE_7);
    stage(STAGE_8);
    stage(STAGE_9);
    stage(STAGE_10);
    stage(STAGE_11);
}
