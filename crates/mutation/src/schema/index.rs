//! Defines secondary indexes: the part of a table that each index covers.

use std::collections::BTreeMap;

use espalier_types::{
    CqlType, LetterCase, Similarity, TermAnalyzer, TextAnalysis, similarity::floats,
    type_name::quote_if_needed,
};

use super::{ColumnDefinition, SASI, TableMetadata, TermIndex};

/// The option that names the indexed part of the table.
pub const TARGET_OPTION: &str = "target";
/// The option that names the class of a custom index.
pub const CLASS_OPTION: &str = "class_name";
/// The class of storage-attached indexes, as `system_schema.indexes` names it.
pub const STORAGE_ATTACHED: &str = "StorageAttachedIndex";

/// The option that says whether an index on texts compares them with regard to case.
pub const CASE_SENSITIVE_OPTION: &str = "case_sensitive";
/// The option that says whether an index on texts compares their normalisation form C.
pub const NORMALIZE_OPTION: &str = "normalize";
/// The option that says whether an index on texts compares letters without their accents.
pub const ASCII_OPTION: &str = "ascii";

/// The option that names the measure of similarity of an index on vectors.
pub const SIMILARITY_OPTION: &str = "similarity_function";
/// The option that says whether an index on vectors prefers speed or recall.
pub const OPTIMIZE_FOR_OPTION: &str = "optimize_for";
/// The value of [`OPTIMIZE_FOR_OPTION`] for recall.
pub const RECALL: &str = "RECALL";

/// The properties of an index on a column of vectors of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorIndexOptions {
    /// The number of components of each vector.
    pub dimension: usize,
    /// The measure by which rows are near to a vector.
    pub similarity: Similarity,
    /// True if searches take more time to miss fewer rows.
    pub optimizes_recall: bool,
}

impl VectorIndexOptions {
    /// Returns whether a serialised vector can be in the index. With cosine similarity, a zero
    /// vector cannot.
    pub fn is_indexable(&self, vector: &[u8]) -> bool {
        vector.len() == self.dimension * size_of::<f32>()
            && self.similarity.check(floats(vector)).is_ok()
    }
}

/// The kind of an index in `system_schema.indexes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IndexKind {
    Keys,
    Composites,
    Custom,
}

impl IndexKind {
    /// Returns the name in `system_schema.indexes`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "KEYS",
            Self::Composites => "COMPOSITES",
            Self::Custom => "CUSTOM",
        }
    }

    /// Returns the kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Keys, Self::Composites, Self::Custom].into_iter().find(|kind| kind.name() == name)
    }
}

/// The part of a column that an index contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexPart {
    /// The value of a column that is no collection.
    Simple,
    /// The elements of a list or set, or the values of a map.
    Values,
    /// The keys of a map.
    Keys,
    /// The entries of a map: key and value together.
    Entries,
    /// A frozen collection as a whole.
    Full,
}

impl IndexPart {
    /// Returns the word before the parentheses in CQL; none for [`Self::Simple`].
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Simple => None,
            Self::Values => Some("values"),
            Self::Keys => Some("keys"),
            Self::Entries => Some("entries"),
            Self::Full => Some("full"),
        }
    }
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexMetadata {
    /// The name, which is unique in the keyspace.
    pub name: String,
    /// The kind.
    pub kind: IndexKind,
    /// The options, with [`TARGET_OPTION`] and perhaps [`CLASS_OPTION`].
    pub options: BTreeMap<String, String>,
    /// The name of the indexed column.
    pub column: String,
    /// The indexed part of the column.
    pub part: IndexPart,
}

impl IndexMetadata {
    /// Makes an index from its options. Returns `None` if they have no target that can be read, or
    /// more than one.
    pub fn from_options(
        name: &str,
        kind: IndexKind,
        options: BTreeMap<String, String>,
    ) -> Option<Self> {
        let (column, part) = parse_target(options.get(TARGET_OPTION)?)?;
        Some(Self { name: name.into(), kind, options, column, part })
    }

