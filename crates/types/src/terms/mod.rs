//! The terms of a text in an index that searches for parts of texts.
//!
//! The analyzers are those of Cassandra's SASI indexes. Each analyzer makes terms of a text. A LIKE
//! pattern matches a text if each term of the pattern matches a term of the text.

mod standard;
mod stop_words;
mod words;

pub use self::standard::StandardAnalyzer;
use crate::TextAnalysis;

/// The length in bytes from which on Cassandra leaves a term out of its index.
const MAX_TERM_BYTES: usize = 1024;

/// An analyzer, which makes terms of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermAnalyzer {
    /// The whole analysed text is the only term.
    Whole(TextAnalysis),
    /// The parts between delimiters are the terms.
    Delimiter(char),
    /// The words are the terms.
    Standard(StandardAnalyzer),
}

impl TermAnalyzer {
    /// Returns whether the analyzer splits texts.
    pub fn is_tokenizing(&self) -> bool {
        !matches!(self, Self::Whole(_))
    }

    /// Calls `take` with each term of a text. Empty terms and terms of at least [`MAX_TERM_BYTES`]
    /// bytes are left out. If the analyzer splits texts, bytes that are no UTF-8 have no terms.
    pub fn for_each_term(&self, text: &[u8], mut take: impl FnMut(&[u8])) {
        let mut take = |term: &[u8]| {
            if (1..MAX_TERM_BYTES).contains(&term.len()) {
                take(term);
            }
        };
        if let Self::Whole(analysis) = self {
            // If the text is longer than its head, the form of the head is longer than any term.
            return take(&analysis.apply_to_head(text));
        }
        let Ok(text) = std::str::from_utf8(text) else { return };
        match self {
            Self::Whole(_) => {}
            Self::Delimiter(delimiter) => {
                text.split(*delimiter).for_each(|part| take(part.as_bytes()));
            }
            Self::Standard(analyzer) => {
                words::for_each(text, |word| {
                    if let Some(term) = analyzer.term(word) {
                        take(term.as_bytes());
                    }
                });
            }
        }
    }

    /// Returns the first position from `at` on at which a text can be split so that its parts have
    /// the terms of the whole; the text's length if there is none. Only an analyzer that splits
    /// texts has such positions.
    pub fn next_boundary(&self, text: &[u8], at: usize) -> usize {
        let rest = text.get(at..).unwrap_or_default();
        let found = match self {
            Self::Whole(_) => None,
            Self::Delimiter(delimiter) => {
                let mut bytes = [0; 4];
                let delimiter = delimiter.encode_utf8(&mut bytes).as_bytes();
                let mut windows = rest.windows(delimiter.len());
                windows.position(|window| window == delimiter).map(|start| start + delimiter.len())
            }
            // A word has no space, and no rule of words looks across one.
            Self::Standard(_) => rest.iter().position(u8::is_ascii_whitespace),
        };
        found.map_or(text.len(), |found| at + found)
    }

    /// Returns the terms of a text.
    pub fn terms(&self, text: &[u8]) -> Vec<Vec<u8>> {
        let mut terms = Vec::new();
        self.for_each_term(text, |term| terms.push(term.to_vec()));
        terms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::LetterCase;

    fn terms(analyzer: &TermAnalyzer, text: &str) -> Vec<String> {
        let terms = analyzer.terms(text.as_bytes());
        terms.iter().map(|term| String::from_utf8(term.clone()).unwrap()).collect()
    }

    #[test]
    fn a_delimiter_splits_a_text() {
        let analyzer = TermAnalyzer::Delimiter('░');
        assert_eq!(terms(&analyzer, "░error░http.path=/x y░░"), ["error", "http.path=/x y"]);
        assert!(terms(&analyzer, "").is_empty());
        assert!(terms(&analyzer, "░").is_empty());
    }

    proptest! {
        #[test]
        fn parts_of_a_text_have_the_terms_of_the_whole(
            text in "[ab1:.'_ \\n\\u{301}\\u{200d}é日ก░🇦]{0,40}", at in 0..100usize,
        ) {
            let standard = TermAnalyzer::Standard(StandardAnalyzer::default());
            for analyzer in [standard, TermAnalyzer::Delimiter('░')] {
                let boundary = analyzer.next_boundary(text.as_bytes(), at);
                prop_assert!(boundary >= at.min(text.len()));
                let (first, second) = text.split_at(boundary);
                let parts = [terms(&analyzer, first), terms(&analyzer, second)].concat();
                prop_assert_eq!(parts, terms(&analyzer, &text));
            }
        }
    }

    #[test]
    fn a_whole_text_is_one_term_unless_it_is_long() {
        let case = LetterCase::Upper;
        let analyzer = TermAnalyzer::Whole(TextAnalysis { case, ..TextAnalysis::default() });
        assert_eq!(terms(&analyzer, "Straße 1"), ["STRASSE 1"]);
        assert_eq!(terms(&analyzer, &"x".repeat(1023)).len(), 1);
        assert!(terms(&analyzer, &"x".repeat(1024)).is_empty());
        assert!(terms(&analyzer, "").is_empty());
    }
}
