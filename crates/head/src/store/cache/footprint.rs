//! How many bytes of memory values take, as the allocator sees them.
//!
//! **Problem.** A cache is bounded in bytes of memory, because an operator knows these and not how many files fit into
//! them. A value takes more than its size: the allocator rounds each block up, and a hash table has space for entries
//! that it does not hold. A node cache that counted sizes only would exceed its bound.
//!
//! **Idea.** Each function returns what the allocator of glibc takes for one kind of value. A cache adds it when an
//! entry comes and subtracts the same when it goes, so nothing is measured at run time. A test of the node cache
//! compares the sum with the resident memory of a process that holds nothing else. It notices another allocator, or
//! another hash table in the standard library.
//!
//! Cache crates that bound by weight (`moka`, `quick_cache`) do not replace this. They take the weight of an entry from
//! a function like [`block`], leave out their own tables, and do not know that one node is found by number, by name and
//! by object.

use std::collections::HashMap;

/// Smallest block that the allocator hands out: room for the links by which it finds the block again once it is free.
const BLOCK_BYTES_MIN: usize = 32;
/// What stands before each block: its size.
const BLOCK_BYTES_EXTRA: usize = 8;
/// Blocks begin at multiples of this.
const BLOCK_ALIGNMENT: usize = 16;
/// Counters that stand before the content of an `Arc`: of strong and of weak references.
const ARC_BYTES: usize = 16;
/// Entries of a hash table that are looked at together; the last of them are stored a second time behind the end.
const TABLE_GROUP_BYTES: usize = 16;

/// What the allocator takes for `bytes`.
pub(super) fn block(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    (bytes + BLOCK_BYTES_EXTRA).next_multiple_of(BLOCK_ALIGNMENT).max(BLOCK_BYTES_MIN)
}

/// What a `T` takes that is shared.
pub(super) fn arc<T>() -> usize {
    block(ARC_BYTES + size_of::<T>())
}

/// What a hash table for `capacity` entries of `entry` bytes takes: buckets are a power of two, filled to 7/8 at most, and
/// each has a byte of its own.
fn table(capacity: usize, entry: usize) -> usize {
    if capacity == 0 {
        return 0;
    }
    let buckets = (capacity * 8 / 7).next_power_of_two();
    block(buckets * (entry + 1) + TABLE_GROUP_BYTES)
}

/// What the table of a map takes.
pub(super) fn table_of<K, V>(map: &HashMap<K, V>) -> usize {
    table(map.capacity(), size_of::<(K, V)>())
}

/// What the table of a map will take once it has one entry more: a full one doubles, the first has room for three.
pub(super) fn table_with_one_more<K, V>(map: &HashMap<K, V>) -> usize {
    let is_full = map.len() == map.capacity();
    table(if is_full { (map.capacity() * 2).max(3) } else { map.capacity() }, size_of::<(K, V)>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_rounded_as_the_allocator_does() {
        assert_eq!([0, 1, 24, 25, 40, 41].map(block), [0, 32, 32, 48, 48, 64]);
        assert_eq!(arc::<u64>(), 32);
    }

    #[test]
    fn a_table_takes_what_was_said_before_it_grew() {
        let mut map = HashMap::new();
        for key in 0..10_000u64 {
            let said = table_with_one_more(&map);
            map.insert(key, key);
            assert_eq!(table_of(&map), said, "{key}");
        }
    }
}
