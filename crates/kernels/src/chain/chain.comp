#version 460
// What becomes of a row, stage by stage, with the row in registers: the stages are specialisation constants, their operands the next of the
// addresses. A subgroup or a workgroup works on a row, its lanes taking the columns that they take in norm.comp, so sums have the same order.
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
uint lane, lanes, number, next = 0;

uvec2 operand() {
    return p.at[next++];
}

// A product is not contracted with the sum that it goes into: operations apart cannot do so either.
void add(uint i, vec4 v) {
    precise vec4 sum = row[i] + v;
    row[i] = sum;
}

// A lane's columns number `i` of a row of a matrix without gaps, 0 beyond the end.
vec4 columns(uvec2 from, uint first, uint i) {
    uint c = lane + i * lanes;
    return 4 * c < p.width ? load4(F32In(from), first + 4 * c, p.width - 4 * c) : vec4(0.0);
}

void store(uvec2 to, uint i, vec4 v) {
    uint c = lane + i * lanes;
    if (4 * c < p.width) store4(F32(to), number * p.width + 4 * c, p.width - 4 * c, v);
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

void experts(bool scaled) {
    uvec2 x = operand(), choice = operand(), factors = uvec2(0);
    if (scaled) factors = operand();
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) row[i] = vec4(0.0);
    for (uint first = 0; first < p.top_k; first += AHEAD) {
        float factor[AHEAD];
        vec4 part[AHEAD * CHUNKS];
        [[unroll]] for (uint a = 0; a < AHEAD; a++) {
            uint slot = min(first + a, p.top_k - 1), at = 2 * number * p.top_k + slot;
            factor[a] = F32In(choice).v[at + p.top_k];
            if (scaled) factor[a] *= F32In(factors).v[uint(F32In(choice).v[at])];
            [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
                part[a * CHUNKS + i] = columns(x, (number * p.top_k + slot) * p.width, i);
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

void add_normed() {
    uvec2 x = operand(), weight = operand();
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        other[i] = columns(x, number * p.width, i);
        squares = square_sum(other[i], squares);
    }
    float factor = norm_factor(squares);
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) add(i, other[i] * factor * columns(weight, 0, i));
}

void store_normed(bool scaled) {
    uvec2 weight = operand(), to = operand();
    float factor = row_factor();
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        other[i] = row[i] * factor * columns(weight, 0, i);
        if (scaled) other[i] *= p.scale;
        store(to, i, other[i]);
    }
}

void pack() {
    uvec2 to = operand();
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

void dot_stored() {
    uvec2 weight = operand(), to = operand();
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        vec4 w = columns(weight, 0, i);
        [[unroll]] for (uint e = 0; e < 4; e++) sum = fma(w[e], other[i][e], sum);
    }
    sum = team_sum(sum);
    if (lane == 0) F32(to).v[number] = sum;
}

void gate() {
    uvec2 from = operand();
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint c = 4 * (lane + i * lanes), at = c / GATE_LEN * GATE_STRIDE + GATE_FIRST + c % GATE_LEN;
        if (c < p.width) {
            row[i] *= sigmoid(load4(F32In(from), number * GATE_ROW + at, p.width - c));
        }
    }
}

void stage(uint code) {
    if (code == EXPERTS || code == EXPERTS_SCALED) experts(code == EXPERTS_SCALED);
    if (code == ADD_NORMED) add_normed();
    if (code == STORE_NORMED || code == STORE_NORMED_SCALED) store_normed(code == STORE_NORMED_SCALED);
    if (code == PACK) pack();
    if (code == DOT) dot_stored();
    if (code == GATE) gate();
    if (code == LOAD || code == ADD) {
        uvec2 x = operand();
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            if (code == LOAD) row[i] = columns(x, number * p.width, i);
            else add(i, columns(x, number * p.width, i));
        }
    }
    if (code == ADD_GATED) {
        uvec2 x = operand(), gate = operand();
        vec4 open = sigmoid(vec4(F32In(gate).v[number]));
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) add(i, columns(x, number * p.width, i) * open);
    }
    if (code == NORM) {
        uvec2 weight = operand();
        float factor = row_factor();
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) row[i] = row[i] * factor * columns(weight, 0, i);
    }
    if (code == SCALE || code == SCALE_BY) {
        float factor = p.scale;
        if (code == SCALE_BY) factor = F32In(operand()).v[0];
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) row[i] *= factor;
    }
    if (code == STORE) {
        uvec2 to = operand();
        [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
            store(to, i, row[i]);
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
