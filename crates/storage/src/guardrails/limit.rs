//! Guardrails with thresholds: names, settings, defaults and texts, which are Cassandra's.

use std::fmt::Display;

use super::OFF;

/// The effect of a threshold: a warning or a refusal. `level as usize` is the index in
/// `Thresholds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Level {
    Warn,
    Fail,
}

/// The unit of the thresholds in settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number; -1 is off.
    Count,
    /// A number from 1 to 100; -1 is off.
    Percent,
    /// A size; null is off.
    Bytes,
    /// A duration before or after the present, kept in µs; null is off.
    Age,
}

/// The side of the threshold on which values are beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Values above the threshold.
    Above,
    /// Values below the threshold.
    Below,
}

/// One row of the table of limits.
#[derive(Debug)]
pub struct Definition {
    /// The name in messages. If it is empty, messages do not begin with `Guardrail`.
    pub name: &'static str,
    /// The settings with the thresholds for a warning and for a refusal; empty if there is none.
    pub settings: (&'static str, &'static str),
    /// Older names of the settings, which take plain numbers of KiB.
    pub old_settings: (&'static str, &'static str),
    pub unit: Unit,
    pub side: Side,
    pub defaults: (i64, i64),
    /// The messages of a warning and of a refusal, with `{what}`, `{value}` and `{threshold}`.
    texts: (&'static str, &'static str),
    /// The reason why it matters, at the end of the messages.
    reason: &'static str,
}

/// A guardrail with thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Limit {
    Keyspaces,
    Tables,
    ColumnsPerTable,
    SecondaryIndexesPerTable,
    MaterializedViewsPerTable,
    FieldsPerUdt,
    VectorDimensions,
    MinimumReplicationFactor,
    MaximumReplicationFactor,
    PageSize,
    PartitionKeysInSelect,
    InSelectCartesianProduct,
    ColumnValueSize,
    CollectionSize,
    ItemsPerCollection,
    MaximumTimestamp,
    MinimumTimestamp,
    PartitionSize,
    PartitionTombstones,
    DataDiskUsage,
    SaiSstableIndexesPerQuery,
    SaiStringTermSize,
    SaiFrozenTermSize,
    SaiVectorTermSize,
    BatchSize,
    UnloggedBatchAcrossPartitions,
    Tombstones,
}

use Limit as L;

impl Limit {
    /// The number of limits.
    pub const COUNT: usize = 27;

    /// All limits, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        L::Keyspaces,
        L::Tables,
        L::ColumnsPerTable,
        L::SecondaryIndexesPerTable,
        L::MaterializedViewsPerTable,
        L::FieldsPerUdt,
        L::VectorDimensions,
        L::MinimumReplicationFactor,
        L::MaximumReplicationFactor,
        L::PageSize,
        L::PartitionKeysInSelect,
        L::InSelectCartesianProduct,
        L::ColumnValueSize,
        L::CollectionSize,
        L::ItemsPerCollection,
        L::MaximumTimestamp,
        L::MinimumTimestamp,
        L::PartitionSize,
        L::PartitionTombstones,
        L::DataDiskUsage,
        L::SaiSstableIndexesPerQuery,
        L::SaiStringTermSize,
        L::SaiFrozenTermSize,
        L::SaiVectorTermSize,
        L::BatchSize,
        L::UnloggedBatchAcrossPartitions,
        L::Tombstones,
    ];

    /// The limits that concern reads of single rows.
    pub(super) const OF_READS: &[Self] = &[L::PageSize];

    /// The limits that concern writes.
    pub(super) const OF_WRITES: &[Self] = &[
        L::InSelectCartesianProduct,
        L::ColumnValueSize,
        L::CollectionSize,
        L::ItemsPerCollection,
        L::MaximumTimestamp,
        L::MinimumTimestamp,
        L::DataDiskUsage,
    ];

    /// Returns the row of the table.
    pub(super) fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// Returns a threshold in the unit of the values. Thresholds of ages become µs since 1970.
    pub(super) fn absolute(self, threshold: i64, now_us: impl FnOnce() -> i64) -> i64 {
        match (self.definition().unit, self.definition().side) {
            (Unit::Age, Side::Above) => now_us().saturating_add(threshold),
            (Unit::Age, Side::Below) => now_us().saturating_sub(threshold),
            _ => threshold,
        }
    }

    pub(super) fn is_beyond(self, value: i64, threshold: i64) -> bool {
        match self.definition().side {
            Side::Above => value > threshold,
            Side::Below => value < threshold,
        }
    }

    /// Returns the message of a violation.
    pub fn message(self, level: Level, what: &dyn Display, value: i64, threshold: i64) -> String {
        let definition = self.definition();
        let text = match level {
            Level::Warn => definition.texts.0,
            Level::Fail => definition.texts.1,
        };
        // `what` is replaced last, because it may contain braces.
        let text = text
            .replace("{value}", &value.to_string())
            .replace("{threshold}", &threshold.to_string())
            .replace("{what}", &what.to_string());
        decorate(definition.name, text, definition.reason)
    }
}

