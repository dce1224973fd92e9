//! Sizes at which tiled code goes wrong.

/// Sizes to try for a dimension that a kernel covers in tiles of `tile`: 1, tile−1, tile, tile+1, a prime, many tiles.
pub fn shape_classes(tile: usize) -> Vec<usize> {
    let mut sizes = vec![1, tile.saturating_sub(1), tile, tile + 1, next_prime(2 * tile + 1), 5 * tile];
    sizes.retain(|&n| n > 0);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn next_prime(from: usize) -> usize {
    (from.max(2)..).find(|&n| (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_surround_the_tile() {
        assert_eq!(shape_classes(8), vec![1, 7, 8, 9, 17, 40]);
        assert_eq!(shape_classes(1), vec![1, 2, 3, 5]);
    }
}
