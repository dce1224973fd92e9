// Sums over a team of LANES lanes. Every lane has PADDED = OWN · LANES sums, and in the end OWN of them for all lanes.

// Half of the sums for a partner's half: a lane gives `step · OWN` sums and adds the partner's to those that it keeps.
#define HALVE(step) \
    if (LANES > step) { \
        const bool upper = (lane & step) != 0; \
        [[unroll]] for (uint i = 0; i < step * OWN; i++) { \
            float low = sums[i], high = sums[step * OWN + i]; \
            precise float sum = (upper ? high : low) + subgroupShuffleXor(upper ? low : high, step); \
            sums[i] = sum; \
        } \
    }

// Sums over a team. In the end lane l has sums l · OWN …, all added up in the same tree.
void reduce(inout float sums[PADDED], uint lane, inout float totals[OWN]) {
    HALVE(32)
    HALVE(16)
    HALVE(8)
    HALVE(4)
    HALVE(2)
    HALVE(1)
    [[unroll]] for (uint i = 0; i < OWN; i++) {
        precise float total = totals[i] + sums[i];
        totals[i] = total;
    }
}
