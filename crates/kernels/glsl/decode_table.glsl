// For formats whose codes are looked up. The table lies in shared memory: its sixteen entries are in sixteen banks, so lanes never wait
// for each other. A kernel calls `table_init()` before the first `run_codes`.

shared float table[16];

float nibble_value(uint w, uint shift) {
    return table[(w >> shift) & 15u];
}

vec4 low_nibble_values(uint w) {
    return vec4(nibble_value(w, 0), nibble_value(w, 8), nibble_value(w, 16), nibble_value(w, 24));
}

vec4 high_nibble_values(uint w) {
    return vec4(nibble_value(w, 4), nibble_value(w, 12), nibble_value(w, 20), nibble_value(w, 28));
}
