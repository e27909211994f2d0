//! The class of an index, which the statement names after USING.

use std::collections::BTreeMap;

use espalier_mutation::schema::{
    CLASS_OPTION, ColumnKind, IndexKind, IndexMetadata, IndexPart, SASI, STORAGE_ATTACHED,
    TARGET_OPTION, TableMetadata, TermIndex,
};

use super::{NodeSettings, is_word, text_index, vector_index};
use crate::{Error, Result, grammar::ast::CreateIndex};

/// Cassandra's name for indexes in hidden tables. Here it means an index that serves equality,
/// CONTAINS and CONTAINS KEY.
const LEGACY: &str = "legacy_local_table";
/// Cassandra's warning about each new SASI index.
const SASI_WARNING: &str =
    "SASI indexes are experimental and are not recommended for production use.";
/// The names of storage-attached indexes. The first one is compared without case.
const STORAGE_ATTACHED_NAMES: [&str; 3] =
    ["sai", STORAGE_ATTACHED, "org.apache.cassandra.index.sai.StorageAttachedIndex"];

/// The class of an index.
pub(super) enum IndexClass {
    Legacy,
    StorageAttached(String),
    Sasi,
    Unknown(String),
}

impl IndexClass {
    pub(super) fn of(statement: &CreateIndex<'_>) -> Self {
        let Some(name) = statement.using.as_deref() else {
            // A custom index without USING gets the name of the default class, which
            // `check_options` refuses for custom indexes.
            return if statement.is_custom { Self::Unknown(LEGACY.into()) } else { Self::Legacy };
        };
        if name.eq_ignore_ascii_case(STORAGE_ATTACHED_NAMES[0])
            || STORAGE_ATTACHED_NAMES.contains(&name)
        {
            return Self::StorageAttached(name.into());
        }
        match name {
            SASI => Self::Sasi,
            _ if name.eq_ignore_ascii_case(LEGACY) && !statement.is_custom => Self::Legacy,
            name => Self::Unknown(name.into()),
        }
    }

    /// Returns the class as the schema tables have it; `None` for an index that is not custom.
    pub(super) fn stored(&self) -> Option<&str> {
        match self {
            Self::Legacy => None,
            Self::StorageAttached(name) | Self::Unknown(name) => Some(name),
            Self::Sasi => Some(SASI),
        }
    }

    pub(super) fn is_sasi(&self) -> bool {
        matches!(self, Self::Sasi)
    }

    /// Refuses SASI indexes unless the settings of the node enable them.
    pub(super) fn check_enabled(&self, node: Option<&NodeSettings>) -> Result<()> {
        match self {
            Self::Sasi if node.is_some_and(|node| !node.features.sasi_indexes_enabled) => {
                Err(Error::invalid(
                    "SASI indexes are disabled. Enable in cassandra.yaml to use. (The setting is \
                     sasi_indexes_enabled. A storage-attached index, USING 'sai', serves other \
                     conditions than LIKE.)",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks the options of a custom index. Returns a warning, if there is one.
    pub(super) fn check_options(
        &self,
        table: &TableMetadata,
        options: &BTreeMap<String, String>,
    ) -> Result<Option<&'static str>> {
        match self {
            Self::Legacy => Ok(None),
            Self::Sasi => check_sasi(table, options).map(|()| Some(SASI_WARNING)),
            Self::Unknown(name) => {
                Err(Error::configuration(format!("Unable to find custom indexer class '{name}'")))
            }
            Self::StorageAttached(_) => check_storage_attached(table, options),
        }
    }
}

fn check_sasi(table: &TableMetadata, options: &BTreeMap<String, String>) -> Result<()> {
    let target = options.get(TARGET_OPTION).map_or("", String::as_str);
    let index = IndexMetadata::from_options("", IndexKind::Custom, options.clone());
    let Some(column) = index.as_ref().and_then(|index| index.column_of(table)) else {
        return Err(Error::configuration(format!(
            "failed to retrieve target column for: {target}"
        )));
    };
    if column.is_complex() {
        return Err(Error::configuration("complex columns are not yet supported by SASI"));
    }
    if column.kind == ColumnKind::PartitionKey {
        return Err(Error::configuration("partition key columns are not yet supported by SASI"));
    }
    TermIndex::from_options(options, &column.column_type).map_err(Error::configuration).map(|_| ())
}

fn check_storage_attached(
    table: &TableMetadata,
    options: &BTreeMap<String, String>,
) -> Result<Option<&'static str>> {
    let is_known = |name: &str| {
        [CLASS_OPTION, TARGET_OPTION].contains(&name)
            || vector_index::OPTIONS.contains(&name)
            || text_index::OPTIONS.contains(&name)
    };
    let unknown: Vec<&str> =
        options.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        return Err(Error::configuration(format!(
            "Properties specified [{}] are not understood by StorageAttachedIndex",
            unknown.join(", ")
        )));
    }
    let target = options.get(TARGET_OPTION).map_or("", String::as_str);
    let index = IndexMetadata::from_options("", IndexKind::Custom, options.clone());
    if let Some(index) = &index
        && !is_word(&index.column)
    {
        return Err(Error::invalid(format!(
            "Column '{}' contains non-alphanumeric-underscore characters",
            index.column
        )));
    }
    let is_same = |other: &&IndexMetadata| other.is_storage_attached() && other.target() == target;
    if table.indexes.iter().any(|other| is_same(&other)) {
        let column = index.as_ref().map_or(target, |index| {
            if index.part == IndexPart::Simple { target } else { &index.column }
        });
        return Err(Error::invalid(format!(
            "Cannot create more than one storage-attached index on the same column: {column}"
        )));
    }
    let Some(index) = &index else { return Ok(None) };
    let warning = vector_index::check(table, index)?;
    text_index::check(table, index)?;
    text_index::check_type(table, index)?;
    Ok(warning)
}
