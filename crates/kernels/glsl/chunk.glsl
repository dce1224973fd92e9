// Four columns of a row at a time. Which columns a lane takes never depends on the alignment, so neither do sums.

// Whether every operand's address and row stride are multiples of 16 bytes, and rows whole chunks. Then a load has no branch, and one follows the other
// without waiting.
layout(constant_id = 1) const bool ALIGNED = true;

// The columns first .. first + 4; those from `left` on (the end of the row) are 0.
vec4 load4(F32In from, uint first, uint left) {
    if (ALIGNED) return Vec4In(from).v[first / 4];
    vec4 v = vec4(0.0);
    for (uint i = 0; i < min(left, 4u); i++) v[i] = from.v[first + i];
    return v;
}

void store4(F32 to, uint first, uint left, vec4 v) {
    if (ALIGNED) {
        Vec4(to).v[first / 4] = v;
        return;
    }
    for (uint i = 0; i < min(left, 4u); i++) to.v[first + i] = v[i];
}

float square_sum(vec4 v, float sum) {
    sum = fma(v.x, v.x, sum);
    sum = fma(v.y, v.y, sum);
    sum = fma(v.z, v.z, sum);
    return fma(v.w, v.w, sum);
}
