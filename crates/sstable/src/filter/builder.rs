//! A filter that is being made.

use super::{BloomFilter, FilterSize};

/// Bits that are known before they are set, at most: those of some keys. What is between them is long enough for memory to come from anywhere,
/// and so few lines stay where they were brought to. An arbitrary number in between.
const BITS_AHEAD: usize = 128;

/// Takes keys one by one. Their bits are set some keys later: the memory of each is asked for as soon as the key is known, and nobody
/// waits for it.
pub(crate) struct FilterBuilder {
    filter: BloomFilter,
    /// Bits that are not set yet.
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

    /// The filter with all keys.
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
        fn it_makes_what_keys_that_are_added_at_once_make(
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
