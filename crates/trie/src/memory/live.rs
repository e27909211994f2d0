//! The set of blocks with contents that must be dropped in the end. Contents that need no dropping
//! are not recorded.
//!
//! Memory bound: a bit for each block, and at most as much again while it grows.

#[derive(Default)]
pub(crate) struct Live {
    words: Vec<u64>,
}

impl Live {
    #[inline]
    pub(crate) fn add(&mut self, index: u32) {
        let word = index as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (index % 64);
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        if let Some(word) = self.words.get_mut(index as usize / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// Removes the last block and returns it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        loop {
            let word = self.words.last_mut()?;
            if let Some(bit) = word.checked_ilog2() {
                *word &= !(1 << bit);
                return Some((self.words.len() as u32 - 1) * 64 + bit);
            }
            self.words.pop();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Returns the blocks, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.words).flat_map(|(number, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(number * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Live;

    #[test]
    fn lists_indices_that_were_added_and_not_removed() {
        let mut live = Live::default();
        for index in [5, 0, 63, 64, 1000, 127, 128] {
            live.add(index);
        }
        live.remove(64);
        live.remove(99_999);
        assert_eq!(live.iter().collect::<Vec<_>>(), [0, 5, 63, 127, 128, 1000]);
        let popped: Vec<_> = std::iter::from_fn(|| live.pop()).collect();
        assert_eq!(popped, [1000, 128, 127, 63, 5, 0]);
        assert_eq!(live.iter().count(), 0);
    }
}
