// Reductions over a workgroup in a fixed order: the lanes of a subgroup, then the subgroups, by one again.
// Every invocation of the workgroup must call them, and all get the result. One barrier each: readers of a reduction are done when the next one's is
// passed, so the one after it can have its memory.

// 1,024 invocations in subgroups of 4, twice.
shared float workgroup_parts[512];
uint workgroup_half = 0;

float workgroup_sum(float value) {
    float part = subgroupAdd(value);
    uint first = workgroup_half;
    workgroup_half ^= 256;
    if (subgroupElect()) workgroup_parts[first + gl_SubgroupID] = part;
    barrier();
    float total = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) total += workgroup_parts[first + i];
    return subgroupAdd(total);
}

float workgroup_max(float value) {
    float part = subgroupMax(value);
    uint first = workgroup_half;
    workgroup_half ^= 256;
    if (subgroupElect()) workgroup_parts[first + gl_SubgroupID] = part;
    barrier();
    float greatest = workgroup_parts[first];
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
        greatest = max(greatest, workgroup_parts[first + i]);
    }
    return subgroupMax(greatest);
}
