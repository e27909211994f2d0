//! Why something is compacted.

/// Why something is compacted; the names are Cassandra's operation types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// The strategy wants it.
    Compaction,
    /// Asked for: all files become one run.
    Major,
    /// Asked for: each file is written anew in the version and with the options of today.
    Upgrade,
    /// A file of which several shards have a part becomes one for each.
    Split,
    /// Asked for: each file is looked through, and perhaps written anew without what cannot be read.
    Scrub,
}

impl CompactionKind {
    /// All there are, in their order.
    pub const ALL: [Self; 5] =
        [Self::Compaction, Self::Major, Self::Upgrade, Self::Split, Self::Scrub];

    /// The name in tables and in the admin API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compaction => "COMPACTION",
            Self::Major => "MAJOR_COMPACTION",
            Self::Upgrade => "UPGRADE_SSTABLES",
            Self::Split => "RESHARD",
            Self::Scrub => "SCRUB",
        }
    }

    /// The word in the name of its log: one that Cassandra knows.
    pub(super) fn log_word(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade_sstables",
            Self::Scrub => "scrub",
            _ => "compaction",
        }
    }
}
