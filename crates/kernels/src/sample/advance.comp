#version 460
// Ends a step of greedy decoding: the chosen tokens become the rows' next tokens, positions grow by one, and the tokens are
// kept in a ring that the host reads. One workgroup.
#include "types.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Rows { RowInfo v[]; };

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    U32In chosen; // [row]
    Rows rows;
    U32 step_;  // steps done
    U32 ring;   // [capacity][row]
    uint n_rows;
    uint capacity;
} p;

void main() {
    uint step_ = p.step_.v[0];
    uint slot = step_ % p.capacity;
    for (uint row = gl_LocalInvocationIndex; row < p.n_rows; row += gl_WorkGroupSize.x) {
        uint token = p.chosen.v[row];
        p.ring.v[slot * p.n_rows + row] = token;
        p.rows.v[row].token = token;
        p.rows.v[row].position += 1;
    }
    barrier(); // every invocation has read the step
    if (gl_LocalInvocationIndex == 0) p.step_.v[0] = step_ + 1;
}
