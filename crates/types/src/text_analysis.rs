//! The analysis of texts, which makes the form in which an index compares them.
//!
//! The steps and their order are those of Cassandra's storage-attached indexes, and of the
//! analyzers of its SASI indexes: letter case, Unicode normalisation (NFC), ASCII folding.
//! `text_analysis/ascii_folding.txt` has the characters that Lucene 9.7's ASCIIFoldingFilter
//! replaces, with their replacements, as the filter returned them.

use std::{borrow::Cow, sync::LazyLock};

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The case that an analysis gives to letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LetterCase {
    /// The case of the text.
    #[default]
    Unchanged,
    /// Lower case.
    Lower,
    /// Upper case.
    Upper,
}

impl LetterCase {
    /// Returns a text in this case.
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Unchanged => Cow::Borrowed(text),
            Self::Lower => Cow::Owned(text.to_lowercase()),
            Self::Upper => Cow::Owned(text.to_uppercase()),
        }
    }
}

/// The steps of an analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAnalysis {
    /// The case in which texts are compared.
    pub case: LetterCase,
    /// True if texts are compared in Unicode's normalisation form C.
    pub normalizes: bool,
    /// True if letters are compared without their accents, and signs as their ASCII equivalents.
    pub folds_to_ascii: bool,
}

impl TextAnalysis {
    /// Returns whether the analysis leaves all texts as they are.
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Returns the form of a text. Bytes that are no UTF-8 stay as they are.
    pub fn apply(self, text: &[u8]) -> Cow<'_, [u8]> {
        if self.is_plain() {
            return Cow::Borrowed(text);
        }
        let Ok(mut form) = std::str::from_utf8(text).map(Cow::Borrowed) else {
            return Cow::Borrowed(text);
        };
        if self.case != LetterCase::Unchanged {
            form = self.case.apply(&form).into_owned().into();
        }
        if self.normalizes && !is_nfc(&form) {
            form = form.nfc().collect::<String>().into();
        }
        if self.folds_to_ascii && !form.is_ascii() {
            form = folded(&form).into();
        }
        match form {
            Cow::Borrowed(form) => Cow::Borrowed(form.as_bytes()),
            Cow::Owned(form) => Cow::Owned(form.into_bytes()),
        }
    }
}

/// The replaced characters in ascending order, each with its replacement.
static REPLACEMENTS: LazyLock<Vec<(char, &str)>> = LazyLock::new(|| {
    let lines = include_str!("text_analysis/ascii_folding.txt").lines();
    lines.filter_map(replacement_of).collect()
});

fn replacement_of(line: &str) -> Option<(char, &str)> {
    let (code, replacement) = line.split_once(' ')?;
    Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, replacement))
}

fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        match REPLACEMENTS.binary_search_by_key(&character, |(replaced, _)| *replaced) {
            Ok(index) => folded.push_str(REPLACEMENTS[index].1),
            Err(_) => folded.push(character),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str, (is_lower, normalizes, ascii): (bool, bool, bool)) -> String {
        let case = if is_lower { LetterCase::Lower } else { LetterCase::Unchanged };
        let analysis = TextAnalysis { case, normalizes, folds_to_ascii: ascii };
        String::from_utf8(analysis.apply(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn each_step_is_that_of_cassandra() {
        let (case, nfc, ascii) = ((true, false, false), (false, true, false), (false, false, true));
        assert_eq!(form("Straße CAFÉ", (false, false, false)), "Straße CAFÉ");
        assert_eq!(form("Straße CAFÉ ΑΣ İ", case), "straße café ας i\u{307}");
        assert_eq!(form("cafe\u{301}", nfc), "café");
        assert_eq!(form("ﬁ", nfc), "ﬁ");
        assert_eq!(form("Straße Æon ﬁre İ Ａ１—“x” Ж", ascii), "Strasse AEon fire I A1-\"x\" Ж");
        // A combining accent is a character of its own, which the filter does not replace.
        assert_eq!(form("e\u{301}", ascii), "e\u{301}");
        assert_eq!(form("CAFE\u{301}", (true, true, true)), "cafe");
    }

    #[test]
    fn other_bytes_stay_as_they_are() {
        let all = TextAnalysis { case: LetterCase::Lower, normalizes: true, folds_to_ascii: true };
        assert_eq!(&*all.apply(b"\xffABC"), b"\xffABC");
        assert!(matches!(all.apply(b""), Cow::Owned(_) | Cow::Borrowed(b"")));
    }

    #[test]
    fn the_replacements_are_read_whole_and_in_order() {
        let lines = include_str!("text_analysis/ascii_folding.txt").lines().count();
        assert_eq!(REPLACEMENTS.len(), lines);
        assert!(REPLACEMENTS.is_sorted_by_key(|(replaced, _)| *replaced));
        let is_right = |(replaced, by): &(char, &str)| !replaced.is_ascii() && by.is_ascii();
        assert!(REPLACEMENTS.iter().all(is_right));
    }
}
