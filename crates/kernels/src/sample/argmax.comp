#version 460
// Index of the largest element of a row, the lowest of equals; NaN and -inf never win, and a row of nothing else gives NO_TOKEN. Each workgroup finds the
// best candidate of a part of the row; the one that comes last, the token.
#include "types.glsl"
#include "order.glsl"
#include "last.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    F32In logits;
    CommonU32 parts_of;
    CommonU32 done; // parts of a row that are done; 0 before and after
    U32 out_;
    uint width;
    uint stride;
    uint part; // columns of a part
    uint parts;
} p;

const uint NO_TOKEN = 0xfffffffeu;

shared uvec2 best_of[256];

// The best candidate of the workgroup.
uvec2 workgroup_best(uvec2 best) {
    uint key = subgroupMax(best.x);
    uint index = subgroupMax(best.x == key ? best.y : 0);
    barrier();
    if (subgroupElect()) best_of[gl_SubgroupID] = uvec2(key, index);
    barrier();
    best = best_of[0];
    for (uint i = 1; i < gl_NumSubgroups; i++) {
        if (comes_before(best_of[i], best)) best = best_of[i];
    }
    return best;
}

void main() {
    const uint row = gl_WorkGroupID.y, first = gl_WorkGroupID.x * p.part, end = min(first + p.part, p.width);
    uvec2 best = NO_CANDIDATE;
    for (uint i = first + gl_LocalInvocationIndex; i < end; i += gl_WorkGroupSize.x) {
        uvec2 c = candidate(p.logits.v[row * p.stride + i], i);
        if (comes_before(c, best)) best = c;
    }
    best = workgroup_best(best);
    if (p.parts > 1) {
        if (gl_LocalInvocationIndex == 0) {
            const uint at = 2 * (row * p.parts + gl_WorkGroupID.x);
            p.parts_of.v[at] = best.x;
            p.parts_of.v[at + 1] = best.y;
        }
        if (!comes_last(p.done, row, p.parts)) return;
        best = NO_CANDIDATE;
        for (uint i = gl_LocalInvocationIndex; i < p.parts; i += gl_WorkGroupSize.x) {
            const uint at = 2 * (row * p.parts + i);
            const uvec2 c = uvec2(p.parts_of.v[at], p.parts_of.v[at + 1]);
            if (comes_before(c, best)) best = c;
        }
        best = workgroup_best(best);
    }
    // The key of -inf is 0x007fffff.
    if (gl_LocalInvocationIndex == 0) p.out_.v[row] = best.x > 0x007fffffu ? ~best.y : NO_TOKEN;
}
