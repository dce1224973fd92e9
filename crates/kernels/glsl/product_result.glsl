// What becomes of a product of `gemv`, `dot` and `slices`: bias, then the activation where there is a gate, or the residual. For kernels with the constants BIAS,
// RESIDUAL, ACTIVATION and the push constants bias, residual (with GATE the bias of up), alpha, limit. Include after activation.glsl and
// expert_slots.glsl.

// The result of a row and column; `up` is the second matrix's.
void finish(uint row, uint column, float value, float up) {
    uint at;
    if (EXPERTS != 0) {
        if (row >= p.m || column >= own_columns) return;
        at = slot_of[column].x + row;
    } else {
        column += gl_WorkGroupID.z * COLUMNS;
        if (row >= p.m || column >= p.columns) return;
        at = column * p.result_stride + row;
    }
    precise float sum = value;
    if (BIAS) sum = sum + p.bias.v[expert * p.m + row];
#ifdef GATE_YES
    precise float second = up;
    if (BIAS) second = second + p.residual.v[expert * p.m + row];
    sum = gated(ACTIVATION, sum, second, p.alpha, p.limit);
#else
    if (RESIDUAL) sum = sum + p.residual.v[column * p.residual_stride + row];
#endif
    p.result.v[at] = sum;
}
