//! The analysis of texts, which makes the form in which an index compares them.
//!
//! The steps and their order are those of Cassandra's storage-attached indexes, and of the
//! analyzers of its SASI indexes: letter case, Unicode normalisation (NFC), ASCII folding.
//! `text_analysis/ascii_folding.txt` has the characters that Lucene 9.7's ASCIIFoldingFilter
//! replaces, with their replacements, as the filter returned them.

use std::{borrow::Cow, iter, sync::LazyLock};

use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::canonical_combining_class, is_nfc, is_nfc_quick,
};

/// The maximum length in bytes of the head of a text. Arbitrary. The head of a longer text has at
/// least a quarter of it. A form has at least an eighth of the bytes of its text, so the form of
/// such a head has at least 2 KiB, more than any term.
const MAX_HEAD_BYTES: usize = 64 << 10;

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

    /// Returns the first part of the form of a text of more than 64 KiB: at least 2 KiB of it. For
    /// a shorter text, returns the whole form. The results for two texts with the same form agree
    /// in their first 2 KiB, so an index can analyse only the first 64 KiB of a text. If the
    /// analysis normalises, and the text cannot be cut between 16 KiB and 64 KiB (a run of
    /// combining characters), the function analyses the whole text. A plain analysis returns the
    /// whole text.
    pub fn apply_to_head(self, text: &[u8]) -> Cow<'_, [u8]> {
        if self.is_plain() {
            return Cow::Borrowed(text);
        }
        self.apply(self.head_of(text, MAX_HEAD_BYTES))
    }

    /// Returns the head of a text: at most `max` bytes, or the whole text if it cannot be cut. The
    /// form of the text begins with the form of the head, except that a sigma at the end of the
    /// head may differ.
    fn head_of(self, text: &[u8], max: usize) -> &[u8] {
        let can_end = |at: &usize| {
            // A character has at most four bytes. None begins in the middle of another.
            let next = text.get(*at..text.len().min(at + 4)).unwrap_or_default();
            let next = next.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
            next.is_some_and(|next| !self.normalizes || begins_anew(next))
        };
        let end = if text.len() > max { (max / 4..=max).rev().find(can_end) } else { None };
        end.and_then(|end| text.get(..end)).unwrap_or(text)
    }

    /// Returns the form of a text. A text that is not valid UTF-8 stays as it is.
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

/// Returns whether the normalisation of a text can be cut before this character, whatever comes
/// before it. Such a character composes with nothing before it, and normalisation moves no
/// character across it (stable code points of UAX #15). This must be true in either letter case.
fn begins_anew(character: char) -> bool {
    let is_stable = |it: char| {
        canonical_combining_class(it) == 0 && is_nfc_quick(iter::once(it)) == IsNormalized::Yes
    };
    let cases = [character.to_lowercase().next(), character.to_uppercase().next()];
    is_stable(character) && cases.into_iter().flatten().all(is_stable)
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
    use proptest::prelude::*;

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

    /// Characters that compose, that are reordered, that change with what stands behind them, and
    /// that become longer or shorter.
    const TEXT: &str = "[ab1 .:'\u{212a}\u{301}\u{323}\u{345}\u{308}éΣσΑİŉǰǖ\u{1100}\u{1161}\u{11a8}각가日ﬁ\
                         \u{212b}\u{fb1d}\u{5b4}🇦\u{1d15e}]{0,60}";

    proptest! {
        #[test]
        fn the_head_of_a_text_has_the_first_part_of_its_form(
            text in TEXT, max in 4..80usize, steps in 0..12u8,
        ) {
            let cases = [LetterCase::Unchanged, LetterCase::Lower, LetterCase::Upper];
            let analysis = TextAnalysis {
                case: cases[usize::from(steps / 4)],
                normalizes: steps & 1 != 0,
                folds_to_ascii: steps & 2 != 0,
            };
            let head = analysis.head_of(text.as_bytes(), max);
            prop_assert!(head.len() == text.len() || (max / 4..=max).contains(&head.len()));
            let form = |text: &[u8]| String::from_utf8(analysis.apply(text).into_owned()).unwrap();
            let (whole, part) = (form(text.as_bytes()), form(head));
            let before_sigma = part.rfind('ς').unwrap_or(part.len());
            prop_assert!(whole.starts_with(&part[..before_sigma]), "{head:?}: {part} {whole}");
            let (whole, part) = (whole.replace('ς', "σ"), part.replace('ς', "σ"));
            prop_assert!(whole.starts_with(&part), "{head:?}: {part} {whole}");
        }
    }

    /// Both texts have the same form, and the head of the second one ends at another letter.
    #[test]
    fn long_texts_with_the_same_form_have_heads_with_the_same_form() {
        let all = TextAnalysis { case: LetterCase::Lower, normalizes: true, folds_to_ascii: true };
        for (composed, decomposed) in
            [("É", "E\u{301}"), ("각", "\u{1100}\u{1161}\u{11a8}"), ("Ж", "ж"), ("ǖ", "u")]
        {
            let (composed, decomposed) = (composed.repeat(100_000), decomposed.repeat(100_000));
            let whole = all.apply(composed.as_bytes());
            assert_eq!(whole, all.apply(decomposed.as_bytes()));
            for text in [&composed, &decomposed] {
                let head = all.apply_to_head(text.as_bytes());
                assert!(head.len() >= 2048 && whole.starts_with(&head), "{}", head.len());
                assert!(all.head_of(text.as_bytes(), MAX_HEAD_BYTES).len() <= MAX_HEAD_BYTES);
            }
        }
    }

    /// A text of 16 MiB is as large as a frame.
    #[test]
    fn only_the_head_of_a_long_text_is_analysed() {
        let all = TextAnalysis { case: LetterCase::Lower, normalizes: true, folds_to_ascii: true };
        for part in ["e\u{301}", "Ж", "日", "Σ", "a", "\u{1100}\u{1161}"] {
            let text = part.repeat((16 << 20) / part.len());
            let head = all.head_of(text.as_bytes(), MAX_HEAD_BYTES);
            assert!((MAX_HEAD_BYTES / 4..=MAX_HEAD_BYTES).contains(&head.len()), "{part}");
        }
        // Normalisation moves accents within a run of accents, so the run cannot be cut.
        let text = "\u{301}".repeat(100_000);
        assert_eq!(all.head_of(text.as_bytes(), MAX_HEAD_BYTES).len(), text.len());
        let lower = TextAnalysis { normalizes: false, ..all };
        assert!(lower.head_of(text.as_bytes(), MAX_HEAD_BYTES).len() <= MAX_HEAD_BYTES);
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
