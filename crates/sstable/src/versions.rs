//! The features of format versions. Each version is a row of the table [`VERSIONS`], which one
//! writer and one reader consult, so that no version needs code of its own. Format:
//! docs/formats/README.md.
//!
//! | version | of | index | read | written |
//! | --- | --- | --- | --- | --- |
//! | `da` | Apache Cassandra 5.0 | trie | yes | yes, by default |
//! | `oa` | Apache Cassandra 5.0 | BIG | yes | yes |
//! | `nb` | Apache Cassandra 4.0 to 5.0 | BIG | yes | yes |
//! | `na` | Apache Cassandra 4.0 before its release | BIG | yes | no |
//! | `me` | ScyllaDB, Apache Cassandra 3.11 | BIG | yes | yes |
//! | `md`, `mc` | ScyllaDB, Apache Cassandra 3 | BIG | yes | no |
//! | `mt` | ScyllaDB | trie | yes | yes |
//! | `ms` | ScyllaDB | trie, keys by column | yes | no |

use std::fmt;

pub use espalier_mutation::encoding::baselines::LocalDeletionTimes;

use crate::index::bti::row_index::NegativeDeletions;

/// The format version: two lower-case letters that begin a file's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub [u8; 2]);

impl Version {
    /// Apache Cassandra 5.0 with the trie index.
    pub const DA: Version = Version(*b"da");
    /// Apache Cassandra 5.0 with the BIG index.
    pub const OA: Version = Version(*b"oa");
    /// Apache Cassandra 4.0, and 5.0 as long as a downgrade to 4.0 must be possible.
    pub const NB: Version = Version(*b"nb");
    /// ScyllaDB and late Apache Cassandra 3 with the BIG index.
    pub const ME: Version = Version(*b"me");
    /// ScyllaDB with the trie index.
    pub const MT: Version = Version(*b"mt");

    /// Parses the two letters of a file name.
    pub fn parse(text: &str) -> Option<Version> {
        match *text.as_bytes() {
            [a @ b'a'..=b'z', b @ b'a'..=b'z'] => Some(Version([a, b])),
            _ => None,
        }
    }

    /// Returns the row of the version, if it can be read.
    pub fn features(self) -> Option<&'static VersionFeatures> {
        VERSIONS.iter().find(|features| features.version == self)
    }

    /// Returns the row of the version that a setting names, if Espalier can write the version. The
    /// name is the letters of a version, or `bti` or `big` as in Cassandra. `ms` means `mt`, as in
    /// newer versions of ScyllaDB.
    pub fn named(name: &str) -> Option<&'static VersionFeatures> {
        let version = match name {
            "bti" => Self::DA,
            "big" => Self::OA,
            "ms" => Self::MT,
            letters => Self::parse(letters)?,
        };
        version.writable_features()
    }

    /// Returns the row of the version, if it can be written.
    pub fn writable_features(self) -> Option<&'static VersionFeatures> {
        self.features().filter(|features| features.is_written)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).unwrap_or("??"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The word in a file's name that once identified the index format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormatWord {
    /// `big`; also in ScyllaDB's trie versions.
    Big,
    /// `bti`.
    Bti,
}

impl FormatWord {
    /// Returns the word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Bti => "bti",
        }
    }

    /// Parses the word.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Big, Self::Bti].into_iter().find(|word| word.name() == text)
    }
}

/// The database that defined a version. It decides how deletions of rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Apache Cassandra.
    Cassandra,
    /// ScyllaDB.
    Scylla,
}

/// The index format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Partitions.db and Rows.db; the keys in the trie have this form.
    Trie(TrieKeys),
    /// Index.db, which holds row indexes, and Summary.db.
    Big,
}

/// The form of a partition key in Partitions.db after its token. Format:
/// docs/formats/partition-index.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrieKeys {
    /// Its serialised bytes, escaped.
    Bytes,
    /// Each column in its own byte-comparable form.
    Columns,
}

/// The form of a full deletion time in Data.db and Index.db. Format: docs/formats/README.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionTimeForm {
    /// be32 seconds, be64 timestamp.
    Legacy,
    /// One byte 80 if live, else be64 timestamp, be32 unsigned seconds. No room for negative
    /// timestamps.
    Unsigned,
}

/// The order of the bytes inside a word of Filter.db. Format: docs/formats/filter.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterWords {
    /// Bit i is bit i%64 of the be64 number i/64.
    BigEndian,
    /// Bit i is bit i%8 of byte i/8.
    LittleEndian,
}

/// The form in which Statistics.db describes the clusterings. Format: docs/formats/statistics.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusteringStatistics {
    /// The values of the least and the greatest clustering; in `mc`, those of each column.
    MinMaxValues,
    /// A slice that covers all clusterings, with the types of its values.
    CoveredSlice,
}

/// Data that not every version can store. No version can store both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialData {
    /// There is no such data.
    None,
    /// Partitions or ranges were deleted at negative timestamps.
    NegativeDeletions,
    /// Data expires after January 2038.
    LateExpiries,
}

