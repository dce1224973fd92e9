// What delta_prepare.comp leaves to delta_chunks.comp of each chunk and head: f32, behind one another. Include after runs.glsl.

// Rows of a chunk.
const uint CHUNK = 64;

layout(constant_id = 2) const uint KEY_SIZE = 128;
layout(constant_id = 3) const uint VALUE_SIZE = 128;
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint KEY_HEADS = 1;
layout(constant_id = 6) const bool GROUPED = false;
layout(constant_id = 7) const uint K_STRIDE = 1;
layout(constant_id = 8) const uint OUT_STRIDE = 1;

// First elements: factors of the state [row][key], those of the outputs [row][key], what is added to them [row][value], and each row's decay
// until the end of the chunk, behind which the whole chunk's is.
const uint STATE_FACTORS = 0;
const uint OUT_FACTORS = CHUNK * KEY_SIZE;
const uint UPDATES = 2 * CHUNK * KEY_SIZE;
const uint DECAYS = UPDATES + CHUNK * VALUE_SIZE;
const uint CHUNK_BYTES = 4 * (DECAYS + CHUNK + 4);

uint chunks_of(Run run, uint most) {
    return is_chunked(run, most) ? (run.total + CHUNK - 1) / CHUNK : 0;
}

uint key_head_of(uint head) {
    return GROUPED ? head / (HEADS / KEY_HEADS) : head % KEY_HEADS;
}
