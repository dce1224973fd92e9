#version 460
// Index of the largest element of a row, the lowest of equals; NaN and -inf never win, and a row of nothing else gives NO_TOKEN.
// STAGE row: the best candidate of a part of the row; parts: the token, from the parts' candidates.
// variants: STAGE=row|parts
#include "types.glsl"
#include "order.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    F32In logits;
    U32 parts_of;
    U32 out_;
    uint width;
    uint stride;
    uint part; // columns of a part
    uint parts;
} p;

const uint NO_TOKEN = 0xfffffffeu;

shared uvec2 best_of[256];

void main() {
    uint row = gl_WorkGroupID.y;
    uvec2 best = NO_CANDIDATE;
#ifdef STAGE_ROW
    uint first = gl_WorkGroupID.x * p.part, end = min(first + p.part, p.width);
    for (uint i = first + gl_LocalInvocationIndex; i < end; i += gl_WorkGroupSize.x) {
        uvec2 c = candidate(p.logits.v[row * p.stride + i], i);
        if (comes_before(c, best)) best = c;
    }
#else
    for (uint i = gl_LocalInvocationIndex; i < p.parts; i += gl_WorkGroupSize.x) {
        uint at = 2 * (row * p.parts + i);
        uvec2 c = uvec2(p.parts_of.v[at], p.parts_of.v[at + 1]);
        if (comes_before(c, best)) best = c;
    }
#endif
    uint key = subgroupMax(best.x);
    uint index = subgroupMax(best.x == key ? best.y : 0);
    if (subgroupElect()) best_of[gl_SubgroupID] = uvec2(key, index);
    barrier();
    if (gl_LocalInvocationIndex != 0) return;
    best = best_of[0];
    for (uint i = 1; i < gl_NumSubgroups; i++) {
        if (comes_before(best_of[i], best)) best = best_of[i];
    }
#ifdef STAGE_ROW
    uint at = 2 * (row * p.parts + gl_WorkGroupID.x);
    p.parts_of.v[at] = best.x;
    p.parts_of.v[at + 1] = best.y;
#else
    // The key of -inf is 0x007fffff.
    p.out_.v[row] = best.x > 0x007fffffu ? ~best.y : NO_TOKEN;
#endif
}
