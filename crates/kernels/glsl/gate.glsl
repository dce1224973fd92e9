// Gates of four columns, guarded where Vulkan's exp may overflow.

vec4 sigmoid(vec4 x) {
    return 1.0 / (1.0 + exp(-clamp(x, -87.0, 87.0)));
}
