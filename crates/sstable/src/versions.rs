//! What a format version decides. A version is a row of [`VERSIONS`], not a fork of the code: one writer and one reader
//! ask these questions. Source: reference 1 and 19.
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

use espalier_mutation::NO_DELETION_TIME;

use crate::index::bti::row_index::NegativeDeletions;

/// Two lower-case letters that begin a file's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub [u8; 2]);

impl Version {
    /// Apache Cassandra 5.0 with the trie index.
    pub const DA: Version = Version(*b"da");
    /// Apache Cassandra 5.0 with the BIG index.
    pub const OA: Version = Version(*b"oa");
    /// Apache Cassandra 4.0, and 5.0 as long as it must be able to go back to it.
    pub const NB: Version = Version(*b"nb");
    /// ScyllaDB and late Apache Cassandra 3 with the BIG index.
    pub const ME: Version = Version(*b"me");
    /// ScyllaDB with the trie index.
    pub const MT: Version = Version(*b"mt");

    /// The two letters of a file name, if they are that.
    pub fn parse(text: &str) -> Option<Version> {
        match *text.as_bytes() {
            [a @ b'a'..=b'z', b @ b'a'..=b'z'] => Some(Version([a, b])),
            _ => None,
        }
    }

    /// The row of the version, if it can be read.
    pub fn features(self) -> Option<&'static VersionFeatures> {
        VERSIONS.iter().find(|features| features.version == self)
    }

    /// The row of the version that a setting names: by its letters, or as Cassandra (`bti`, `big`) and ScyllaDB (`ms`, which
    /// has meant `mt` since there is that) call the family.
    pub fn named(name: &str) -> Option<&'static VersionFeatures> {
        let version = match name {
            "bti" => Self::DA,
            "big" => Self::OA,
            "ms" => Self::MT,
            letters => Self::parse(letters)?,
        };
        version.writable_features()
    }

    /// The row of the version, if it can be written.
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

/// The word in a file's name that once told the index kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormatWord {
    /// `big`; also in ScyllaDB's trie versions.
    Big,
    /// `bti`.
    Bti,
}

impl FormatWord {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Bti => "bti",
        }
    }

    /// The word of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Big, Self::Bti].into_iter().find(|word| word.name() == text)
    }
}

/// Whose files they are: what else is expected beside the components that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Apache Cassandra.
    Cassandra,
    /// ScyllaDB.
    Scylla,
}

/// How partitions and rows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Partitions.db and Rows.db; the keys in the trie have this form.
    Trie(TrieKeys),
    /// Index.db, with an index of rows inside, and Summary.db.
    Big,
}

/// How a partition key stands in Partitions.db behind its token. Source: reference 14.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrieKeys {
    /// Its serialised bytes, escaped.
    Bytes,
    /// Each column in its own byte-comparable form.
    Columns,
}

/// How a full deletion time stands in Data.db and Index.db. Source: reference 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionTimeForm {
    /// be32 seconds, be64 timestamp.
    Legacy,
    /// One byte 80 if live, else be64 timestamp, be32 unsigned seconds. No room for negative timestamps.
    Unsigned,
}

/// The width of 32-bit local deletion times. Source: reference 2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDeletionTimes {
    /// Until 2038; "none" is 7FFFFFFF.
    Signed,
    /// Until 2106; "none" is FFFFFFFF.
    Unsigned,
}

impl LocalDeletionTimes {
    /// The latest second that can be stored.
    pub const fn maximum(self) -> u32 {
        match self {
            Self::Signed => 0x7FFF_FFFE,
            Self::Unsigned => 0xFFFF_FFFD,
        }
    }

    /// What stands in a file for a second: later ones than can be stored become the latest, as in Cassandra.
    #[inline]
    pub const fn stored(self, time: u32) -> u32 {
        match self {
            Self::Signed if time == NO_DELETION_TIME => 0x7FFF_FFFF,
            Self::Signed if time > 0x7FFF_FFFE => 0x7FFF_FFFE,
            _ => time,
        }
    }

    /// The second that a file's number stands for. Numbers from 80000000 on are what overflowed where only 31 bits were
    /// thought of; without the sign they are the seconds that were meant.
    #[inline]
    pub const fn meant(self, stored: u32) -> u32 {
        match self {
            Self::Signed if stored == 0x7FFF_FFFF => NO_DELETION_TIME,
            _ => stored,
        }
    }
}

/// The order of the bytes inside a word of Filter.db. Source: reference 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterWords {
    /// Bit i is bit i%64 of the be64 number i/64.
    BigEndian,
    /// Bit i is bit i%8 of byte i/8.
    LittleEndian,
}

/// What Statistics.db says of the clusterings inside. Source: reference 7.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusteringStatistics {
    /// The least and the greatest value of each column.
    MinMaxValues,
    /// A slice that covers all, with the types of its values.
    CoveredSlice,
}

/// A row of the table of versions.
#[derive(Debug, PartialEq, Eq)]
pub struct VersionFeatures {
    /// The letters.
    pub version: Version,
    /// The word in file names.
    pub format_word: FormatWord,
    /// Whose it is.
    pub family: Family,
    /// Whether ScyllaDB expects Scylla.db, which tells that the writer made none of its early mistakes. A set without it is
    /// one of Cassandra's to ScyllaDB, which knows no trie index of Cassandra's.
    pub has_scylla_component: bool,
    /// Whether it can be written, too.
    pub is_written: bool,
    /// Index files.
    pub index: IndexKind,
    /// Deletion times in full form, in Data.db and in Index.db.
    pub deletion_time: DeletionTimeForm,
    /// What becomes of negative deletions in Rows.db.
    pub negative_deletions: NegativeDeletions,
    /// Local deletion times in rows and statistics.
    pub local_deletion_times: LocalDeletionTimes,
    /// Filter.db.
    pub filter_words: FilterWords,
    /// CompressionInfo.db has a maximum compressed length, so that chunks may be stored raw.
    pub raw_chunks: bool,
    /// Statistics.db has checksums.
    pub statistics_checksums: bool,
    /// Bins of the tombstone histogram are a double and a be64, not a be64 and a be32.
    pub wide_drop_times: bool,
    /// Minimum and maximum clustering.
    pub clustering_statistics: ClusteringStatistics,
    /// Statistics.db has the pending repair and the flag of transient replicas.
    pub repair_in_statistics: bool,
    /// Statistics.db has the id of the node that wrote the data first.
    pub host_id_in_statistics: bool,
    /// Statistics.db ends with the flag of partition deletions, the key range, the token space coverage and padding.
    pub key_range_in_statistics: bool,
    /// `column_index_size` where the configuration does not say, in bytes.
    pub default_column_index_size: u32,
}

impl VersionFeatures {
    /// Whether partitions and ranges can be deleted at negative timestamps.
    pub fn has_room_for_negative_deletions(&self) -> bool {
        self.deletion_time == DeletionTimeForm::Legacy
    }

    /// The version of the same family that has that room.
    pub fn with_room_for_negative_deletions(&self) -> &'static VersionFeatures {
        static WITH_ROOM: VersionFeatures = NB;
        &WITH_ROOM
    }

    /// Whether Partitions.db and Rows.db are the index.
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

/// All versions that can be read. The first is what is written where nothing else is said.
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
