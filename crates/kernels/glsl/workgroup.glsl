// Reductions over a workgroup in a fixed order: the lanes of a subgroup, then the subgroups by number.
// Every invocation of the workgroup must call them, and all get the result.

// 1,024 invocations in subgroups of 4.
shared float workgroup_parts[256];

float workgroup_sum(float value) {
    float part = subgroupAdd(value);
    barrier(); // readers of an earlier reduction are done
    if (subgroupElect()) workgroup_parts[gl_SubgroupID] = part;
    barrier();
    float total = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) total += workgroup_parts[i];
    return total;
}

float workgroup_max(float value) {
    float part = subgroupMax(value);
    barrier();
    if (subgroupElect()) workgroup_parts[gl_SubgroupID] = part;
    barrier();
    float greatest = workgroup_parts[0];
    for (uint i = 1; i < gl_NumSubgroups; i++) greatest = max(greatest, workgroup_parts[i]);
    return greatest;
}
