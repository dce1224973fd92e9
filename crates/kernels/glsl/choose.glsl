// The experts of a row and their weights, by a subgroup. Include after types.glsl and order.glsl, for kernels with the constants OWN and SLOTS,
// the push constants choice, experts, top_k and over_all, and a function `float logit(uint expert)`.

// e^x for x up to 0.
float power(float x) {
    return x < -87.0 ? 0.0 : exp(x);
}

// `choice`: where the row's begins.
void choose(uint choice) {
    const uint lane = gl_SubgroupInvocationID, size = gl_SubgroupSize;
    // Read once: expert j · size + lane.
    uint keys[OWN];
    [[unroll]] for (uint j = 0; j < OWN; j++) {
        uint i = j * size + lane;
        keys[j] = i < p.experts ? order_key(logit(i)) : 0;
    }
    bool left[OWN];
    [[unroll]] for (uint j = 0; j < OWN; j++) left[j] = j * size + lane < p.experts;
    // Slot j · size + lane stays with a lane.
    float greatest = 0.0, chosen = 0.0;
    uint experts[SLOTS];
    float weights[SLOTS];
    for (uint slot = 0; slot < p.top_k; slot++) {
        // The lane's first one that is left: of equal ones that with the lowest number. Then the subgroup's.
        uint best = 0, own = OWN;
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            if (left[j] && (own == OWN || keys[j] > best)) {
                best = keys[j];
                own = j;
            }
        }
        uint key = subgroupMax(best);
        uint expert = ~subgroupMax(own < OWN && best == key ? ~(own * size + lane) : 0);
        [[unroll]] for (uint j = 0; j < OWN; j++) left[j] = left[j] && j * size + lane != expert;
        float value = order_value(key); // of key 0 no number, as the logit
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
    float sum = chosen;
    if (p.over_all != 0) {
        float part = 0.0;
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            if (j * size + lane < p.experts) part += power(order_value(keys[j]) - greatest);
        }
        sum = subgroupAdd(part);
    }
    [[unroll]] for (uint j = 0; j < SLOTS; j++) {
        uint slot = j * size + lane;
        if (slot < p.top_k) {
            p.choice.v[choice + slot] = float(experts[j]);
            p.choice.v[choice + p.top_k + slot] = weights[j] / sum;
        }
    }
}
