//! Guardrails on sets of values: table properties and consistency levels.

use super::limit::decorate;

/// A guardrail on a set of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Names {
    TableProperties,
    ReadConsistencyLevels,
    WriteConsistencyLevels,
}

/// The treatment of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value is used, with a warning.
    Warned,
    /// The value is not used, with a warning.
    Ignored,
    /// The value is refused.
    Disallowed,
}

impl Verdict {
    /// All verdicts, in the order of their numbers.
    pub(super) const ALL: [Self; 3] = [Self::Warned, Self::Ignored, Self::Disallowed];
}

/// The consistency levels in the order of their codes in the protocol.
pub const CONSISTENCY_LEVELS: [&str; 12] = [
    "ANY",
    "ONE",
    "TWO",
    "THREE",
    "QUORUM",
    "ALL",
    "LOCAL_QUORUM",
    "EACH_QUORUM",
    "SERIAL",
    "LOCAL_SERIAL",
    "LOCAL_ONE",
    "NODE_LOCAL",
];

/// Table properties that Cassandra accepts in the settings.
const PROPERTIES: [&str; 21] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "dclocal_read_repair_chance",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
];

impl Names {
    /// The number of these guardrails.
    pub const COUNT: usize = 3;

    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] =
        [Self::TableProperties, Self::ReadConsistencyLevels, Self::WriteConsistencyLevels];

    /// Returns the name of the guardrail, with which its settings begin.
    pub fn name(self) -> &'static str {
        match self {
            Self::TableProperties => "table_properties",
            Self::ReadConsistencyLevels => "read_consistency_levels",
            Self::WriteConsistencyLevels => "write_consistency_levels",
        }
    }

    /// Returns the setting for a verdict.
    pub fn setting(self, verdict: Verdict) -> Option<&'static str> {
        Some(match (self, verdict) {
            (Self::TableProperties, Verdict::Warned) => "table_properties_warned",
            (Self::TableProperties, Verdict::Ignored) => "table_properties_ignored",
            (Self::TableProperties, Verdict::Disallowed) => "table_properties_disallowed",
            (Self::ReadConsistencyLevels, Verdict::Warned) => "read_consistency_levels_warned",
            (Self::ReadConsistencyLevels, Verdict::Disallowed) => {
                "read_consistency_levels_disallowed"
            }
            (Self::WriteConsistencyLevels, Verdict::Warned) => "write_consistency_levels_warned",
            (Self::WriteConsistencyLevels, Verdict::Disallowed) => {
                "write_consistency_levels_disallowed"
            }
            (_, Verdict::Ignored) => return None,
        })
    }

    /// Returns the name of a consistency level by its code in the protocol.
    pub fn level(code: u16) -> Option<&'static str> {
        CONSISTENCY_LEVELS.get(usize::from(code)).copied()
    }

    /// Returns the known name that a setting gives, whatever its case.
    pub(super) fn find(self, given: &str) -> Option<&'static str> {
        let known: &[&str] =
            if self == Self::TableProperties { &PROPERTIES } else { &CONSISTENCY_LEVELS };
        known.iter().find(|name| name.eq_ignore_ascii_case(given)).copied()
    }

    /// Sorts values as messages list them.
    pub(super) fn sort(self, names: &mut Vec<&str>) {
        match self {
            Self::TableProperties => names.sort_unstable(),
            _ => {
                names.sort_by_key(|name| CONSISTENCY_LEVELS.iter().position(|level| level == name))
            }
        }
        names.dedup();
    }

    /// Returns the message about some values. `set` has all values with this verdict.
    pub(super) fn message(self, verdict: Verdict, found: &[String], set: &[String]) -> String {
        let (found, set) = (found.join(", "), set.join(", "));
        let what = match self {
            Self::TableProperties => "Table Properties",
            Self::ReadConsistencyLevels => "read consistency levels",
            Self::WriteConsistencyLevels => "write consistency levels",
        };
        let text = match verdict {
            Verdict::Warned => format!(
                "Provided values [{found}] are not recommended for {what} (warned values are: [{set}])"
            ),
            Verdict::Ignored => format!(
                "Ignoring provided values [{found}] as they are not supported for {what} (ignored values are: [{set}])"
            ),
            Verdict::Disallowed => format!(
                "Provided values [{found}] are not allowed for {what} (disallowed values are: [{set}])"
            ),
        };
        decorate(self.name(), text, "")
    }
}