/// Adds the guardrail's name before a message and the reason after it.
pub(super) fn decorate(name: &str, text: String, reason: &str) -> String {
    if name.is_empty() {
        return text;
    }
    let end = match reason {
        "" => "",
        _ if text.ends_with('.') => " ",
        _ => ". ",
    };
    format!("Guardrail {name} violated: {text}{end}{reason}")
}

/// The settings of a limit, whose names differ in the middle word alone.
macro_rules! thresholds {
    ($name:literal) => {
        (concat!($name, "_warn_threshold"), concat!($name, "_fail_threshold"))
    };
}

/// Returns the row of a limit on numbers without defaults. Rows of other limits change some fields
/// of it.
const fn count(
    name: &'static str,
    settings: (&'static str, &'static str),
    texts: (&'static str, &'static str),
) -> Definition {
    Definition {
        name,
        settings,
        old_settings: ("", ""),
        unit: Unit::Count,
        side: Side::Above,
        defaults: (OFF, OFF),
        texts,
        reason: "",
    }
}

const VALUE_SIZE: (&str, &str) = (
    "Value of column '{what}' has size {value}, this exceeds the warning threshold of {threshold}.",
    "Value of column '{what}' has size {value}, this exceeds the failure threshold of {threshold}.",
);

const KIB: i64 = 1 << 10;

