// The parts of a step: a sequence's rows in order of position, and where its states are (`recurrent/run.rs`). Include after types.glsl.

struct Run {
    uint from;   // slot of the states before the rows; NO_STATE: zero
    uint to;     // slot of the states after them; NO_STATE: rows that only fill up a step
    uint first;  // the first rows
    uint count;  // how many there are
    uint second; // the rows after those
    uint total;  // rows in all; 0: no part
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer RunsIn { Run v[]; };

const uint NO_STATE = 0xffffffffu;

// The batch's row of token `i` of a run.
uint run_row(Run run, uint i) {
    return i < run.count ? run.first + i : run.second + (i - run.count);
}

// Whether a delta net does a part in chunks, where that is for parts of more than `most` rows.
bool is_chunked(Run run, uint most) {
    return run.total > most && run.to != NO_STATE;
}
