// Order of logits: larger first, equal values by lower index, NaN last.

// Grows with the value; 0 for NaN, the two zeros are equal.
uint order_key(float value) {
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
    if (bits == 0x80000000u) bits = 0;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The value of a key that is not 0.
float order_value(uint key) {
    return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// x: key, y: complement of the index.
uvec2 candidate(float value, uint index) {
    return uvec2(order_key(value), ~index);
}

bool comes_before(uvec2 a, uvec2 b) {
    return a.x > b.x || (a.x == b.x && a.y > b.y);
}

// No candidate: comes after all.
const uvec2 NO_CANDIDATE = uvec2(0);
