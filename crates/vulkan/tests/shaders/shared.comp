// Reverses each workgroup's 64 words through shared memory of 4 * PADDING * 64 bytes.
// glslangValidator -V --target-env vulkan1.3 shared.comp -o shared.spv
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint PADDING = 1;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(push_constant, std430) uniform Push { Words x; };
shared uint tile[64 * PADDING];
void main() {
    uint i = gl_LocalInvocationID.x;
    uint base = gl_WorkGroupID.x * 64;
    tile[i * PADDING] = x.v[base + i];
    barrier();
    x.v[base + i] = tile[(63 - i) * PADDING];
}
