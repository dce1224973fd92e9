#version 460
// Rotates heads by their row's position. An invocation turns a pair of dimensions or copies two.
#include "types.glsl"
#include "grid.glsl"
#include "rope.glsl"

layout(push_constant, scalar) uniform Push {
    F32In x;
    RopeTable table;
    RowsIn rows;
    F32 out_;
    uint n_rows;
    uint heads;
    uint head_size;
    uint rotated_pairs;
    uint pairing;
    uint x_stride;
    uint out_stride;
} p;

void main() {
    uint slots = p.head_size / 2;
    uint id = invocation_number();
    uint slot = id % slots, head = id / slots % p.heads, row = id / slots / p.heads;
    if (row >= p.n_rows) return;
    uvec2 dims = rope_dims(slot, p.rotated_pairs, p.pairing);
    uint x = row * p.x_stride + head * p.head_size;
    vec2 v = vec2(p.x.v[x + dims.x], p.x.v[x + dims.y]);
    v = rope_turn(v, p.table, p.rows.v[row].position, slot, p.rotated_pairs);
    uint o = row * p.out_stride + head * p.head_size;
    p.out_.v[o + dims.x] = v.x;
    p.out_.v[o + dims.y] = v.y;
}
