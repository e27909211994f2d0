//! Guardrails that switch a feature off: names, settings and texts, which are Cassandra's.

use super::limit::decorate;

/// One row of the table of features.
#[derive(Debug)]
pub struct Definition {
    /// The name in messages.
    pub name: &'static str,
    /// The setting that enables the feature; all are enabled by default.
    pub setting: &'static str,
    /// The setting that warns about the feature, which is on by default.
    pub warned: Option<&'static str>,
    /// The feature in messages.
    pub what: &'static str,
    /// The reason why it matters, at the end of the messages.
    reason: &'static str,
}

/// A feature that a guardrail can switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Feature {
    UserTimestamps,
    GroupBy,
    DropTruncateTable,
    DropKeyspace,
    SecondaryIndexes,
    UncompressedTables,
    CompactTables,
    AlterTable,
    AllowFiltering,
    SimpleStrategy,
    ReadBeforeWriteListOperations,
    NonPartitionRestrictedIndexQuery,
    ZeroTtlOnTwcs,
    IntersectFilteringQuery,
    VectorType,
    UseStatements,
}

use Feature as F;

impl Feature {
    /// The number of features.
    pub const COUNT: usize = 16;

    /// All features, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        F::UserTimestamps,
        F::GroupBy,
        F::DropTruncateTable,
        F::DropKeyspace,
        F::SecondaryIndexes,
        F::UncompressedTables,
        F::CompactTables,
        F::AlterTable,
        F::AllowFiltering,
        F::SimpleStrategy,
        F::ReadBeforeWriteListOperations,
        F::NonPartitionRestrictedIndexQuery,
        F::ZeroTtlOnTwcs,
        F::IntersectFilteringQuery,
        F::VectorType,
        F::UseStatements,
    ];

    /// The features that reads of single rows may use.
    pub(super) const OF_READS: &[Self] = &[F::AllowFiltering];

    /// The features that writes of single rows may use.
    pub(super) const OF_WRITES: &[Self] = &[F::UserTimestamps, F::ReadBeforeWriteListOperations];

    /// Returns the row of the table.
    pub(super) fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// Returns the message for a use of the feature under the name `what`.
    pub(super) fn message(self, is_enabled: bool, what: &str) -> String {
        let definition = self.definition();
        let verdict = if is_enabled { "recommended" } else { "allowed" };
        decorate(definition.name, format!("{what} is not {verdict}"), definition.reason)
    }
}

const fn feature(name: &'static str, setting: &'static str, what: &'static str) -> Definition {
    Definition { name, setting, warned: None, what, reason: "" }
}

const DEFINITIONS: [Definition; Feature::COUNT] = [
    feature(
        "user_timestamps",
        "user_timestamps_enabled",
        "User provided timestamps (USING TIMESTAMP)",
    ),
    feature("group_by", "group_by_enabled", "GROUP BY functionality"),
    feature(
        "drop_truncate_table_enabled",
        "drop_truncate_table_enabled",
        "DROP and TRUNCATE TABLE functionality",
    ),
    feature("drop_keyspace_enabled", "drop_keyspace_enabled", "DROP KEYSPACE functionality"),
    feature("secondary_indexes", "secondary_indexes_enabled", "Creating secondary indexes"),
    feature("uncompressed_tables_enabled", "uncompressed_tables_enabled", "Uncompressed table"),
    feature("compact_tables", "compact_tables_enabled", "Creation of new COMPACT STORAGE tables"),
    feature("alter_table", "alter_table_enabled", "ALTER TABLE changing columns"),
    Definition {
        reason: "ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.",
        ..feature("allow_filtering", "allow_filtering_enabled", "Querying with ALLOW FILTERING")
    },
    feature("simplestrategy", "simplestrategy_enabled", "SimpleStrategy"),
    feature(
        "read_before_write_list_operations",
        "read_before_write_list_operations_enabled",
        "List operation requiring read before write",
    ),
    Definition {
        reason: "Executing a query on secondary indexes without partition key restriction might degrade performance",
        ..feature(
            "non_partition_restricted_index_query_enabled",
            "non_partition_restricted_index_query_enabled",
            "Non-partition key restricted query",
        )
    },
    Definition {
        warned: Some("zero_ttl_on_twcs_warned"),
        reason: "It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please keep in mind that data will not start to automatically expire after they are older than a respective compaction window unit of a certain size. Please set TTL for your INSERT or UPDATE statements if you expect data to be expired as table settings will not do it. ",
        ..feature(
            "zero_ttl_on_twcs",
            "zero_ttl_on_twcs_enabled",
            "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy",
        )
    },
    // This guardrail has no effect. Only a member of a ring reconciles the answers of several
    // nodes.
    Definition {
        warned: Some("intersect_filtering_query_warned"),
        reason: "Filtering queries involving an intersection on multiple mutable (i.e. non-key) columns over unrepaired data at read consistency levels that would require coordinator reconciliation may violate the guarantees of those consistency levels.",
        ..feature(
            "intersect_filtering_query",
            "intersect_filtering_query_enabled",
            "Filtering query with intersection on mutable columns at consistency level requiring coordinator reconciliation",
        )
    },
    feature("vector_type_enabled", "vector_type_enabled", "Vector type"),
    feature("", "use_statements_enabled", "USE statement"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_features_stand_at_their_number() {
        for (index, feature) in Feature::ALL.into_iter().enumerate() {
            assert_eq!(feature as usize, index);
            let name = format!("{feature:?}").to_lowercase();
            let setting = feature.definition().setting.replace('_', "");
            assert!(setting.starts_with(&name), "{name} {setting}");
        }
    }
}
