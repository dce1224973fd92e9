// What becomes of a product: the activation where there is a gate, bias, residual. The push constants `p` and the constants BIAS, RESIDUAL,
// GELU and COLUMNS are those of the kernel.

// The result of a row and column; `up` is the second matrix's.
void finish(uint row, uint column, float value, float up) {
    column += gl_WorkGroupID.z * COLUMNS;
    if (row >= p.m || column >= p.columns) return;
#ifdef GATE_YES
    value = (GELU ? gelu_tanh(value) : silu(value)) * up;
#endif
    precise float sum = value;
    if (BIAS) sum = sum + p.bias.v[row];
    if (RESIDUAL) sum = sum + p.residual.v[column * p.residual_stride + row];
    p.result.v[column * p.result_stride + row] = sum;
}