/// A row of the table of versions.
#[derive(Debug, PartialEq, Eq)]
pub struct VersionFeatures {
    /// The letters of the version.
    pub version: Version,
    /// The word in its file names.
    pub format_word: FormatWord,
    /// The database that defined the version.
    pub family: Family,
    /// True if ScyllaDB needs Scylla.db, which says that the writer has none of ScyllaDB's early
    /// bugs. Without Scylla.db, ScyllaDB reads the SSTable as one of Cassandra's, and it cannot
    /// read Cassandra's trie index.
    pub has_scylla_component: bool,
    /// True if Espalier can also write the version.
    pub is_written: bool,
    /// The index format.
    pub index: IndexKind,
    /// The form of full deletion times in Data.db and Index.db.
    pub deletion_time: DeletionTimeForm,
    /// The treatment of deletions at negative timestamps in Rows.db.
    pub negative_deletions: NegativeDeletions,
    /// The range of local deletion times in rows and statistics.
    pub local_deletion_times: LocalDeletionTimes,
    /// The byte order of Filter.db.
    pub filter_words: FilterWords,
    /// True if CompressionInfo.db has a maximum compressed length, so that chunks may be stored
    /// raw.
    pub raw_chunks: bool,
    /// True if Statistics.db has checksums.
    pub statistics_checksums: bool,
    /// True if bins of the tombstone histogram are a double and a be64, not a be64 and a be32.
    pub wide_drop_times: bool,
    /// The form of the minimum and maximum clustering.
    pub clustering_statistics: ClusteringStatistics,
    /// True if Statistics.db has the pending repair and the flag of transient replicas.
    pub repair_in_statistics: bool,
    /// True if Statistics.db has the id of the node that wrote the data first.
    pub host_id_in_statistics: bool,
    /// True if Statistics.db ends with the flag of partition deletions, the key range, the token
    /// space coverage and padding.
    pub key_range_in_statistics: bool,
    /// The default of `column_index_size`, in bytes.
    pub default_column_index_size: u32,
}

impl VersionFeatures {
    /// Returns whether the version can store deletions of partitions and ranges at negative
    /// timestamps.
    pub fn has_room_for_negative_deletions(&self) -> bool {
        self.deletion_time == DeletionTimeForm::Legacy
    }

    /// Returns this version if it can store such data, or else a version of Cassandra that can.
    pub fn with_room_for(&'static self, data: SpecialData) -> &'static VersionFeatures {
        static LEGACY: VersionFeatures = NB;
        static UNSIGNED: VersionFeatures = OA;
        static UNSIGNED_TRIE: VersionFeatures = DA;
        let is_signed = self.local_deletion_times == LocalDeletionTimes::Signed;
        match data {
            SpecialData::NegativeDeletions if !self.has_room_for_negative_deletions() => &LEGACY,
            SpecialData::LateExpiries if is_signed && self.has_trie_index() => &UNSIGNED_TRIE,
            SpecialData::LateExpiries if is_signed => &UNSIGNED,
            _ => self,
        }
    }

    /// Returns whether Partitions.db and Rows.db are the index.
    pub fn has_trie_index(&self) -> bool {
        matches!(self.index, IndexKind::Trie(_))
    }
}

const DA: VersionFeatures = VersionFeatures {
    version: Version::DA,
    format_word: FormatWord::Bti,
    family: Family::Cassandra,
    has_scylla_component: false,
    is_written: true,
    index: IndexKind::Trie(TrieKeys::Bytes),
    deletion_time: DeletionTimeForm::Unsigned,
    negative_deletions: NegativeDeletions::Refused,
    local_deletion_times: LocalDeletionTimes::Unsigned,
    filter_words: FilterWords::LittleEndian,
    raw_chunks: true,
    statistics_checksums: true,
    wide_drop_times: false,
    clustering_statistics: ClusteringStatistics::CoveredSlice,
    repair_in_statistics: true,
    host_id_in_statistics: true,
    key_range_in_statistics: true,
    default_column_index_size: 16 * 1024,
};

const OA: VersionFeatures = VersionFeatures {
    version: Version::OA,
    format_word: FormatWord::Big,
    index: IndexKind::Big,
    default_column_index_size: 64 * 1024,
    ..DA
};

const NB: VersionFeatures = VersionFeatures {
    version: Version::NB,
    deletion_time: DeletionTimeForm::Legacy,
    local_deletion_times: LocalDeletionTimes::Signed,
    wide_drop_times: true,
    clustering_statistics: ClusteringStatistics::MinMaxValues,
    key_range_in_statistics: false,
    ..OA
};

const ME: VersionFeatures = VersionFeatures {
    version: Version::ME,
    family: Family::Scylla,
    filter_words: FilterWords::BigEndian,
    raw_chunks: false,
    statistics_checksums: false,
    repair_in_statistics: false,
    ..NB
};

const MT: VersionFeatures = VersionFeatures {
    version: Version::MT,
    has_scylla_component: true,
    index: IndexKind::Trie(TrieKeys::Bytes),
    negative_deletions: NegativeDeletions::Extended,
    ..ME
};

const MD: VersionFeatures = VersionFeatures {
    version: Version(*b"md"),
    is_written: false,
    host_id_in_statistics: false,
    ..ME
};

/// All versions that can be read. The first is the one that is written by default.
pub static VERSIONS: &[VersionFeatures] = &[
    DA,
    OA,
    NB,
    VersionFeatures {
        version: Version(*b"na"),
        is_written: false,
        host_id_in_statistics: false,
        ..NB
    },
    ME,
    MD,
    VersionFeatures { version: Version(*b"mc"), ..MD },
    MT,
    VersionFeatures {
        version: Version(*b"ms"),
        is_written: false,
        index: IndexKind::Trie(TrieKeys::Columns),
        ..MT
    },
];
