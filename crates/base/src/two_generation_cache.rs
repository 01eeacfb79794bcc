//! A bounded map of what was used lately, shared by threads.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Keeps between one and two times `half` entries: those used lately, and some of the older ones.
///
/// Two maps take turns. An entry that is used moves to the newer map. When that is full, the older map is dropped. This
/// costs nothing to maintain, unlike a list in the order of use, and keeps hot entries equally well.
///
/// # Locks
///
/// Each call holds a lock of its own while it looks or stores, and under it calls nothing but `Clone` of the value. Old
/// entries are dropped after the lock is released: to drop thousands of them takes milliseconds, and one may be an open
/// file.
///
/// ```
/// let cache = base::TwoGenerationCache::new(2);
/// cache.insert("a", 1);
/// assert_eq!(cache.get("a"), Some(1));
/// ```
#[derive(Debug)]
pub struct TwoGenerationCache<K, V> {
    generations: Mutex<Generations<K, V>>,
    half: usize,
}

impl<K: Hash + Eq, V: Clone> TwoGenerationCache<K, V> {
    /// An empty map; `half` is at least 1.
    #[must_use]
    pub fn new(half: usize) -> Self {
        Self { generations: Mutex::default(), half: half.max(1) }
    }

    /// The value of `key`, which counts as used.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (value, evicted) = self.lock().get(key, self.half);
        drop(evicted);
        value
    }

    /// Remembers a value; the one before it is forgotten.
    pub fn insert(&self, key: K, value: V) {
        let evicted = self.lock().insert(key, value, self.half);
        drop(evicted);
    }

    /// Forgets a value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let evicted = self.lock().remove(key);
        drop(evicted);
    }

    /// Forgets all values.
    pub fn clear(&self) {
        let evicted = mem::take(&mut *self.lock());
        drop(evicted);
    }

    /// Entries now: at most twice the `half` that [`TwoGenerationCache::new`] was given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The two maps.
#[derive(Debug)]
struct Generations<K, V> {
    new: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self { new: HashMap::new(), old: HashMap::new() }
    }
}

/// What a call has pushed out of the map.
#[must_use = "what is evicted is dropped after the lock is released"]
struct Evicted<K, V> {
    _generation: HashMap<K, V>,
    _entries: [Option<V>; 2],
}

impl<K: Hash + Eq, V: Clone> Generations<K, V> {
    fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, half: usize) -> (Option<V>, Option<Evicted<K, V>>)
    where
        K: Borrow<Q>,
    {
        if let Some(value) = self.new.get(key) {
            return (Some(value.clone()), None);
        }
        let Some((key, value)) = self.old.remove_entry(key) else { return (None, None) };
        let evicted = self.insert(key, value.clone(), half);
        (Some(value), Some(evicted))
    }

    fn insert(&mut self, key: K, value: V, half: usize) -> Evicted<K, V> {
        let mut generation = HashMap::new();
        if self.new.len() >= half && !self.new.contains_key(&key) {
            let full = mem::replace(&mut self.new, HashMap::with_capacity(half));
            generation = mem::replace(&mut self.old, full);
        }
        let entries = [self.old.remove(&key), self.new.insert(key, value)];
        Evicted { _generation: generation, _entries: entries }
    }

    fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Evicted<K, V>
    where
        K: Borrow<Q>,
    {
        Evicted { _generation: HashMap::new(), _entries: [self.new.remove(key), self.old.remove(key)] }
    }

    fn len(&self) -> usize {
        self.new.len() + self.old.len()
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
            let cache = TwoGenerationCache::new(half);
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
                        prop_assert_eq!(cache.get(&key), Some(value));
                    }
                    None => {
                        if let Some(found) = cache.get(&key) {
                            prop_assert_eq!(Some(&found), all.get(&key));
                        }
                    }
                }
                prop_assert!(cache.len() <= 2 * half);
            }
        }
    }

    #[test]
    fn what_is_used_stays() {
        let cache = TwoGenerationCache::new(4);
        cache.insert(0, "hot");
        for key in 1..100 {
            cache.insert(key, "cold");
            assert_eq!(cache.get(&0), Some("hot"));
        }
        assert_eq!(cache.get(&1), None);
    }

    /// A value that, when it is dropped, asks the cache that held it.
    #[derive(Clone)]
    struct Asks(Arc<TwoGenerationCache<u8, Asks>>);

    impl Drop for Asks {
        fn drop(&mut self) {
            assert!(self.0.generations.try_lock().is_ok(), "dropped under the lock");
        }
    }

    #[test]
    fn what_is_evicted_is_dropped_outside_of_the_lock() {
        let cache = Arc::new(TwoGenerationCache::new(2));
        let value = || Asks(Arc::clone(&cache));
        // Evicted by a new key, replaced, evicted by a key that is used, removed, forgotten with all others.
        (0..6).for_each(|key| cache.insert(key, value()));
        cache.insert(5, value());
        cache.insert(3, value());
        (0..6).for_each(|key| drop(cache.get(&key)));
        (0..2).for_each(|key| cache.remove(&key));
        (0..6).for_each(|key| cache.insert(key, value()));
        cache.clear();
        assert!(cache.is_empty());
        assert_eq!(Arc::strong_count(&cache), 1);
    }

    /// Values may be open files: what is removed, or forgotten, is nowhere any more.
    #[test]
    fn it_holds_no_more_than_it_says() {
        const HALF: usize = 10;
        let value = Arc::new(());
        let cache = TwoGenerationCache::new(HALF);
        for key in 0..10 * HALF {
            cache.insert(key, Arc::clone(&value));
            assert_eq!(Arc::strong_count(&value), 1 + cache.len());
        }
        (0..10 * HALF).for_each(|key| cache.remove(&key));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
