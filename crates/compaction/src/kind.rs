//! This module names the reasons of compactions.

/// The reason of a compaction. The names are Cassandra's operation types, except for `RESHARD`,
/// which is ScyllaDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// The strategy has picked it.
    Compaction,
    /// An operator requested it: the requested files become one run.
    Major,
    /// An operator requested it: each file is rewritten in the current version and with the current
    /// options.
    Upgrade,
    /// A file that spans several shards is split into one for each.
    Split,
    /// An operator requested it: each file is checked, and perhaps rewritten without the unreadable
    /// parts.
    Scrub,
    /// A file gets the entries of secondary indexes: it is rewritten with them.
    IndexBuild,
}

impl CompactionKind {
    /// All kinds, in order of declaration.
    pub const ALL: [Self; 6] =
        [Self::Compaction, Self::Major, Self::Upgrade, Self::Split, Self::Scrub, Self::IndexBuild];

    /// Returns the name in tables and in the admin API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compaction => "COMPACTION",
            Self::Major => "MAJOR_COMPACTION",
            Self::Upgrade => "UPGRADE_SSTABLES",
            Self::Split => "RESHARD",
            Self::Scrub => "SCRUB",
            Self::IndexBuild => "INDEX_BUILD",
        }
    }

    /// Returns the word for this kind in the names of transaction logs. Cassandra must know the
    /// word.
    pub(crate) fn log_word(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade_sstables",
            Self::Scrub => "scrub",
            _ => "compaction",
        }
    }
}
