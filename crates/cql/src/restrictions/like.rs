//! LIKE patterns.
//!
//! A `%` at the beginning or the end of a pattern is a wildcard; any other `%` is an ordinary
//! character. The analyzer of the index splits the pattern into terms, as it splits each text. A
//! text matches if each term of the pattern matches a term of the text. A pattern without terms
//! matches no text.

use std::collections::BTreeSet;

use espalier_mutation::{
    TermForms,
    schema::{ColumnDefinition, LikeKind, TermIndex},
};
use espalier_storage::{FormBound, IndexValues};
use espalier_types::CqlType;

use crate::{Error, Result};

const WILDCARD: u8 = b'%';

/// Maximum number of different terms of a pattern (arbitrary). Each term is a search of the index,
/// and the filter compares it with each term of a row's text.
const MAX_TERMS: usize = 64;

/// A pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern<'p> {
    kind: LikeKind,
    /// The pattern without wildcards.
    text: &'p [u8],
}

impl<'p> Pattern<'p> {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The pattern has no character except wildcards.
    pub fn of(pattern: &'p [u8]) -> Result<Self> {
        let (kind, text) = match pattern {
            [WILDCARD, text @ .., WILDCARD] => (LikeKind::Contains, text),
            [text @ .., WILDCARD] => (LikeKind::Prefix, text),
            [WILDCARD, text @ ..] => (LikeKind::Suffix, text),
            text => (LikeKind::Matches, text),
        };
        if text.is_empty() {
            return Err(Error::invalid("LIKE value can't be empty."));
        }
        Ok(Self { kind, text })
    }

    /// Checks that an index serves patterns of this kind.
    ///
    /// # Errors
    /// The index does not serve them.
    pub fn check_served(&self, index: &TermIndex, column: &ColumnDefinition) -> Result<()> {
        if index.serves_like(self.kind) {
            return Ok(());
        }
        let shape = match self.kind {
            LikeKind::Matches => "<term>",
            LikeKind::Prefix => "<term>%",
            LikeKind::Suffix => "%<term>",
            LikeKind::Contains => "%<term>%",
        };
        Err(Error::invalid(format!(
            "{} LIKE '{shape}' {} is only supported on properly indexed columns",
            column.name,
            String::from_utf8_lossy(self.text)
        )))
    }

    /// Returns the terms of the pattern.
    ///
    /// # Errors
    /// The pattern has more than [`MAX_TERMS`] different terms.
    pub fn terms<'i>(&self, index: &'i TermIndex, column: &str) -> Result<PatternTerms<'i>> {
        let mut terms: BTreeSet<Vec<u8>> = BTreeSet::new();
        index.analyzer.for_each_term(self.text, |term| {
            if terms.len() <= MAX_TERMS && !terms.contains(term) {
                terms.insert(term.to_vec());
            }
        });
        if terms.len() > MAX_TERMS {
            return Err(Error::invalid(format!(
                "LIKE pattern for column {column} has more than {MAX_TERMS} terms; use fewer words"
            )));
        }
        Ok(PatternTerms { index, kind: self.kind, terms })
    }
}

/// The terms of a pattern, each once.
#[derive(Debug)]
pub(super) struct PatternTerms<'i> {
    index: &'i TermIndex,
    kind: LikeKind,
    terms: BTreeSet<Vec<u8>>,
}

impl PatternTerms<'_> {
    /// Returns whether a text matches.
    pub fn matches(&self, value: &[u8]) -> bool {
        let mut is_met = [false; MAX_TERMS];
        self.index.analyzer.for_each_term(value, |term| {
            for (wanted, is_met) in self.terms.iter().zip(&mut is_met) {
                *is_met = *is_met || is_match(self.kind, term, wanted);
            }
        });
        !self.terms.is_empty() && is_met.iter().take(self.terms.len()).all(|is_met| *is_met)
    }

    /// Returns the searches that find all texts that match: one for each term of the pattern.
    pub fn searches(&self, column_type: &CqlType) -> Vec<IndexValues> {
        let Self { index, kind, terms } = self;
        if terms.is_empty() {
            return vec![IndexValues::OneOf(Vec::new())];
        }
        let search = |term: &[u8]| match TermForms::of_like(index, *kind, column_type, term) {
            TermForms::One(form) => IndexValues::OneOf(vec![form]),
            TermForms::Between(from, to) => IndexValues::Between {
                lower: Some(FormBound { form: from, inclusive: true }),
                upper: to.map(|form| FormBound { form, inclusive: false }),
            },
        };
        terms.iter().map(|term| search(term)).collect()
    }
}

fn is_match(kind: LikeKind, term: &[u8], wanted: &[u8]) -> bool {
    match kind {
        LikeKind::Matches => term == wanted,
        LikeKind::Prefix => term.starts_with(wanted),
        LikeKind::Suffix => term.ends_with(wanted),
        LikeKind::Contains => term.windows(wanted.len().max(1)).any(|part| part == wanted),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn index(options: &[(&str, &str)]) -> TermIndex {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let options: BTreeMap<_, _> = options.iter().map(owned).collect();
        TermIndex::from_options(&options, &CqlType::Text).unwrap()
    }

    #[test]
    fn wildcards_decide_the_kind() {
        let pattern = |text: &'static str| {
            let Pattern { kind, text } = Pattern::of(text.as_bytes()).unwrap();
            (kind, std::str::from_utf8(text).unwrap())
        };
        assert_eq!(pattern("ab"), (LikeKind::Matches, "ab"));
        assert_eq!(pattern("a%b%"), (LikeKind::Prefix, "a%b"));
        assert_eq!(pattern("%ab"), (LikeKind::Suffix, "ab"));
        assert_eq!(pattern("%%%"), (LikeKind::Contains, "%"));
        for empty in ["", "%", "%%"] {
            let error = Pattern::of(empty.as_bytes()).unwrap_err();
            assert_eq!(error.message, "LIKE value can't be empty.");
        }
    }

    #[test]
    fn each_term_of_a_pattern_matches_a_term() {
        let words = index(&[("mode", "CONTAINS"), ("analyzed", "true")]);
        let matches = |pattern: &str, value: &str| {
            let pattern = Pattern::of(pattern.as_bytes()).unwrap();
            pattern.terms(&words, "v").unwrap().matches(value.as_bytes())
        };
        assert!(matches("%ell wor%", "hello world") && matches("wide hello", "hello wide world"));
        assert!(!matches("%ell x%", "hello world") && !matches("%, !%", "hello, world!"));
        assert!(!matches("ell", "hello world"));
    }

    #[test]
    fn equal_terms_count_once() {
        let words = index(&[("mode", "CONTAINS"), ("analyzed", "true")]);
        let text = |count: usize| -> String {
            (0..count).map(|number| format!("word{number} ")).collect::<String>().repeat(1_000)
        };
        let of = |text: &str| {
            let found = Pattern::of(text.as_bytes()).unwrap().terms(&words, "v");
            found.map(|terms| terms.searches(&CqlType::Text).len()).map_err(|error| error.message)
        };
        assert_eq!(of(&text(MAX_TERMS)), Ok(MAX_TERMS));
        let refused = "LIKE pattern for column v has more than 64 terms; use fewer words";
        assert_eq!(of(&text(MAX_TERMS + 1)), Err(refused.into()));
    }
}
