// Which workgroup of several is the last to come. Include after types.glsl.

shared uint is_last;

// Whether `count` workgroups have come to counter `at` now, which is 0 before the first and after the last. What the others wrote before they came can be
// read then. For all invocations of the workgroup, with the same answer.
bool comes_last(CommonU32 counters, uint at, uint count) {
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        bool last = atomicAdd(counters.v[at], 1) == count - 1;
        if (last) counters.v[at] = 0;
        is_last = last ? 1 : 0;
    }
    barrier();
    memoryBarrierBuffer();
    return is_last != 0;
}
