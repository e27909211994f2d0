//! The types of compactions that `nodetool stop` stops.

use clap::ValueEnum;

/// Types of compactions, by the names of Cassandra and, if it has none, ScyllaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StopType {
    /// Compactions that merge files, automatic or requested, and splits of files
    #[value(name = "COMPACTION")]
    Compaction,
    /// Compactions that an operator requested
    #[value(name = "MAJOR_COMPACTION")]
    Major,
    /// Cleanups, of which there are none
    #[value(name = "CLEANUP")]
    Cleanup,
    /// Scrubs
    #[value(name = "SCRUB")]
    Scrub,
    /// Upgrades, which rewrite files in the current version
    #[value(name = "UPGRADE_SSTABLES", alias = "UPGRADE")]
    Upgrade,
    /// Splits of files that span several shards
    #[value(name = "RESHARD")]
    Reshard,
    /// Builds of secondary indexes
    #[value(name = "INDEX_BUILD")]
    IndexBuild,
}

impl StopType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Compaction => "COMPACTION",
            Self::Major => "MAJOR_COMPACTION",
            Self::Cleanup => "CLEANUP",
            Self::Scrub => "SCRUB",
            Self::Upgrade => "UPGRADE_SSTABLES",
            Self::Reshard => "RESHARD",
            Self::IndexBuild => "INDEX_BUILD",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_they_are_given() {
        for stop_type in StopType::value_variants() {
            let value = stop_type.to_possible_value().unwrap();
            assert_eq!(value.get_name(), stop_type.name());
        }
    }
}
