// Weights from what a format's GLSL gives: v = run_codes stands for the code q = CODE_UNIT·v − CODE_ORIGIN, and w = d·q + m.

#if HAS_SCALE
// (a, b) with w = a·v + b.
vec2 code_scale(vec2 scale) {
    return vec2(CODE_UNIT * scale.x, fma(-CODE_ORIGIN, scale.x, scale.y));
}

vec4 weights(vec4 v, vec2 scale) {
    return fma(v, vec4(scale.x), vec4(scale.y));
}
#else
vec2 code_scale(vec2 scale) { return scale; }

vec4 weights(vec4 v, vec2 scale) { return v; }
#endif
