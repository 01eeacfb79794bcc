//! A bounded map of what was used lately.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, mem};

/// Keeps between one and two times `half` entries: those used lately, and some of the older ones.
///
/// Two maps take turns. What is used moves to the newer one; when that is full the older one is forgotten. This costs
/// nothing to maintain, unlike a list in the order of use, and is as good where it matters: in keeping what is hot.
///
/// ```
/// let mut cache = base::TwoGenerationCache::new(2);
/// cache.insert("a", 1);
/// assert_eq!(cache.get("a"), Some(&1));
/// ```
#[derive(Debug)]
pub struct TwoGenerationCache<K, V> {
    new: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Hash + Eq, V> TwoGenerationCache<K, V> {
    /// An empty map; `half` is at least 1.
    #[must_use]
    pub fn new(half: usize) -> Self {
        Self { new: HashMap::new(), old: HashMap::new(), half: half.max(1) }
    }

    /// The value of `key`, which counts as used.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if !self.new.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert(key, value);
        }
        self.new.get(key)
    }

    /// Remembers a value; the one before it is forgotten. The older map is returned when its turn is over: to drop thousands
    /// takes milliseconds, so whoever holds a lock that others wait for drops them after it.
    pub fn insert(&mut self, key: K, value: V) -> HashMap<K, V> {
        let mut forgotten = HashMap::new();
        if self.new.len() >= self.half && !self.new.contains_key(&key) {
            let full = mem::replace(&mut self.new, HashMap::with_capacity(self.half));
            forgotten = mem::replace(&mut self.old, full);
        }
        self.old.remove(&key);
        self.new.insert(key, value);
        forgotten
    }

    /// Forgets a value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.new.remove(key);
        self.old.remove(key);
    }

    /// Entries now: at most twice the `half` that [`TwoGenerationCache::new`] was given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.new.len() + self.old.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn what_is_found_is_what_was_put_last(
            half in 1usize..5,
            steps in prop::collection::vec((0u8..8, any::<Option<u16>>(), any::<bool>()), 0..200),
        ) {
            let mut cache = TwoGenerationCache::new(half);
            let mut all = HashMap::new();
            for (key, value, is_removal) in steps {
                match value {
                    _ if is_removal => {
                        cache.remove(&key);
                        all.remove(&key);
                    }
                    Some(value) => {
                        cache.insert(key, value);
                        all.insert(key, value);
                        prop_assert_eq!(cache.get(&key), Some(&value));
                    }
                    None => {
                        if let Some(found) = cache.get(&key) {
                            prop_assert_eq!(Some(found), all.get(&key));
                        }
                    }
                }
                prop_assert!(cache.len() <= 2 * half);
            }
        }
    }

    #[test]
    fn what_is_used_stays() {
        let mut cache = TwoGenerationCache::new(4);
        cache.insert(0, "hot");
        for key in 1..100 {
            cache.insert(key, "cold");
            assert_eq!(cache.get(&0), Some(&"hot"));
        }
        assert_eq!(cache.get(&1), None);
    }

    /// Values may be open files: what is removed, or forgotten, is nowhere any more.
    #[test]
    fn it_holds_no_more_than_it_says() {
        const HALF: usize = 10;
        let value = Arc::new(());
        let mut cache = TwoGenerationCache::new(HALF);
        for key in 0..10 * HALF {
            cache.insert(key, Arc::clone(&value));
            assert_eq!(Arc::strong_count(&value), 1 + cache.len());
        }
        (0..10 * HALF).for_each(|key| cache.remove(&key));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
