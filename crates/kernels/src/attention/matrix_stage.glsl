// Tiles of rows on matrix cores (matrix_tile.glsl): queries, keys and values on their way through shared memory.

uint two_halves(float a, float b) {
    return half_bits(clamp(a, -65504.0, 65504.0)) | half_bits(clamp(b, -65504.0, 65504.0)) << 16;
}

uvec4 eight_halves(vec4 a, vec4 b) {
    return uvec4(two_halves(a.x, a.y), two_halves(a.z, a.w), two_halves(b.x, b.y), two_halves(b.z, b.w));
}

#ifdef KV_Q8_0
// Two codes times their scale. In the mantissa of 1024, less 128, they are exact.
uint two_codes(uint codes, f16vec2 scale) {
    uint bytes = ((codes & 0xffu) | (codes & 0xff00u) << 8) ^ 0x00800080u;
    return packFloat2x16((unpackFloat2x16(bytes | 0x64006400u) - float16_t(1152.0)) * scale);
}
#endif

// Eight elements of the cache.
uvec4 chunk_halves(KvChunk chunk) {
#if defined(KV_F16)
    return chunk;
#elif defined(KV_Q8_0)
    f16vec2 scale = unpackFloat2x16(chunk.scale | chunk.scale << 16);
    return uvec4(two_codes(chunk.codes.x, scale), two_codes(chunk.codes.x >> 16, scale),
                 two_codes(chunk.codes.y, scale), two_codes(chunk.codes.y >> 16, scale));
#else
    return eight_halves(chunk.low, chunk.high);
#endif
}

uint visible_from(uint position) {
    return p.window != 0 && position >= p.window ? position + 1 - p.window : 0;
}

// What the queries of rows start .. end see, and that the others see nothing.
void find_queries(uint start, uint end) {
    for (uint m = self; m < QUERIES; m += THREADS) {
        uint r = m / HEADS;
        bool used = r >= start && r < end;
        uint position = used ? p.rows.v[tile_row + r].position : 0;
        query_first[m] = used ? visible_from(position) : 1;
        query_last[m] = position;
    }
}

// Chunks beyond the head are 0.
void store_keys(uint slice) {
    [[unroll]] for (uint j = 0; j < KEY_LOADS; j++) {
        uint i = self + j * THREADS, t = i % STAGE_CHUNKS;
        if (i >= KEY_ITEMS) break;
        bool used = slice * STAGE_CHUNKS + t < KEY_CHUNKS;
        stage[buffer_ * BUFFER + i / STAGE_CHUNKS * KEY_STRIDE + t] = used ? chunk_halves(bits[j]) : uvec4(0);
    }
}

// Of the stage's keys those from first to last; the others' are 0, since nobody may have written them.
void store_values(uint first, uint last) {
    [[unroll]] for (uint j = 0; j < VALUE_LOADS; j++) {
        uint i = self + j * THREADS, chunk = i % COLUMN_CHUNKS;
        if (i >= VALUE_ITEMS) break;
        bool used = chunk < VALUE_CHUNKS && i / COLUMN_CHUNKS >= first && i / COLUMN_CHUNKS <= last;
        stage[buffer_ * BUFFER + i / COLUMN_CHUNKS * VALUE_STRIDE + chunk] = used ? chunk_halves(bits[j]) : uvec4(0);
    }
}

// Eight elements of a query, 0 where there are none.
uvec4 query_chunk(uint m, uint chunk) {
    uint row = tile_row + m / HEADS, h = m % HEADS;
    if (m >= ROWS * HEADS || row >= p.row_count || h >= heads || chunk >= KEY_CHUNKS) return uvec4(0);
    uint from = row * p.q_stride + (first_head + h) * KEY_SIZE + 8 * chunk;
    vec4 low, high;
    if (ALIGNED) {
        low = Vec4In(p.q).v[from / 4];
        high = Vec4In(p.q).v[from / 4 + 1];
    } else {
        low = vec4(p.q.v[from], p.q.v[from + 1], p.q.v[from + 2], p.q.v[from + 3]);
        high = vec4(p.q.v[from + 4], p.q.v[from + 5], p.q.v[from + 6], p.q.v[from + 7]);
    }
    precise vec4 low_scaled = low * p.query_scale, high_scaled = high * p.query_scale;
    return eight_halves(low_scaled, high_scaled);
}

void load_queries() {
    [[unroll]] for (uint pass = 0; pass < QUERY_PASSES; pass++) {
        barrier();
        [[dont_unroll]] for (uint i = self; i < QUERIES * QUERY_CHUNKS; i += THREADS) {
            uint m = i / QUERY_CHUNKS, t = i % QUERY_CHUNKS;
            stage[m * QUERY_STRIDE + t] = query_chunk(m, pass * QUERY_CHUNKS + t);
        }
        barrier();
        [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
            [[unroll]] for (uint s = 0; s < QUERY_STEPS; s++) {
                uint step_ = pass * QUERY_STEPS + s;
                if (step_ >= KEY_STEPS) break;
                uint at = (first_query + t * M) * QUERY_STRIDE + s * K / 8;
                coopMatLoad(query[t * KEY_STEPS + step_], stage, at, QUERY_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
    }
}
