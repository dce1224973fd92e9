// Activation functions of gated layers, guarded where Vulkan's exp and tanh may overflow.

float sigmoid(float x) {
    return 1.0 / (1.0 + exp(-clamp(x, -80.0, 80.0)));
}

float silu(float x) {
    return x * sigmoid(x);
}

// g·sigmoid(alpha·g)·(u + 1) of the clamped g and u
float oai_swiglu(float gate, float up, float alpha, float limit) {
    gate = min(gate, limit);
    up = clamp(up, -limit, limit);
    return gate * sigmoid(alpha * gate) * (up + 1.0);
}

// x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
float gelu_tanh(float x) {
    float inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, -15.0, 15.0)));
}

// A gate's activation times up: 0 silu, 1 gelu_tanh, 2 oai_swiglu.
float gated(uint activation, float gate, float up, float alpha, float limit) {
    if (activation == 2) return oai_swiglu(gate, up, alpha, limit);
    return (activation == 1 ? gelu_tanh(gate) : silu(gate)) * up;
}
