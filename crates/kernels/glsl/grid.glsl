// A workgroup of as many invocations as specialisation constant 0 says, in a grid that the host folded over x and y.
layout(local_size_x_id = 0) in;

uint invocation_number() {
    return folded_group() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
}