const DEFINITIONS: [Definition; Limit::COUNT] = [
    count(
        "keyspaces",
        thresholds!("keyspaces"),
        (
            "Creating keyspace {what}, current number of keyspaces {value} exceeds warning threshold of {threshold}.",
            "Cannot have more than {threshold} keyspaces, aborting the creation of keyspace {what}",
        ),
    ),
    count(
        "tables",
        thresholds!("tables"),
        (
            "Creating table {what}, current number of tables {value} exceeds warning threshold of {threshold}.",
            "Cannot have more than {threshold} tables, aborting the creation of table {what}",
        ),
    ),
    count(
        "columns_per_table",
        thresholds!("columns_per_table"),
        (
            "The table {what} has {value} columns, this exceeds the warning threshold of {threshold}.",
            "Tables cannot have more than {threshold} columns, but {value} provided for table {what}",
        ),
    ),
    count(
        "secondary_indexes_per_table",
        thresholds!("secondary_indexes_per_table"),
        (
            "Creating secondary index {what}, current number of indexes {value} exceeds warning threshold of {threshold}.",
            "Tables cannot have more than {threshold} secondary indexes, aborting the creation of secondary index {what}",
        ),
    ),
    count(
        "materialized_views_per_table",
        thresholds!("materialized_views_per_table"),
        (
            "Creating materialized view {what}, current number of views {value} exceeds warning threshold of {threshold}.",
            "Tables cannot have more than {threshold} materialized views, aborting the creation of materialized view {what}",
        ),
    ),
    count(
        "fields_per_udt",
        thresholds!("fields_per_udt"),
        (
            "The user type {what} has {value} columns, this exceeds the warning threshold of {threshold}.",
            "User types cannot have more than {threshold} columns, but {value} provided for user type {what}.",
        ),
    ),
    count(
        "vector_dimensions",
        thresholds!("vector_dimensions"),
        (
            "{what} has a vector of {value} dimensions, this exceeds the warning threshold of {threshold}.",
            "{what} has a vector of {value} dimensions, this exceeds the failure threshold of {threshold}.",
        ),
    ),
    Definition {
        side: Side::Below,
        ..count(
            "minimum_replication_factor",
            thresholds!("minimum_replication_factor"),
            (
                "The keyspace {what} has a replication factor of {value}, below the warning threshold of {threshold}.",
                "The keyspace {what} has a replication factor of {value}, below the failure threshold of {threshold}.",
            ),
        )
    },
    count(
        "maximum_replication_factor",
        thresholds!("maximum_replication_factor"),
        (
            "The keyspace {what} has a replication factor of {value}, above the warning threshold of {threshold}.",
            "The keyspace {what} has a replication factor of {value}, above the failure threshold of {threshold}.",
        ),
    ),
    count(
        "page_size",
        thresholds!("page_size"),
        (
            "Query for table {what} with page size {value} exceeds warning threshold of {threshold}.",
            "Aborting query for table {what}, page size {value} exceeds fail threshold of {threshold}.",
        ),
    ),
    count(
        "partition_keys_in_select",
        thresholds!("partition_keys_in_select"),
        (
            "Query with partition keys in IN clause on table {what}, with number of partition keys {value} exceeds warning threshold of {threshold}.",
            "Aborting query with partition keys in IN clause on table {what}, number of partition keys {value} exceeds fail threshold of {threshold}.",
        ),
    ),
    count(
        "in_select_cartesian_product",
        thresholds!("in_select_cartesian_product"),
        (
            "The cartesian product of the IN restrictions on {what} produces {value} values, this exceeds warning threshold of {threshold}.",
            "Aborting query because the cartesian product of the IN restrictions on {what} produces {value} values, this exceeds fail threshold of {threshold}.",
        ),
    ),
    Definition {
        unit: Unit::Bytes,
        ..count("column_value_size", thresholds!("column_value_size"), VALUE_SIZE)
    },
    Definition {
        unit: Unit::Bytes,
        ..count(
            "collection_size",
            thresholds!("collection_size"),
            (
                "Detected collection {what} of size {value}, this exceeds the warning threshold of {threshold}.",
                "Detected collection {what} of size {value}, this exceeds the failure threshold of {threshold}.",
            ),
        )
    },
    count(
        "items_per_collection",
        thresholds!("items_per_collection"),
        (
            "Detected collection {what} with {value} items, this exceeds the warning threshold of {threshold}.",
            "Detected collection {what} with {value} items, this exceeds the failure threshold of {threshold}.",
        ),
    ),
    Definition {
        unit: Unit::Age,
        reason: "Timestamps too far in the future can lead to data that can't be easily overwritten",
        ..count(
            "maximum_timestamp",
            thresholds!("maximum_timestamp"),
            (
                "The modification to table {what} has a timestamp {value} after the maximum allowable warning threshold {threshold}",
                "The modification to table {what} has a timestamp {value} after the maximum allowable failure threshold {threshold}",
            ),
        )
    },
    Definition {
        unit: Unit::Age,
        side: Side::Below,
        reason: "Timestamps too far in the past can cause writes can be unexpectedly lost",
        ..count(
            "minimum_timestamp",
            thresholds!("minimum_timestamp"),
            (
                "The modification to table {what} has a timestamp {value} before the minimum allowable warning threshold {threshold}",
                "The modification to table {what} has a timestamp {value} before the minimum allowable failure threshold {threshold}",
            ),
        )
    },
    Definition {
        unit: Unit::Bytes,
        reason: "Too large partitions can cause performance problems.",
        ..count(
            "partition_size",
            thresholds!("partition_size"),
            (
                "Partition {what} has size {value}, this exceeds the warning threshold of {threshold}.",
                "Partition {what} has size {value}, this exceeds the failure threshold of {threshold}.",
            ),
        )
    },
    Definition {
        reason: "Partitions with too many tombstones can cause performance problems.",
        ..count(
            "partition_tombstones",
            thresholds!("partition_tombstones"),
            (
                "Partition {what} has {value} tombstones, this exceeds the warning threshold of {threshold}.",
                "Partition {what} has {value} tombstones, this exceeds the failure threshold of {threshold}.",
            ),
        )
    },
    Definition {
        unit: Unit::Percent,
        ..count(
            "replica_disk_usage",
            thresholds!("data_disk_usage_percentage"),
            (
                "Replica disk usage exceeds warning threshold",
                "Write request failed because disk usage exceeds failure threshold",
            ),
        )
    },
    Definition {
        defaults: (32, OFF),
        reason: "High number of referenced indexes per query may negatively effect performance",
        ..count(
            "sai_sstable_indexes_per_query",
            thresholds!("sai_sstable_indexes_per_query"),
            (
                "The number of SSTable indexes queried on index {what} violated warning threshold value {threshold} with value {value}",
                "The number of SSTable indexes queried on index {what} violated failure threshold value {threshold} with value {value}",
            ),
        )
    },
    Definition {
        unit: Unit::Bytes,
        defaults: (KIB, 8 * KIB),
        ..count("sai_string_term_size", thresholds!("sai_string_term_size"), VALUE_SIZE)
    },
    Definition {
        unit: Unit::Bytes,
        defaults: (KIB, 8 * KIB),
        ..count("sai_frozen_term_size", thresholds!("sai_frozen_term_size"), VALUE_SIZE)
    },
    Definition {
        unit: Unit::Bytes,
        defaults: (16 * KIB, 32 * KIB),
        ..count("sai_vector_term_size", thresholds!("sai_vector_term_size"), VALUE_SIZE)
    },
    Definition {
        unit: Unit::Bytes,
        defaults: (5 * KIB, 50 * KIB),
        old_settings: ("batch_size_warn_threshold_in_kb", "batch_size_fail_threshold_in_kb"),
        ..count(
            "",
            thresholds!("batch_size"),
            (
                "Batch for {what} is of size {value}, exceeding specified threshold of {threshold}",
                "",
            ),
        )
    },
    Definition {
        defaults: (10, OFF),
        ..count(
            "",
            ("unlogged_batch_across_partitions_warn_threshold", ""),
            (
                "Unlogged batch covering {value} partitions detected against {what}. You should use a logged batch for atomicity, or asynchronous writes for performance.",
                "",
            ),
        )
    },
    Definition {
        defaults: (1000, 100_000),
        ..count(
            "",
            ("tombstone_warn_threshold", "tombstone_failure_threshold"),
            ("{what}", "{what}"),
        )
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_limits_stand_at_their_number() {
        for (index, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, index);
            let name = format!("{limit:?}").to_lowercase();
            let setting = limit.definition().settings.0.replace('_', "");
            let name = name.trim_end_matches('s');
            assert!(setting.starts_with(name), "{name} {setting}");
        }
    }
}
