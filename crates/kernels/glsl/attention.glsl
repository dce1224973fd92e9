// What the two attention kernels share.

// Score of a key that a row does not see.
const float HIDDEN = -3.4028235e38;

// Elements of a block's result after its values: maximum, sum, padding to 16 bytes.
const uint PART_EXTRA = 4;

// The first position that a row sees: key j is visible to row i iff i - j < window.
uint first_visible(uint position, uint window) {
    return window != 0 && position >= window ? position + 1 - window : 0;
}
