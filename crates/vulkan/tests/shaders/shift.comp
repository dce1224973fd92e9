// y[i] = x[(i + shift) % n] + 1: reads what another workgroup of the dispatch before wrote.
// glslangValidator -V --target-env vulkan1.3 shift.comp -o shift.spv
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer In { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Out { uint v[]; };
layout(push_constant, std430) uniform Push {
    In x;
    Out y;
    uint n;
    uint shift;
};
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) y.v[i] = x.v[(i + shift) % n] + 1;
}
