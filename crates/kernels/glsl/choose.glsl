// The experts of a row and their weights, by a subgroup. Include after types.glsl and order.glsl, for kernels with the constants OWN and SLOTS,
// the push constants choice, experts, top_k and over_all, and a function `float logit(uint expert)`.

// e^x for x up to 0.
float power(float x) {
    return x < -87.0 ? 0.0 : exp(x);
}

// `choice`: where the row's begins.
void choose(uint choice) {
    const uint lane = gl_SubgroupInvocationID, size = gl_SubgroupSize;
    // Read once: expert j · size + lane, 1 more than its key; 0 where there is none, or none that is left.
    uint keys[OWN];
    float part = 0.0;
    [[unroll]] for (uint j = 0; j < OWN; j++) {
        uint i = j * size + lane;
        keys[j] = i < p.experts ? order_key(logit(i)) + 1 : 0;
    }
    if (p.over_all != 0) {
        uint first = 0;
        [[unroll]] for (uint j = 0; j < OWN; j++) first = max(first, keys[j]);
        float greatest = order_value(subgroupMax(first) - 1);
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            if (keys[j] != 0) part += power(order_value(keys[j] - 1) - greatest);
        }
    }
    // Slot j · size + lane stays with a lane.
    float greatest = 0.0, chosen = 0.0;
    uint experts[SLOTS];
    float weights[SLOTS];
    for (uint slot = 0; slot < p.top_k; slot++) {
        uint best = 0, own = ~0u;
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            if (keys[j] > best) {
                best = keys[j];
                own = j * size + lane;
            }
        }
        uint key = subgroupMax(best), expert = subgroupMin(best == key ? own : ~0u);
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            if (j * size + lane == expert) keys[j] = 0;
        }
        float value = order_value(key - 1); // of key 0 no number, as the logit
        if (slot == 0) greatest = value;
        float weight = power(value - greatest);
        chosen += weight;
        [[unroll]] for (uint j = 0; j < SLOTS; j++) {
            if (slot == j * size + lane) {
                experts[j] = expert;
                weights[j] = weight;
            }
        }
    }
    float sum = p.over_all != 0 ? subgroupAdd(part) : chosen;
    [[unroll]] for (uint j = 0; j < SLOTS; j++) {
        uint slot = j * size + lane;
        if (slot < p.top_k) {
            p.choice.v[choice + slot] = float(experts[j]);
            p.choice.v[choice + p.top_k + slot] = weights[j] / sum;
        }
    }
}
