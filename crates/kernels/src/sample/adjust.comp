#version 460
// Applies logit bias, then repetition, presence and frequency penalties to listed tokens, in place.
#include "types.glsl"
#include "grid.glsl"

layout(push_constant, scalar) uniform Push {
    F32 logits;
    U32In entries;   // a count, then that many (row, token, bias as bits, times seen)
    F32In penalties; // (repetition, presence, frequency) of each row
    uint width;
    uint stride;
    uint n_rows;
    uint capacity;
} p;

void main() {
    uint id = invocation_number();
    if (id >= min(p.entries.v[0], p.capacity)) return;
    uint at = 1 + 4 * id;
    uint row = p.entries.v[at], token = p.entries.v[at + 1], seen = p.entries.v[at + 3];
    if (row >= p.n_rows || token >= p.width) return;
    float logit = p.logits.v[row * p.stride + token] + uintBitsToFloat(p.entries.v[at + 2]);
    if (seen > 0) {
        float repetition = p.penalties.v[3 * row];
        logit = logit > 0.0 ? logit / repetition : logit * repetition;
        logit = logit - p.penalties.v[3 * row + 1] - p.penalties.v[3 * row + 2] * float(seen);
    }
    p.logits.v[row * p.stride + token] = logit;
}
