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
    // What was chosen last: the next one is the first that comes after it. Slot j · size + lane stays with a lane.
    uvec2 last = uvec2(0xffffffffu);
    float greatest = 0.0, chosen = 0.0;
    uint experts[SLOTS];
    float weights[SLOTS];
    for (uint slot = 0; slot < p.top_k; slot++) {
        uvec2 best = NO_CANDIDATE;
        [[unroll]] for (uint j = 0; j < OWN; j++) {
            uint i = j * size + lane;
            uvec2 c = uvec2(keys[j], ~i);
            if (i < p.experts && comes_before(last, c) && comes_before(c, best)) best = c;
        }
        uint key = subgroupMax(best.x);
        last = uvec2(key, subgroupMax(best.x == key ? best.y : 0));
        float value = order_value(key); // of key 0 no number, as the logit
        if (slot == 0) greatest = value;
        float weight = power(value - greatest);
        chosen += weight;
        [[unroll]] for (uint j = 0; j < SLOTS; j++) {
            if (slot == j * size + lane) {
                experts[j] = ~last.y;
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