    /// Returns the target as CQL has it: `column`, `keys(column)`. The stored option may lack the
    /// quotes that the name of the column needs.
    pub fn target(&self) -> String {
        target_text(&self.column, self.part)
    }

    /// Returns the class of a custom index.
    pub fn class(&self) -> Option<&str> {
        self.options.get(CLASS_OPTION).map(String::as_str)
    }

    /// Returns whether the index answers as a storage-attached index: it serves ranges, and can be
    /// combined with the table's other storage-attached indexes.
    pub fn is_storage_attached(&self) -> bool {
        self.kind == IndexKind::Custom && !self.is_sasi()
    }

    /// Returns whether the index is of Cassandra's class SASIIndex.
    pub fn is_sasi(&self) -> bool {
        self.class() == Some(SASI)
    }

    /// Returns the properties of a SASI index; `None` for any other index.
    pub fn term_index(&self, table: &TableMetadata) -> Option<TermIndex> {
        if !self.is_sasi() {
            return None;
        }
        TermIndex::from_options(&self.options, &self.column_of(table)?.column_type).ok()
    }

    /// Returns the indexed column of `table`.
    pub fn column_of<'t>(&self, table: &'t TableMetadata) -> Option<&'t ColumnDefinition> {
        table.column(&self.column)
    }

    /// Returns the properties of an index on vectors of floats; `None` for any other index.
    pub fn vector_options(&self, table: &TableMetadata) -> Option<VectorIndexOptions> {
        let CqlType::Vector { element, dimension } = &self.column_of(table)?.column_type else {
            return None;
        };
        if **element != CqlType::Float || !self.is_storage_attached() {
            return None;
        }
        let similarity = self.options.get(SIMILARITY_OPTION);
        let similarity = similarity.and_then(|name| Similarity::from_name(name));
        let optimize_for = self.options.get(OPTIMIZE_FOR_OPTION);
        Some(VectorIndexOptions {
            dimension: *dimension,
            similarity: similarity.unwrap_or(Similarity::Cosine),
            optimizes_recall: optimize_for.is_some_and(|value| value.eq_ignore_ascii_case(RECALL)),
        })
    }

    /// Returns the analysis of the indexed texts; the default if the index lists only their terms.
    pub fn analysis(&self, table: &TableMetadata) -> TextAnalysis {
        self.analysis_with(self.term_index(table).as_ref())
    }

    /// Returns [`Self::analysis`] of an index whose [`Self::term_index`] is `terms`.
    pub(crate) fn analysis_with(&self, terms: Option<&TermIndex>) -> TextAnalysis {
        if self.is_sasi() {
            return match terms.map(|terms| &terms.analyzer) {
                Some(TermAnalyzer::Whole(analysis)) => *analysis,
                _ => TextAnalysis::default(),
            };
        }
        let has = |name: &str, value: &str| {
            self.options.get(name).is_some_and(|given| given.eq_ignore_ascii_case(value))
        };
        let ignores_case = has(CASE_SENSITIVE_OPTION, "false");
        TextAnalysis {
            case: if ignores_case { LetterCase::Lower } else { LetterCase::Unchanged },
            normalizes: has(NORMALIZE_OPTION, "true"),
            folds_to_ascii: has(ASCII_OPTION, "true"),
        }
    }

    /// Returns a text that changes if the entries of the index do: its target, the kind of its
    /// column, the place of a key column, the type, the similarity if the column has vectors, the
    /// terms that a SASI index lists, and the analysis of texts. Files of entries store it.
    pub fn signature(&self, table: &TableMetadata) -> String {
        let Some(column) = self.column_of(table) else { return String::new() };
        let (target, kind) = (self.target(), column.kind.name());
        // After a RENAME, the target may name another column of the key.
        let is_key = column.is_primary_key();
        let place = if is_key { format!("{} ", column.position) } else { String::new() };
        let mut signature = format!("{target} {kind} {place}{}", described(&column.column_type));
        if let Some(options) = self.vector_options(table) {
            signature.push(' ');
            signature.push_str(options.similarity.name());
        }
        let terms = self.term_index(table);
        if let Some(terms) = &terms {
            signature.push_str(&terms.signature());
        }
        let TextAnalysis { case, normalizes, folds_to_ascii } = self.analysis_with(terms.as_ref());
        let steps = [
            (case == LetterCase::Lower, " ignores_case"),
            (case == LetterCase::Upper, " upper_case"),
            (normalizes, " normalizes"),
            (folds_to_ascii, " folds_to_ascii"),
        ];
        signature.extend(steps.into_iter().filter(|step| step.0).map(|step| step.1));
        signature
    }
}

