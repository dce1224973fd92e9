// A delta net's gates. Include after types.glsl and activation.glsl.

// ln(1 + e) for 0 <= e <= 1 by the series of 2·artanh(e / (2 + e)): Vulkan's log is coarse near 1.
float log_1_plus(float e) {
    float s = e / (2.0 + e), square = s * s, series = 1.0 / 17.0;
    [[unroll]] for (int n = 15; n > 0; n -= 2) series = fma(series, square, 1.0 / float(n));
    return 2.0 * s * series;
}

// The logarithm of a decay: softplus of alpha and its bias, times the head's factor.
float log_decay(float alpha, float dt_bias, float a) {
    float x = alpha + dt_bias;
    float softplus = max(x, 0.0) + log_1_plus(exp(-min(abs(x), 80.0)));
    return softplus * a;
}

// The column of a head's alpha or beta, where they come in turns of `part` columns each.
uint gate_column(uint head, uint part) {
    return head / part * 2 * part + head % part;
}
