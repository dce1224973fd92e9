#version 460
// As little as a dispatch can do and still be seen to have run: one more in a counter.
#include "types.glsl"
#include "grid.glsl"

layout(push_constant, scalar) uniform Push { U32 counter; } p;

void main() {
    if (gl_LocalInvocationIndex == 0) p.counter.v[0] += 1;
}
