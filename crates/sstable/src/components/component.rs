//! A component is one of the files of an SSTable.

use std::{borrow::Cow, fmt};

/// A component, identified by its name in the file name and in TOC.txt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Chunk offsets of a compressed Data.db.
    CompressionInfo,
    /// Checksums of the chunks of an uncompressed Data.db.
    Crc,
    /// Partitions and their rows.
    Data,
    /// Checksum of the whole Data.db.
    Digest,
    /// Bloom filter of the partition keys.
    Filter,
    /// Partition keys in order, and the row indexes of wide partitions (BIG index).
    Index,
    /// The trie of partition keys.
    Partitions,
    /// The tries of the rows of large partitions.
    Rows,
    /// Metadata for ScyllaDB.
    Scylla,
    /// Statistics, and the header that is needed to read Data.db.
    Statistics,
    /// Samples of Index.db.
    Summary,
    /// The list of components.
    Toc,
    /// Replaces TOC.txt while an SSTable is written or removed. An SSTable with this file and
    /// without TOC.txt is garbage.
    TemporaryToc,
    /// Checksums of the components that have none of their own; Espalier's own addition.
    Checksums,
    /// The entries of the secondary index with this name; Espalier's own addition.
    SecondaryIndex(String),
    /// Any other file of the SSTable, such as a secondary index of Cassandra. Espalier copies and
    /// removes it with the SSTable.
    Other(String),
}

/// The parts of the name of a [`Component::SecondaryIndex`] around the name of the index.
const SECONDARY_INDEX: &str = "SecondaryIndex_";
const EXTENSION: &str = ".db";

/// The components that an SSTable may have, whatever its table.
pub(super) const KNOWN: [Component; 14] = [
    Component::CompressionInfo,
    Component::Crc,
    Component::Data,
    Component::Digest,
    Component::Filter,
    Component::Index,
    Component::Partitions,
    Component::Rows,
    Component::Scylla,
    Component::Statistics,
    Component::Summary,
    Component::Toc,
    Component::TemporaryToc,
    Component::Checksums,
];

impl Component {
    /// Returns the last part of the file name.
    pub fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Self::SecondaryIndex(index) => {
                return Cow::Owned(format!("{SECONDARY_INDEX}{index}{EXTENSION}"));
            }
            Self::CompressionInfo => "CompressionInfo.db",
            Self::Crc => "CRC.db",
            Self::Data => "Data.db",
            Self::Digest => "Digest.crc32",
            Self::Filter => "Filter.db",
            Self::Index => "Index.db",
            Self::Partitions => "Partitions.db",
            Self::Rows => "Rows.db",
            Self::Scylla => "Scylla.db",
            Self::Statistics => "Statistics.db",
            Self::Summary => "Summary.db",
            Self::Toc => "TOC.txt",
            Self::TemporaryToc => "TemporaryTOC.txt",
            Self::Checksums => "Checksums.db",
            Self::Other(name) => name,
        })
    }

    /// Returns the component with this name. Each name is valid.
    pub fn parse(name: &str) -> Self {
        let index = name.strip_prefix(SECONDARY_INDEX).and_then(|it| it.strip_suffix(EXTENSION));
        if let Some(index) = index {
            return Self::SecondaryIndex(index.into());
        }
        KNOWN
            .into_iter()
            .find(|component| component.name() == name)
            .unwrap_or_else(|| Self::Other(name.into()))
    }

    /// Returns whether this version of Espalier reads and writes the component.
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
