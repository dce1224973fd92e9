#version 460
// result[i] = x[indices[i]], an invocation an element.
#include "types.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    F32In x;
    U32In indices;
    F32 result;
    uint count; // rows of the result
    uint rows; // rows of x
    uint width;
    uint x_stride;
    uint result_stride;
} p;

void main() {
    const uint number = folded_group() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    const uint i = number / p.width, column = number % p.width;
    if (i >= p.count) return;
    const uint row = min(p.indices.v[i], p.rows - 1);
    p.result.v[i * p.result_stride + column] = p.x.v[row * p.x_stride + column];
}
