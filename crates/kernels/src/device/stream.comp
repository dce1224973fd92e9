#version 460
// Memory at full width: each workgroup goes over its part of a buffer, 16 bytes an invocation and load.
// variants: OP=read|copy
#include "types.glsl"
#include "grid.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer UVec4 { uvec4 v[]; };

// `out_`: for read the sum of the words of each subgroup's part, for copy as many bytes as are read.
layout(push_constant, scalar) uniform Push {
    UVec4In in_;
#ifdef OP_COPY
    UVec4 out_;
#else
    U32 out_;
#endif
    uint loads; // of an invocation, a multiple of 8
} p;

void main() {
    uint threads = gl_WorkGroupSize.x;
    uint at = folded_group() * threads * p.loads + gl_LocalInvocationIndex;
#ifdef OP_COPY
    for (uint i = 0; i < p.loads; i += 8) {
        uvec4 v[8];
        [[unroll]] for (uint j = 0; j < 8; j++) v[j] = p.in_.v[at + (i + j) * threads];
        [[unroll]] for (uint j = 0; j < 8; j++) p.out_.v[at + (i + j) * threads] = v[j];
    }
#else
    uvec4 sum = uvec4(0);
    for (uint i = 0; i < p.loads; i += 8) {
        uvec4 v[8];
        [[unroll]] for (uint j = 0; j < 8; j++) v[j] = p.in_.v[at + (i + j) * threads];
        [[unroll]] for (uint j = 0; j < 8; j++) sum += v[j];
    }
    uint total = subgroupAdd(sum.x + sum.y + sum.z + sum.w);
    if (subgroupElect()) p.out_.v[folded_group() * gl_NumSubgroups + gl_SubgroupID] = total;
#endif
}
