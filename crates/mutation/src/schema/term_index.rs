//! SASI indexes: their options, the conditions that they serve, and the terms that they list.
//!
//! An index on texts lists the terms that its analyzer makes of a value. In the mode CONTAINS it
//! also lists the suffixes of each term, so that a part of a term is the beginning of a suffix
//! (`crate::term_forms`).

use std::collections::BTreeMap;

use espalier_types::{CqlType, LetterCase, StandardAnalyzer, TermAnalyzer, TextAnalysis};

/// The class of SASI indexes, as `system_schema.indexes` names it.
pub const SASI: &str = "org.apache.cassandra.index.sasi.SASIIndex";

const ANALYZERS: &str = "org.apache.cassandra.index.sasi.analyzer.";
const MODE: &str = "mode";
const IS_LITERAL: &str = "is_literal";
const ANALYZED: &str = "analyzed";
const ANALYZER_CLASS: &str = "analyzer_class";
const FLUSH_MEMORY: &str = "max_compaction_flush_memory_in_mb";
const DELIMITER: &str = "delimiter";
const TWO_CASES: &str =
    "Options to normalize terms cannot be both uppercase and lowercase at the same time";

/// The mode of a SASI index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermMode {
    /// The index finds terms by their beginning.
    Prefix,
    /// The index finds terms by any part.
    Contains,
    /// The index finds values. Each value is expected in few rows.
    Sparse,
}

/// The way in which a LIKE pattern matches a term, by its wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikeKind {
    /// `x`.
    Matches,
    /// `x%`.
    Prefix,
    /// `%x`.
    Suffix,
    /// `%x%`.
    Contains,
}

/// The properties of a SASI index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermIndex {
    /// The mode.
    pub mode: TermMode,
    /// True if the index treats values as texts: LIKE searches them, ranges do not.
    pub is_literal: bool,
    /// The analyzer of texts.
    pub analyzer: TermAnalyzer,
    is_text: bool,
}

impl TermIndex {
    /// Makes the properties from the options of an index on a column of this type.
    ///
    /// # Errors
    /// Returns Cassandra's reason to refuse the options.
    pub fn from_options(
        options: &BTreeMap<String, String>,
        column_type: &CqlType,
    ) -> Result<Self, String> {
        let is_text = matches!(column_type, CqlType::Text | CqlType::Ascii);
        let option = |name: &str| options.get(name).map(String::as_str);
        let class = option(ANALYZER_CLASS).map(AnalyzerClass::named).transpose()?;
        if let Some(class) = class
            && !is_text
            && class != AnalyzerClass::NoOp
        {
            let (class, of_type) = (class.name(), column_type.cql_name());
            return Err(format!("{class} does not support type {of_type}"));
        }
        let mode = match option(MODE).map(str::to_ascii_uppercase).as_deref() {
            None | Some("PREFIX") => TermMode::Prefix,
            Some("CONTAINS") => TermMode::Contains,
            Some("SPARSE") => TermMode::Sparse,
            Some(_) => return Err(format!("Incorrect index mode: {}", options[MODE])),
        };
        let is_analyzed = option(ANALYZED).map_or(class.is_some(), is_true);
        let is_literal = option(IS_LITERAL).map_or(is_text, is_true);
        if mode == TermMode::Sparse && is_literal {
            return Err("SPARSE mode is only supported on non-literal columns.".into());
        }
        if mode == TermMode::Sparse && is_analyzed {
            return Err("SPARSE mode doesn't support analyzers.".into());
        }
        if let Some(size) = option(FLUSH_MEMORY)
            && size.parse::<i64>().is_err()
        {
            return Err(format!(
                "Failed to validate custom indexer options: {{{FLUSH_MEMORY}={size}}}"
            ));
        }
        let class = match class.filter(|_| is_analyzed) {
            None if is_analyzed && is_text => AnalyzerClass::Standard,
            class => class.unwrap_or(AnalyzerClass::NoOp),
        };
        let analyzer = class.analyzer(options)?;
        Ok(Self { mode, is_literal, analyzer, is_text })
    }

    /// Returns whether the index lists the terms of texts: LIKE searches them.
    pub fn has_terms(&self) -> bool {
        self.is_literal && self.is_text
    }

    /// Returns whether the index lists the suffixes of terms.
    pub fn has_suffixes(&self) -> bool {
        self.has_terms() && self.mode == TermMode::Contains
    }

    /// Returns whether the index lists whole values.
    pub fn has_values(&self) -> bool {
        !(self.has_terms() && self.analyzer.is_tokenizing())
    }

    /// Returns whether the index serves `=`, by Cassandra's rules.
    pub fn serves_equality(&self) -> bool {
        !self.analyzer.is_tokenizing()
    }

    /// Returns whether the index serves ranges, by Cassandra's rules.
    pub fn serves_ranges(&self) -> bool {
        !self.is_literal && self.mode != TermMode::Contains
    }

    /// Returns whether the index serves a LIKE of this kind.
    pub fn serves_like(&self, kind: LikeKind) -> bool {
        let is_served = match (self.mode, kind) {
            (TermMode::Prefix, LikeKind::Matches | LikeKind::Prefix) => true,
            (TermMode::Contains, LikeKind::Prefix) => !self.analyzer.is_tokenizing(),
            (TermMode::Contains, _) => true,
            _ => false,
        };
        self.has_terms() && is_served
    }

    /// Returns a text that changes if the entries of the index do.
    pub(super) fn signature(&self) -> String {
        if !self.has_terms() {
            return String::new();
        }
        let suffixes = if self.has_suffixes() { " suffixes" } else { "" };
        format!(" terms {:?}{suffixes}", self.analyzer)
    }
}

