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

// The entries as signed bytes, for kernels that multiply integers: they fill it.
shared uint byte_table[16];

uint nibble_byte(uint w, uint shift) {
    return byte_table[(w >> shift) & 15u];
}

uint low_nibble_bytes(uint w) {
    return nibble_byte(w, 0) | (nibble_byte(w, 8) << 8) | (nibble_byte(w, 16) << 16) | (nibble_byte(w, 24) << 24);
}

uint high_nibble_bytes(uint w) {
    return nibble_byte(w, 4) | (nibble_byte(w, 12) << 8) | (nibble_byte(w, 20) << 16) | (nibble_byte(w, 28) << 24);
}