/// Describes a type down to the fields of user types, which ALTER TYPE may change.
fn described(column_type: &CqlType) -> String {
    column_type.without_user_types().cql_name()
}

/// Returns the target of an index as CQL has it.
pub fn target_text(column: &str, part: IndexPart) -> String {
    let column = quote_if_needed(column);
    match part.word() {
        Some(word) => format!("{word}({column})"),
        None => column.into_owned(),
    }
}

fn parse_target(target: &str) -> Option<(String, IndexPart)> {
    let parts = [IndexPart::Values, IndexPart::Keys, IndexPart::Entries, IndexPart::Full];
    for part in parts {
        let inside = part.word().and_then(|word| target.strip_prefix(word));
        let inside = inside.and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
        if let Some(name) = inside {
            return Some((unquoted(name)?, part));
        }
    }
    Some((unquoted(target)?, IndexPart::Simple))
}

fn unquoted(name: &str) -> Option<String> {
    let Some(inner) = name.strip_prefix('"') else {
        // Several targets are separated by commas.
        return (!name.is_empty() && !name.contains([',', '"'])).then(|| name.to_string());
    };
    let inner = inner.strip_suffix('"')?;
    let is_one = !inner.replace("\"\"", "").contains('"');
    (is_one && !inner.is_empty()).then(|| inner.replace("\"\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{TableBuilder, TableId};

    #[test]
    fn a_key_column_with_the_name_of_another_one_has_another_signature() {
        let options = BTreeMap::from([(TARGET_OPTION.into(), "a".into())]);
        let index = IndexMetadata::from_options("i", IndexKind::Composites, options).unwrap();
        let table = || TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)));
        let by_partition = |one: &str, two: &str| {
            let table = table().partition_key(one, CqlType::Int).partition_key(two, CqlType::Int);
            index.signature(&table.build())
        };
        let by_clustering = |one: &str, two: &str| {
            let table = table().partition_key("k", CqlType::Int);
            let table = table.clustering(one, CqlType::Int, false);
            index.signature(&table.clustering(two, CqlType::Int, false).build())
        };
        let signatures = [
            by_partition("a", "b"),
            by_partition("b", "a"),
            by_clustering("a", "b"),
            by_clustering("b", "a"),
        ];
        for (number, signature) in signatures.iter().enumerate() {
            assert!(!signatures[..number].contains(signature), "{signature}");
        }
    }

    #[test]
    fn a_target_is_read_as_it_was_written() {
        let parts = [
            IndexPart::Simple,
            IndexPart::Values,
            IndexPart::Keys,
            IndexPart::Entries,
            IndexPart::Full,
        ];
        for column in ["v", "Mixed", "with \"quotes\"", "keys", "full", "a,b", "values(x)"] {
            for part in parts {
                let text = target_text(column, part);
                assert_eq!(parse_target(&text), Some((column.to_string(), part)), "{text}");
            }
        }
        assert_eq!(parse_target("a, b"), None);
        assert_eq!(parse_target("\"a\", \"b\""), None);
        assert_eq!(parse_target(""), None);
    }
}
