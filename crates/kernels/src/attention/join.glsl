// The blocks of a row and a workgroup's heads, joined in the order of glsl/attention.glsl by the workgroup that is the last to come: of few
// blocks all at once, of more each span by the last of its workgroups (or by the one that has all its blocks), then the spans by the last of those. A sink is one more logit in
// exponent and denominator.
//
// `parts`: counters, then [row][head][slot](values; exponent, sum, 2 unused): a slot a block, behind them one a span.

// Bytes of the counters: how many workgroups have come. Between dispatches they are 0.
const uint COUNTER_BYTES = 1 << 20;

const uint COLUMNS = VALUE_SIZE / 4;

#include "last.glsl"

uint max_blocks() { return WHOLE_SPANS ? 0 : gl_NumWorkGroups.x; }
uint max_spans() { return WHOLE_SPANS ? gl_NumWorkGroups.x : (max_blocks() + SPAN - 2) / SPAN + 1; }

// Where a part of one of the workgroup's heads begins.
uint part_at(uint head, uint slot) {
    uint of_head = (row * kv_heads * GROUP + first_head + head) * (max_blocks() + max_spans());
    return COUNTER_BYTES / 16 + (of_head + slot) * (COLUMNS + 1);
}

// Whether `count` workgroups have come to a counter of the row and its heads.
bool last_of(uint counter, uint count) {
    return comes_last(CommonU32(p.parts), (row * gl_NumWorkGroups.y + gl_WorkGroupID.y) * (1 + max_spans()) + counter, count);
}

// Four columns of a head's values and the sum of its weights, both times 2^-exponent.
struct Sums { vec4 value; float sum, exponent; };

const Sums NO_SUMS = Sums(vec4(0.0), 0.0, HIDDEN);

// Sums of what comes before, and after.
Sums add(Sums a, Sums b) {
    float exponent = max(a.exponent, b.exponent);
    float of_a = power_of_two(a.exponent - exponent), of_b = power_of_two(b.exponent - exponent);
    return Sums(fma(vec4(of_b), b.value, of_a * a.value), fma(of_b, b.sum, of_a * a.sum), exponent);
}

void store_part(uint head, uint slot, uint column, Sums part) {
    uint at = part_at(head, slot);
    p.parts.v[at + column] = part.value;
    if (column == 0) p.parts.v[at + COLUMNS] = vec4(part.exponent, part.sum, 0.0, 0.0);
}

// The slots first .. end of a head, in order.
Sums add_parts(uint head, uint first, uint end, uint column) {
    Sums all = NO_SUMS;
    for (uint slot = first; slot < end; slot += AHEAD) {
        vec4 value[AHEAD], tail[AHEAD];
        [[unroll]] for (uint j = 0; j < AHEAD; j++) {
            uint at = part_at(head, min(slot + j, end - 1));
            value[j] = p.parts.v[at + column];
            tail[j] = p.parts.v[at + COLUMNS];
        }
        float exponent = all.exponent;
        [[unroll]] for (uint j = 0; j < AHEAD; j++) exponent = max(exponent, tail[j].x);
        float of_all = power_of_two(all.exponent - exponent);
        all = Sums(of_all * all.value, of_all * all.sum, exponent);
        [[unroll]] for (uint j = 0; j < AHEAD; j++) {
            float scale = slot + j < end ? power_of_two(tail[j].x - exponent) : 0.0;
            all.value = fma(vec4(scale), value[j], all.value);
            all.sum = fma(scale, tail[j].y, all.sum);
        }
    }
    return all;
}

// `by`: what the columns are multiplied with.
void write_result(uint head, uint column, Sums all, vec4 by) {
    if (has_sinks()) {
        float sink = p.sinks.v[first_head + head];
        all = add(Sums(vec4(0.0), 0.0, exponent(sink)), all);
        all.sum += weight_of(sink, all.exponent);
    }
    vec4 result = normalise(all.value, all.sum) * by;
    uint o = row * out_stride() + (first_head + head) * VALUE_SIZE + 4 * column;
    [[unroll]] for (uint i = 0; i < 4; i++) p.out_.v[o + i] = result[i];
}

// The spans of a row, which lie behind its blocks, joined by the workgroup that is the last to come with one.
void join_spans(uint heads, uint spans) {
    if (!last_of(0, spans)) return;
    for (uint i = gl_LocalInvocationIndex; i < heads * COLUMNS; i += THREADS) {
        uint head = i / COLUMNS, column = i % COLUMNS;
        vec4 by = openings(first_head + head, column);
        write_result(head, column, add_parts(head, max_blocks(), max_blocks() + spans, column), by);
    }
}

// Of a row's blocks first .. end, the workgroup has written `block`.
void join_blocks(uint heads, uint first, uint end, uint block) {
    uint first_span = first / SPAN, end_span = (end + SPAN - 1) / SPAN, own_span = block / SPAN;
    if (end - first <= AT_ONCE) {
        if (!last_of(0, end - first)) return;
        for (uint i = gl_LocalInvocationIndex; i < heads * COLUMNS; i += THREADS) {
            uint head = i / COLUMNS, column = i % COLUMNS;
            // Asked for with the parts.
            vec4 by = openings(first_head + head, column);
            Sums all = NO_SUMS;
            for (uint span = first_span; span < end_span; span++) {
                uint from = max(span * SPAN, first), to = min((span + 1) * SPAN, end);
                all = add(all, add_parts(head, from - first, to - first, column));
            }
            write_result(head, column, all, by);
        }
        return;
    }
    uint from = max(own_span * SPAN, first), to = min((own_span + 1) * SPAN, end);
    if (!last_of(1 + own_span - first_span, to - from)) return;
    for (uint i = gl_LocalInvocationIndex; i < heads * COLUMNS; i += THREADS) {
        uint head = i / COLUMNS, column = i % COLUMNS;
        Sums span = add_parts(head, from - first, to - first, column);
        store_part(head, max_blocks() + own_span - first_span, column, span);
    }
    join_spans(heads, end_span - first_span);
}
