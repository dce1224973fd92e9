// Activation functions of gated layers, guarded where Vulkan's exp and tanh may overflow.

float sigmoid(float x) {
    return 1.0 / (1.0 + exp(-clamp(x, -80.0, 80.0)));
}

float silu(float x) {
    return x * sigmoid(x);
}

// x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
float gelu_tanh(float x) {
    float inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, -15.0, 15.0)));
}
