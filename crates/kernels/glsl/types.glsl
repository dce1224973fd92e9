// Buffers as 64-bit addresses. Include first; then declare
//     layout(push_constant, scalar) uniform Push { F32In x; F32 out_; uint n; } p;
// with the addresses in the order of the dispatch's bindings, then the params.
//
// `…In` types are read-only. Integer and half types below 32 bits are for loads and stores alone: convert to uint or float
// at once, so that no 8- or 16-bit arithmetic is required of the device.

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer F16 { float16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec4 { vec4 v[]; };

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer F32In { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer U32In { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) readonly buffer F16In { float16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) readonly buffer U16In { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) readonly buffer U8In { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer UVec2In { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Vec4In { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer UVec4In { uvec4 v[]; };

// What workgroups of one dispatch read of each other: `memoryBarrierBuffer` on both sides.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer CommonU32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer CommonF32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer CommonVec4 { vec4 v[]; };

// A row of the batch: token id, position in its sequence, slot of the sequence, flags.
struct RowInfo { uint token; uint position; uint sequence; uint flags; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer RowsIn { RowInfo v[]; };

// An address plus `index · bytes`, without 64-bit integers.
uvec2 address_at(uvec2 base, uint index, uint bytes) {
    uint high, low, carry;
    umulExtended(index, bytes, high, low);
    uint sum = uaddCarry(base.x, low, carry);
    return uvec2(sum, base.y + high + carry);
}

// The workgroup's number in a grid that the host folded over x and y (`fold_groups`).
uint folded_group() {
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}
