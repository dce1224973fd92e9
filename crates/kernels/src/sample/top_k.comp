#version 460
// The k largest elements of a row, sorted, with maximum and log-sum-exp: a workgroup sorts PART candidates and keeps k of
// them; stages follow until one workgroup holds all.
// SOURCE row: logits; lists: the k candidates of each workgroup of the stage before.
// variants: SOURCE=row|lists
#include "types.glsl"
#include "order.glsl"
#include "workgroup.glsl"

layout(local_size_x_id = 0) in;
// A power of two, at least twice the invocations.
layout(constant_id = 1) const uint PART = 1024;

layout(push_constant, scalar) uniform Push {
    F32In logits;
    U32In from;    // candidates of the stage before, [row][candidates]
    U32 to;      // candidates of this stage, [row][parts][k]
    F32 sums;    // (maximum, sum of exp(x - maximum)) of each part of the row, [row][sum_parts]
    U32 out_;    // last stage: [row](maximum, log-sum-exp, k times (token, logit))
    uint width;  // candidates of a row
    uint stride; // of the logits' rows
    uint k;
    uint parts;
    uint sum_parts;
    uint last;
} p;

shared uvec2 list[PART];

// Bitonic sort, first candidate first. Steps of at most a subgroup stay among the candidates of a subgroup's own pairs, so
// only those around longer steps wait for the workgroup.
void sort() {
    uint own = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint before = PART;
    for (uint size = 2; size <= PART; size *= 2) {
        for (uint step = size / 2; step > 0; step /= 2) {
            if (max(step, before) > gl_SubgroupSize) barrier();
            else subgroupBarrier();
            before = step;
            for (uint i = own; i < PART / 2; i += gl_WorkGroupSize.x) {
                uint low = (i / step) * 2 * step + i % step, high = low + step;
                uvec2 a = list[low], b = list[high];
                if (comes_before(b, a) == ((low & size) == 0)) {
                    list[low] = b;
                    list[high] = a;
                }
            }
        }
    }
    barrier();
}

#define LOWEST uintBitsToFloat(0xff800000u)

// exp(value - maximum); nothing for -inf and NaN.
float weight(float value, float maximum) {
    return value > LOWEST ? exp(value - maximum) : 0.0;
}

void main() {
    uint row = gl_WorkGroupID.y, part = gl_WorkGroupID.x;
    float maximum = LOWEST;
    for (uint i = gl_LocalInvocationIndex; i < PART; i += gl_WorkGroupSize.x) {
        uint at = part * PART + i;
        uvec2 c = NO_CANDIDATE;
        if (at < p.width) {
#ifdef SOURCE_ROW
            float value = p.logits.v[row * p.stride + at];
            c = candidate(value, at);
            if (c.x != 0) maximum = max(maximum, value);
#else
            uint from = 2 * (row * p.width + at);
            c = uvec2(p.from.v[from], p.from.v[from + 1]);
#endif
        }
        list[i] = c;
    }
#ifdef SOURCE_ROW
    maximum = workgroup_max(maximum);
    float sum = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < PART; i += gl_WorkGroupSize.x) {
        if (list[i].x != 0) sum += weight(order_value(list[i].x), maximum);
    }
    sum = workgroup_sum(sum);
    if (gl_LocalInvocationIndex == 0) {
        uint at = 2 * (row * p.sum_parts + part);
        p.sums.v[at] = maximum;
        p.sums.v[at + 1] = sum;
    }
#endif
    sort();

    if (p.last == 0) {
        for (uint i = gl_LocalInvocationIndex; i < p.k; i += gl_WorkGroupSize.x) {
            uint to = 2 * ((row * p.parts + part) * p.k + i);
            p.to.v[to] = list[i].x;
            p.to.v[to + 1] = list[i].y;
        }
        return;
    }
    uint to = row * (2 + 2 * p.k);
    for (uint i = gl_LocalInvocationIndex; i < p.k; i += gl_WorkGroupSize.x) {
        // NaN counts as -inf.
        uint bits = list[i].x != 0 ? floatBitsToUint(order_value(list[i].x)) : 0xff800000u;
        p.out_.v[to + 2 + 2 * i] = ~list[i].y;
        p.out_.v[to + 3 + 2 * i] = bits;
    }
    float total = 0.0;
#ifdef SOURCE_ROW
    total = sum;
#else
    for (uint i = gl_LocalInvocationIndex; i < p.sum_parts; i += gl_WorkGroupSize.x) {
        maximum = max(maximum, p.sums.v[2 * (row * p.sum_parts + i)]);
    }
    maximum = workgroup_max(maximum);
    for (uint i = gl_LocalInvocationIndex; i < p.sum_parts; i += gl_WorkGroupSize.x) {
        uint at = 2 * (row * p.sum_parts + i);
        total = fma(p.sums.v[at + 1], weight(p.sums.v[at], maximum), total);
    }
    total = workgroup_sum(total);
#endif
    if (gl_LocalInvocationIndex == 0) {
        p.out_.v[to] = floatBitsToUint(maximum);
        p.out_.v[to + 1] = floatBitsToUint(total > 0.0 ? maximum + log(total) : LOWEST);
    }
}
