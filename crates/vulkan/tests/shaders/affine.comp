// y[i] = x[i] * scale + ADD, one invocation an element.
// glslangValidator -V --target-env vulkan1.3 affine.comp -o affine.spv
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ADD = 1;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(push_constant, std430) uniform Push {
    Words x;
    Words y;
    uint n;
    uint scale;
};
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) y.v[i] = x.v[i] * scale + ADD;
}
