//! This module defines the content of Scylla.db as values, and the numbers in the file.

use espalier_mutation::Token;
use uuid::Uuid;

use crate::components::Component;

pub(super) const SHARDING: u32 = 1;
pub(super) const FEATURES: u32 = 2;
pub(super) const RUN_IDENTIFIER: u32 = 4;
pub(super) const ORIGIN: u32 = 6;
pub(super) const BUILD_ID: u32 = 7;
pub(super) const VERSION: u32 = 8;
pub(super) const SSTABLE_IDENTIFIER: u32 = 10;
pub(super) const SCHEMA: u32 = 11;
pub(super) const COMPONENT_CHECKSUMS: u32 = 12;

/// All feature bits: the file has none of the mistakes of ScyllaDB's earlier versions.
pub const ALL_FEATURES: u64 = 0x7F;

/// The content of Scylla.db. Other parts of the file are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScyllaMetadata {
    /// First and last token, both included, of each range to which the data belongs.
    pub token_ranges: Vec<(Token, Token)>,
    /// A bit for each mistake of earlier versions of ScyllaDB that the writer did not make.
    pub features: u64,
    /// Identifier of the run. SSTables of one run do not overlap.
    pub run_identifier: Option<Uuid>,
    /// Identifier of the SSTable, which remains when the SSTable is renamed.
    pub sstable_identifier: Option<Uuid>,
    /// Origin of the SSTable: `memtable`, `compaction`, ...
    pub origin: String,
    /// Build id of the writer.
    pub build_id: String,
    /// Version of the writer.
    pub version: String,
    /// The schema of the table when the SSTable was written.
    pub schema: Option<ScyllaSchema>,
    /// CRC-32 of whole files.
    pub checksums: Vec<(Component, u32)>,
}

/// The schema of a table in Scylla.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScyllaSchema {
    /// Id of the table.
    pub table_id: Uuid,
    /// Version of its schema.
    pub schema_version: Uuid,
    /// Keyspace name.
    pub keyspace: String,
    /// Table name.
    pub table: String,
    /// All columns.
    pub columns: Vec<ScyllaColumn>,
}

/// A column of [`ScyllaSchema`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScyllaColumn {
    /// Kind of the column.
    pub kind: ScyllaColumnKind,
    /// Name of the column. Names of key columns may be invented: `$pk`, `$ck0`.
    pub name: String,
    /// Marshal name of the column's type.
    pub type_name: String,
}

/// The kind of a column.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScyllaColumnKind {
    PartitionKey = 1,
    Clustering = 2,
    Static = 3,
    Regular = 4,
}

impl ScyllaColumnKind {
    pub(super) const ALL: [Self; 4] =
        [Self::PartitionKey, Self::Clustering, Self::Static, Self::Regular];
}

/// ScyllaDB's numbers of components.
pub(super) const COMPONENTS: [(u32, Component); 11] = [
    (0, Component::Index),
    (1, Component::CompressionInfo),
    (2, Component::Data),
    (3, Component::Toc),
    (4, Component::Summary),
    (5, Component::Digest),
    (6, Component::Crc),
    (7, Component::Filter),
    (8, Component::Statistics),
    (12, Component::Rows),
    (13, Component::Partitions),
];
