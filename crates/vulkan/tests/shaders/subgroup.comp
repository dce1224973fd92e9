// Each invocation writes its subgroup's size and the sum of its lanes' numbers.
// glslangValidator -V --target-env vulkan1.3 subgroup.comp -o subgroup.spv
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 8) writeonly buffer Out { uvec2 v[]; };
layout(push_constant, std430) uniform Push { Out y; };
void main() {
    y.v[gl_GlobalInvocationID.x] = uvec2(gl_SubgroupSize, subgroupAdd(gl_SubgroupInvocationID));
}
