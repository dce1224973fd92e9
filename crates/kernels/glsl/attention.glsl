// The arithmetic of attention, in one place: the kernels that split a row's keys over workgroups (split.glsl, join.glsl) and the one for
// tiles of rows (attention_tiled.comp) give the same bits.
//
// - A score is the sum of LANES partial sums of q·k in the order of the lanes. Lane l adds the chunks l, l + LANES, ... of 8 elements,
//   element after element (`dot8`). Then `finish_score`.
// - Keys form blocks at multiples of KEY_BLOCK positions. A block's `exponent` r is its maximum as a power of two, rounded up; a key's
//   `weight` is 2^(score·log2 e - r). The block's sum adds the weights of the keys 4·i + j for each j in the order of i, then
//   (j0 + j1) + (j2 + j3). Its values add weight·v in the order of the keys.
// - A span is SPAN blocks at multiples of SPAN. Its blocks are added in order, each times a power of two, then the spans in order.
//
// Products with powers of two are exact as long as nothing underflows, so it does not matter whether the largest exponent is known
// from the start or grows on the way: neither do the results depend on how blocks are shared out.

// Partial sums of a dot product.
const uint LANES = 8;
// Blocks of a span.
const uint SPAN = 8;

// Score of a key that a row does not see.
const float HIDDEN = -1e38;

const float LOG2_E = 1.44269504;

// The first position that a row sees: key j is visible to row i iff i - j < window.
uint first_visible(uint position, uint window) {
    return window != 0 && position >= window ? position + 1 - window : 0;
}

float dot4(vec4 a, vec4 b, float sum) {
    sum = fma(a.x, b.x, sum);
    sum = fma(a.y, b.y, sum);
    sum = fma(a.z, b.z, sum);
    return fma(a.w, b.w, sum);
}

float dot8(vec4 a0, vec4 a1, vec4 b0, vec4 b1, float sum) {
    return dot4(a1, b1, dot4(a0, b0, sum));
}

float finish_score(float dot, float scale, float softcap) {
    precise float s = dot * scale;
    if (softcap != 0.0) {
        precise float capped = softcap * tanh(clamp(s / softcap, -15.0, 15.0));
        s = capped;
    }
    return s;
}

// The power of two not below e^score.
float exponent(float score) {
    precise float power = score * LOG2_E;
    return ceil(power);
}

float weight_of(float score, float exponent) {
    precise float power = fma(score, LOG2_E, -exponent);
    return power < -126.0 ? 0.0 : exp2(power);
}

// 2^k for an integer k up to 0; a driver's exp2 may be inexact.
float power_of_two(float k) {
    return uintBitsToFloat(uint(int(max(k, -127.0)) + 127) << 23);
}

// A row's values over its sum.
vec4 normalise(vec4 value, float sum) {
    precise float inverse = 1.0 / sum;
    precise vec4 result = value * inverse;
    return result;
}
