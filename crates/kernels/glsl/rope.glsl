// Rotary embedding of one head.

// (cos, sin) of the rotated pairs of each position.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer RopeTable { vec2 v[]; };

const uint PAIRING_ADJACENT = 0;

// The two dimensions of slot `slot` (of head_size / 2): a rotated pair below `rotated_pairs`, else two that are copied.
uvec2 rope_dims(uint slot, uint rotated_pairs, uint pairing) {
    if (pairing == PAIRING_ADJACENT || slot >= rotated_pairs) return uvec2(2 * slot, 2 * slot + 1);
    return uvec2(slot, slot + rotated_pairs);
}

// The slot of a dimension.
uint rope_slot(uint dim, uint rotated_pairs, uint pairing) {
    if (pairing == PAIRING_ADJACENT || dim >= 2 * rotated_pairs) return dim / 2;
    return dim < rotated_pairs ? dim : dim - rotated_pairs;
}

// Turns a pair by (cos, sin).
vec2 rope_by(vec2 x, vec2 t) {
    return vec2(fma(x.x, t.x, -(x.y * t.y)), fma(x.x, t.y, x.y * t.x));
}

// Turns a pair of dimensions.
vec2 rope_turn(vec2 x, RopeTable table, uint position, uint slot, uint rotated_pairs) {
    if (slot >= rotated_pairs) return x;
    return rope_by(x, table.v[position * rotated_pairs + slot]);
}