/// Returns whether an option is true. As in Java, any other text than `true` is false.
fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnalyzerClass {
    NoOp,
    NonTokenizing,
    Standard,
    Delimiter,
}

impl AnalyzerClass {
    fn named(name: &str) -> Result<Self, String> {
        let classes = [Self::NoOp, Self::NonTokenizing, Self::Standard, Self::Delimiter];
        let own = name.strip_prefix(ANALYZERS).unwrap_or_default();
        let found = classes.into_iter().find(|class| class.name() == own);
        found.ok_or_else(|| format!("Unable to find analyzer class '{name}'"))
    }

    fn name(self) -> &'static str {
        match self {
            Self::NoOp => "NoOpAnalyzer",
            Self::NonTokenizing => "NonTokenizingAnalyzer",
            Self::Standard => "StandardAnalyzer",
            Self::Delimiter => "DelimiterAnalyzer",
        }
    }

    fn analyzer(self, options: &BTreeMap<String, String>) -> Result<TermAnalyzer, String> {
        let option = |name: &str| options.get(name).map(String::as_str);
        let has = |name: &str| option(name).is_some_and(is_true);
        Ok(match self {
            Self::NoOp => TermAnalyzer::Whole(TextAnalysis::default()),
            Self::NonTokenizing => {
                let names = ["normalize_lowercase", "normalize_uppercase"];
                if option("case_sensitive").is_some()
                    && names.iter().any(|name| option(name).is_some())
                {
                    return Err("case_sensitive option cannot be specified together with either \
                                normalize_lowercase or normalize_uppercase"
                        .into());
                }
                let ignores_case = option("case_sensitive").is_some_and(|text| !is_true(text));
                let case = letter_case(ignores_case || has(names[0]), has(names[1]))?;
                TermAnalyzer::Whole(TextAnalysis { case, normalizes: true, folds_to_ascii: false })
            }
            Self::Standard => {
                let case = letter_case(
                    has("tokenization_normalize_lowercase"),
                    has("tokenization_normalize_uppercase"),
                )?;
                let locale = option("tokenization_locale").map(str::to_ascii_lowercase);
                let analyzer = StandardAnalyzer {
                    case,
                    language: locale.and_then(|name| name.as_bytes().first_chunk::<2>().copied()),
                    skips_stop_words: has("tokenization_skip_stop_words"),
                    stems: has("tokenization_enable_stemming"),
                };
                TermAnalyzer::Standard(analyzer)
            }
            Self::Delimiter => {
                let delimiter = option(DELIMITER).unwrap_or(",");
                let mut units = delimiter.encode_utf16();
                let is_one = units.next().is_some() && units.next().is_none();
                let only = delimiter.chars().next().filter(|_| is_one).ok_or_else(|| {
                    format!("Only single character delimiters supported, was {delimiter}")
                })?;
                TermAnalyzer::Delimiter(only)
            }
        })
    }
}

fn letter_case(is_lower: bool, is_upper: bool) -> Result<LetterCase, String> {
    Ok(match (is_lower, is_upper) {
        (true, true) => return Err(TWO_CASES.into()),
        (true, false) => LetterCase::Lower,
        (false, true) => LetterCase::Upper,
        (false, false) => LetterCase::Unchanged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(options: &[(&str, &str)], column_type: &CqlType) -> Result<TermIndex, String> {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        TermIndex::from_options(&options.iter().map(owned).collect(), column_type)
    }

    fn class(name: &str) -> String {
        format!("{ANALYZERS}{name}")
    }

    #[test]
    fn options_decide_which_conditions_an_index_serves() {
        let texts = index(&[], &CqlType::Text).unwrap();
        assert!(texts.serves_equality() && !texts.serves_ranges());
        assert!(texts.serves_like(LikeKind::Prefix) && !texts.serves_like(LikeKind::Contains));
        let numbers = index(&[("mode", "sparse")], &CqlType::Int).unwrap();
        assert!(numbers.serves_ranges() && !numbers.serves_like(LikeKind::Matches));
        let parts = index(&[("mode", "CONTAINS")], &CqlType::Text).unwrap();
        assert!(parts.serves_like(LikeKind::Suffix) && parts.serves_like(LikeKind::Prefix));
        let words = index(&[("mode", "CONTAINS"), ("analyzed", "true")], &CqlType::Text).unwrap();
        assert!(words.analyzer.is_tokenizing() && !words.serves_equality());
        assert!(words.serves_like(LikeKind::Contains) && !words.serves_like(LikeKind::Prefix));
        let raw = index(&[("is_literal", "false")], &CqlType::Text).unwrap();
        assert!(raw.serves_ranges() && !raw.serves_like(LikeKind::Prefix) && raw.has_values());
    }

    #[test]
    fn options_that_cassandra_refuses_are_refused() {
        let refused = |options: &[(&str, &str)], of: &CqlType| index(options, of).unwrap_err();
        assert_eq!(refused(&[("mode", "fast")], &CqlType::Int), "Incorrect index mode: fast");
        assert_eq!(
            refused(&[("mode", "SPARSE")], &CqlType::Text),
            "SPARSE mode is only supported on non-literal columns."
        );
        assert_eq!(
            refused(&[("analyzer_class", "Fast")], &CqlType::Text),
            "Unable to find analyzer class 'Fast'"
        );
        let standard = class("StandardAnalyzer");
        assert_eq!(
            refused(&[("analyzer_class", &standard)], &CqlType::Int),
            "StandardAnalyzer does not support type int"
        );
        let delimiter = class("DelimiterAnalyzer");
        assert_eq!(
            refused(&[("analyzer_class", &delimiter), ("delimiter", "ab")], &CqlType::Text),
            "Only single character delimiters supported, was ab"
        );
    }
}
