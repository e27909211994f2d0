//! Makes the term of a word, by the options of Cassandra's StandardAnalyzer.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::stop_words;
use crate::LetterCase;

/// The steps between a word and its term: case, stop words, stemming, normalisation form C.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandardAnalyzer {
    /// The case of the terms.
    pub case: LetterCase,
    /// The language of stop words and stems: the first two letters of the index's locale. Without a
    /// language, no words are stop words or stemmed.
    pub language: Option<[u8; 2]>,
    /// True if stop words are left out.
    pub skips_stop_words: bool,
    /// True if terms are stems.
    pub stems: bool,
}

impl StandardAnalyzer {
    /// Returns the term of a word; `None` if it is a stop word.
    pub(super) fn term<'w>(&self, word: &'w str) -> Option<Cow<'w, str>> {
        let mut term = self.case.apply(word);
        let language = self.language.unwrap_or_default();
        if self.skips_stop_words
            && stop_words::of(language).is_some_and(|words| words.contains(&*term))
        {
            return None;
        }
        if self.stems
            && let Some(algorithm) = algorithm(language)
        {
            term = Stemmer::create(algorithm).stem(&term).into_owned().into();
        }
        if !is_nfc(&term) {
            term = term.nfc().collect::<String>().into();
        }
        Some(term)
    }
}

/// Returns the stemmer of a language, if Cassandra has one. `language` is Cassandra's code.
fn algorithm(language: [u8; 2]) -> Option<Algorithm> {
    Some(match &language {
        b"da" => Algorithm::Danish,
        b"de" => Algorithm::German,
        b"en" => Algorithm::English,
        b"es" => Algorithm::Spanish,
        // Cassandra's code for Finnish.
        b"fl" => Algorithm::Finnish,
        b"fr" => Algorithm::French,
        b"hu" => Algorithm::Hungarian,
        b"it" => Algorithm::Italian,
        b"nl" => Algorithm::Dutch,
        b"no" => Algorithm::Norwegian,
        b"pt" => Algorithm::Portuguese,
        b"ro" => Algorithm::Romanian,
        b"ru" => Algorithm::Russian,
        b"sv" => Algorithm::Swedish,
        b"tr" => Algorithm::Turkish,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analyzer(language: &[u8; 2]) -> StandardAnalyzer {
        let language = Some(*language);
        StandardAnalyzer { case: LetterCase::Lower, language, ..StandardAnalyzer::default() }
    }

    #[test]
    fn words_become_stems() {
        let english = StandardAnalyzer { stems: true, ..analyzer(b"en") };
        assert_eq!(english.term("Distributing").unwrap(), "distribut");
        let german = StandardAnalyzer { stems: true, ..analyzer(b"de") };
        assert_eq!(german.term("Häuser").unwrap(), "haus");
        let unknown = StandardAnalyzer { stems: true, ..analyzer(b"xx") };
        assert_eq!(unknown.term("Trees").unwrap(), "trees");
    }

    #[test]
    fn stop_words_are_left_out_behind_the_case() {
        let english = StandardAnalyzer { skips_stop_words: true, ..analyzer(b"en") };
        assert_eq!(english.term("The"), None);
        assert_eq!(english.term("Tree").unwrap(), "tree");
        let exact = StandardAnalyzer { case: LetterCase::Unchanged, ..english };
        assert_eq!(exact.term("The").unwrap(), "The");
    }

    #[test]
    fn terms_are_in_normalisation_form_c() {
        let plain = StandardAnalyzer::default();
        assert_eq!(plain.term("cafe\u{301}").unwrap(), "café");
    }
}
