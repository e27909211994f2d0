//! What a format version decides. A version is a row of [`VERSIONS`], not a fork of the code: one writer and one reader
//! ask these questions. Source: reference 1 and 19.
//!
//! Enabled today: `da` (Apache Cassandra 5.0, trie index). Enums name the answers of other versions only where the code
//! already acts on them; what a new row needs besides is a new answer here and the code that follows it.

use std::fmt;

/// Two lower-case letters that begin a file's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub [u8; 2]);

impl Version {
    /// Apache Cassandra 5.0 with the trie index.
    pub const DA: Version = Version(*b"da");

    /// The two letters of a file name, if they are that.
    pub fn parse(text: &str) -> Option<Version> {
        match *text.as_bytes() {
            [a @ b'a'..=b'z', b @ b'a'..=b'z'] => Some(Version([a, b])),
            _ => None,
        }
    }

    /// The row of the version, if it is enabled.
    pub fn features(self) -> Option<&'static VersionFeatures> {
        VERSIONS.iter().find(|features| features.version == self)
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

/// How partitions and rows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Partitions.db and Rows.db.
    Trie,
}

/// How a full deletion time stands in Data.db and Rows.db. Source: reference 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionTimeForm {
    /// One byte 80 if live, else be64 timestamp, be32 unsigned seconds. No room for negative timestamps.
    Unsigned,
}

/// The width of 32-bit local deletion times. Source: reference 2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDeletionTimes {
    /// Until 2106; "none" is FFFFFFFF.
    Unsigned,
}

impl LocalDeletionTimes {
    /// The latest second that can be stored.
    pub const fn maximum(self) -> u32 {
        match self {
            Self::Unsigned => 0xFFFF_FFFD,
        }
    }
}

/// The order of the bytes inside a word of Filter.db. Source: reference 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterWords {
    /// Bit i is bit i%8 of byte i/8.
    LittleEndian,
}

/// What Statistics.db says of the clusterings inside. Source: reference 7.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusteringStatistics {
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
    /// Index files.
    pub index: IndexKind,
    /// Deletion times in full form, in Data.db and in the row index.
    pub deletion_time: DeletionTimeForm,
    /// Local deletion times in rows and statistics.
    pub local_deletion_times: LocalDeletionTimes,
    /// Filter.db.
    pub filter_words: FilterWords,
    /// CompressionInfo.db has a maximum compressed length, so that chunks may be stored raw.
    pub raw_chunks: bool,
    /// Statistics.db has checksums.
    pub statistics_checksums: bool,
    /// Minimum and maximum clustering.
    pub clustering_statistics: ClusteringStatistics,
    /// Statistics.db ends with the flag of partition deletions, the key range, the token space coverage and padding.
    pub key_range_in_statistics: bool,
    /// `column_index_size` where the configuration does not say, in bytes.
    pub default_column_index_size: u32,
}

/// All versions that can be read and written.
pub static VERSIONS: &[VersionFeatures] = &[VersionFeatures {
    version: Version::DA,
    format_word: FormatWord::Bti,
    index: IndexKind::Trie,
    deletion_time: DeletionTimeForm::Unsigned,
    local_deletion_times: LocalDeletionTimes::Unsigned,
    filter_words: FilterWords::LittleEndian,
    raw_chunks: true,
    statistics_checksums: true,
    clustering_statistics: ClusteringStatistics::CoveredSlice,
    key_range_in_statistics: true,
    default_column_index_size: 16 * 1024,
}];
