//! The builder adds keys to a filter and prefetches the memory of their bits.

use super::{BloomFilter, FilterSize};

/// Maximum number of bits that the builder has computed and not yet set: the bits of some keys
/// (arbitrary). It is large enough for a prefetch from main memory to complete, and small enough
/// for the prefetched cache lines to stay in the cache until they are used.
const BITS_AHEAD: usize = 128;

/// A builder that takes keys one by one. It prefetches the memory of a key's bits when the key is
/// added, and sets the bits some keys later, so that it does not wait for memory.
pub(crate) struct FilterBuilder {
    filter: BloomFilter,
    /// Bits that are not yet set.
    ahead: Vec<usize>,
}

impl FilterBuilder {
    pub(crate) fn new(size: FilterSize) -> Self {
        Self { filter: BloomFilter::new(size), ahead: Vec::with_capacity(BITS_AHEAD) }
    }

    /// Adds a key by the two halves of its Murmur3 hash.
    #[inline]
    pub(crate) fn add_hash(&mut self, hash: (u64, u64)) {
        if self.ahead.len() + self.filter.hash_count() as usize > BITS_AHEAD {
            self.set_all();
        }
        for position in self.filter.positions(hash) {
            self.filter.prefetch(position);
            self.ahead.push(position);
        }
    }

    /// Returns the filter with all keys.
    pub(crate) fn finish(mut self) -> BloomFilter {
        self.set_all();
        self.filter
    }

    fn set_all(&mut self) {
        self.ahead.drain(..).for_each(|position| self.filter.set(position));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_builder_makes_the_filter_of_keys_added_at_once(
            hashes in prop::collection::vec(any::<(u64, u64)>(), 0..100),
            keys in 1u64..200,
        ) {
            let Some(size) = FilterSize::for_keys(keys, 0.01) else { return Ok(()) };
            let (mut builder, mut filter) = (FilterBuilder::new(size), BloomFilter::new(size));
            for hash in &hashes {
                builder.add_hash(*hash);
                filter.add_hash(*hash);
            }
            prop_assert_eq!(builder.finish(), filter);
        }
    }
}
