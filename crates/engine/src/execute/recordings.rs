//! Recordings that are kept to be submitted again.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, a bounded number: the one that was not used for longest makes room.
pub struct Recordings<K, V> {
    most: usize,
    uses: u64,
    values: HashMap<K, (u64, V)>,
}

impl<K: Eq + Hash + Copy, V> Recordings<K, V> {
    /// At most `most` values.
    pub fn new(most: usize) -> Recordings<K, V> {
        Recordings { most, uses: 0, values: HashMap::new() }
    }

    /// Whether there is a value.
    pub fn contains(&self, key: &K) -> bool {
        self.values.contains_key(key)
    }

    /// The value of a key, which counts as used.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.uses += 1;
        let (used, value) = self.values.get_mut(key)?;
        *used = self.uses;
        Some(value)
    }

    /// Keeps a value; may drop another one.
    pub fn insert(&mut self, key: K, value: V) {
        if self.values.len() >= self.most {
            let oldest = self.values.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            oldest.map(|key| self.values.remove(&key));
        }
        self.uses += 1;
        self.values.insert(key, (self.uses, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let mut kept = Recordings::new(2);
        kept.insert(1, "a");
        kept.insert(2, "b");
        assert_eq!(kept.get(&1), Some(&"a"));
        kept.insert(3, "c");
        assert!(kept.contains(&1) && !kept.contains(&2) && kept.contains(&3));
        kept.insert(4, "d");
        assert_eq!([1, 2, 3, 4].map(|k| kept.get(&k).copied()), [None, None, Some("c"), Some("d")]);
    }
}
