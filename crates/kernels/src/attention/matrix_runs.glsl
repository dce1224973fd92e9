// The runs of rows of one sequence in a tile, one after the other. Include after `attend`.
void attend_runs() {
    uint limit = min(p.row_count - tile_row, ROWS);
    for (uint start = 0; start < limit;) {
        uint sequence = p.rows.v[tile_row + start].sequence, end = start;
        uint low = ~0u, high = 0, all_from = 0, all_to = ~0u;
        while (end < limit && p.rows.v[tile_row + end].sequence == sequence) {
            uint position = p.rows.v[tile_row + end].position, first = visible_from(position);
            low = min(low, first);
            high = max(high, position);
            all_from = max(all_from, first);
            all_to = min(all_to, position);
            end++;
        }
        attend(start, end, sequence, low, high, all_from, all_to);
        start = end;
    }
}
