//! The warnings that one request collects for its client.

use std::cell::RefCell;

/// Maximum number of warnings, and maximum length of one in bytes: the protocol counts both with 16
/// bits.
const MAX_WARNINGS: usize = u16::MAX as usize;

/// Collects the warnings of one request. It belongs to the task that serves the request; a part of
/// the request that runs on another shard has warnings of its own, which the caller adds.
#[derive(Debug, Default)]
pub struct Warnings {
    texts: RefCell<Vec<String>>,
}

impl Warnings {
    /// Adds a warning, cut to what the protocol can carry. Drops warnings past 65,535.
    pub fn add(&self, mut text: String) {
        let mut texts = self.texts.borrow_mut();
        if texts.len() < MAX_WARNINGS {
            let mut length = text.len().min(MAX_WARNINGS);
            while !text.is_char_boundary(length) {
                length -= 1;
            }
            text.truncate(length);
            texts.push(text);
        }
    }

    /// Adds the warnings of another part of the request.
    pub fn extend(&self, texts: Vec<String>) {
        texts.into_iter().for_each(|text| self.add(text));
    }

    /// Returns the warnings in their order, and forgets them.
    pub fn take(&self) -> Vec<String> {
        self.texts.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_warning_is_cut_between_characters() {
        let warnings = Warnings::default();
        warnings.add("é".repeat(40_000));
        let texts = warnings.take();
        assert_eq!(texts[0].len(), 65_534);
        assert!(warnings.take().is_empty());
    }
}
