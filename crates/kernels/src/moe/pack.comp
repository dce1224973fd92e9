#version 460
// Slots by expert, in order: a subgroup collects those of an expert. Every workgroup counts all slots, so none waits for another.
// The lists: (number of tiles, -, -, -), tiles (expert, first place, places, -), numbers of slots.
#include "types.glsl"
#extension GL_KHR_shader_subgroup_ballot : require

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    F32In choice;
    U32 lists;
    uint n_slots; // of all rows
    uint top_k;
    uint choice_stride;
    uint experts; // 1,024 at most
    uint columns; // slots of a tile
    uint slots_at; // where the numbers of slots begin
} p;

shared uint counts[1024];

uint expert_of(uint slot) {
    return min(uint(p.choice.v[slot / p.top_k * p.choice_stride + slot % p.top_k]), p.experts - 1);
}

uint tiles_of(uint slots) {
    return (slots + p.columns - 1) / p.columns;
}

void main() {
    for (uint i = gl_LocalInvocationIndex; i < p.experts; i += gl_WorkGroupSize.x) counts[i] = 0;
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < p.n_slots; i += gl_WorkGroupSize.x) atomicAdd(counts[expert_of(i)], 1);
    barrier();

    uint expert = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    if (expert >= p.experts) return;
    uint lane = gl_SubgroupInvocationID;
    uint first = 0, first_tile = 0, all_tiles = 0;
    for (uint i = lane; i < p.experts; i += gl_SubgroupSize) {
        uint slots = counts[i];
        if (i < expert) {
            first += slots;
            first_tile += tiles_of(slots);
        }
        all_tiles += tiles_of(slots);
    }
    first = subgroupAdd(first);
    first_tile = subgroupAdd(first_tile);
    all_tiles = subgroupAdd(all_tiles);
    if (expert == 0 && lane == 0) p.lists.v[0] = all_tiles;

    uint slots = counts[expert];
    for (uint i = lane; i < tiles_of(slots); i += gl_SubgroupSize) {
        uint tile = 4 * (1 + first_tile + i), begin = i * p.columns;
        p.lists.v[tile] = expert;
        p.lists.v[tile + 1] = first + begin;
        p.lists.v[tile + 2] = min(p.columns, slots - begin);
    }
    // Several loads at a time: each would wait for the one before.
    const uint AHEAD = 4;
    uint found = 0;
    for (uint base = 0; base < p.n_slots && found < slots; base += AHEAD * gl_SubgroupSize) {
        bool own[AHEAD];
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            uint slot = base + i * gl_SubgroupSize + lane;
            own[i] = slot < p.n_slots && expert_of(min(slot, p.n_slots - 1)) == expert;
        }
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            uvec4 owners = subgroupBallot(own[i]);
            uint place = first + found + subgroupBallotExclusiveBitCount(owners);
            if (own[i]) p.lists.v[p.slots_at + place] = base + i * gl_SubgroupSize + lane;
            found += subgroupBallotBitCount(owners);
        }
    }
}
