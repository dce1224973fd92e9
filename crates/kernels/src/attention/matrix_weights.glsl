// attention_matrix.comp: scores become weights in terms of each row's reference.

// The subgroups of a row group wait for each other's shared memory.
void sync_row_group() {
    if (COLUMN_GROUPS > 1) {
        barrier();
    } else {
        subgroupBarrier();
    }
}

void cap_scores() {
    [[unroll]] for (uint j = 0; j < ROW_TILES * SCORE_TILES; j++) {
        [[unroll]] for (uint i = 0; i < score[j].length(); i++) {
            score[j][i] = p.cap * tanh(clamp(score[j][i], -15.0, 15.0));
        }
    }
}

void hide_scores(uint base) {
    Sums places;
    coopMatLoad(places, place, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        [[unroll]] for (uint i = 0; i < places.length(); i++) {
            uint element = uint(places[i]), m = first_query + t * M + element / N;
            uint first = query_first[m], last = query_last[m];
            uint position = base + column_group * SCORE_TILES * N + element % N;
            [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
                bool visible = position + n * N >= first && position + n * N <= last;
                if (!visible) score[t * SCORE_TILES + n][i] = HIDDEN;
            }
        }
    }
}

// Whether a row of the row group has a score so far above its reference that its weight does not fit.
bool any_grown(Sums largest[ROW_TILES]) {
    float growth = HIDDEN;
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        [[unroll]] for (uint i = 0; i < largest[t].length(); i++) growth = max(growth, largest[t][i] - reference[t][i]);
    }
    bool own = subgroupAny(growth > GROWTH);
    if (COLUMN_GROUPS == 1) return own;
    if (subgroupElect()) grown[gl_SubgroupID] = own ? 1 : 0;
    barrier();
    uint any = 0;
    for (uint i = 0; i < ROW_GROUPS * COLUMN_GROUPS; i++) any |= grown[i];
    return any != 0;
}

float tile_element(uint at, uint row, uint column) {
    return uintBitsToFloat(scratch[at + row * TILE_STRIDE + column / 4][column % 4]);
}

// The rows' new references from the largest scores of each column, and values and sums in terms of them.
void follow(Sums largest[ROW_TILES]) {
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        coopMatStore(largest[t], scratch, own_scratch + t * M * TILE_STRIDE, TILE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    sync_row_group();
    for (uint r = column_group * gl_SubgroupSize + gl_SubgroupInvocationID; r < ROW_TILES * M; r += COLUMN_GROUPS * gl_SubgroupSize) {
        float greatest = HIDDEN, old = row_reference[first_query + r], factor = 1.0;
        for (uint c = 0; c < COLUMN_GROUPS; c++) {
            for (uint n = 0; n < N; n++) greatest = max(greatest, tile_element(group_scratch + c * TILES, r, n));
        }
        if (greatest - old > GROWTH) {
            row_reference[first_query + r] = greatest - HEADROOM;
            factor = exp2(max(old - (greatest - HEADROOM), -126.0));
        }
        row_factor[first_query + r] = factor;
    }
    sync_row_group();
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        Sums factor;
        coopMatLoad(factor, row_factor, first_query + t * M, 0, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(reference[t], row_reference, first_query + t * M, 0, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < factor.length(); i++) {
            total[t][i] *= factor[i];
            [[unroll]] for (uint c = 0; c < COLUMN_TILES; c++) value[t * COLUMN_TILES + c][i] *= factor[i];
        }
    }
}

// Scores become weights in shared memory.
void write_weights() {
    Sums largest[ROW_TILES];
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        largest[t] = score[t * SCORE_TILES];
        [[unroll]] for (uint n = 1; n < SCORE_TILES; n++) {
            [[unroll]] for (uint i = 0; i < largest[t].length(); i++) largest[t][i] = max(largest[t][i], score[t * SCORE_TILES + n][i]);
        }
    }
    if (any_grown(largest)) follow(largest);
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        [[unroll]] for (uint n = 0; n < SCORE_TILES; n++) {
            Sums weight = score[t * SCORE_TILES + n];
            [[unroll]] for (uint i = 0; i < weight.length(); i++) {
                weight[i] = exp2(max(weight[i] - reference[t][i], -126.0));
                total[t][i] += weight[i];
            }
            uint at = group_scratch + t * M * WEIGHT_STRIDE + (column_group * SCORE_TILES + n) * N / 8;
            coopMatStore(Halves(weight), scratch, at, WEIGHT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
}
