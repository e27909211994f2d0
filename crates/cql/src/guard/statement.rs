//! Checks the features, page size and consistency levels of a statement against the guardrails.

use espalier_storage::guardrails::{Feature, Limit, Names};

use super::Guard;
use crate::{
    Error, Result, ddl::is_system_keyspace, modify::PlannedModification, options::QueryOptions,
    prepared::Plan, restrictions::NEEDS_FILTERING, select::PlannedSelect,
};

/// The serial consistency of requests without one.
const SERIAL: u16 = 0x08;

/// Checks a plan as Cassandra does when it prepares a statement.
///
/// # Errors
/// The statement uses a feature that is switched off.
pub fn check_prepared(plan: &Plan, guard: Guard<'_>) -> Result<()> {
    match plan {
        Plan::Select(select) if select.group_by.is_some() => guard.require(Feature::GroupBy),
        _ => Ok(()),
    }
}

/// Checks a plan before an execution.
///
/// # Errors
/// The statement uses a feature that is switched off, or a consistency level is not allowed.
pub fn check_plan(plan: &Plan, options: &QueryOptions<'_>, guard: Guard<'_>) -> Result<()> {
    match plan {
        Plan::Select(select) => check_select(select, options, guard),
        Plan::Modification(statement) if guard.guardrails.guards_writes() => {
            check_batch([&**statement], options, guard)
        }
        Plan::Batch(batch) if guard.guardrails.guards_writes() => {
            check_batch(&batch.statements, options, guard)
        }
        Plan::Truncate(_) => guard.require(Feature::DropTruncateTable),
        Plan::Use(_) if !guard.guardrails.is_enabled(Feature::UseStatements) => {
            Err(Error::invalid(
                "USE statements prohibited. (see use_statements_enabled in cassandra.yaml)",
            ))
        }
        _ => Ok(()),
    }
}

fn check_select(
    select: &PlannedSelect,
    options: &QueryOptions<'_>,
    guard: Guard<'_>,
) -> Result<()> {
    if select.allows_filtering && !is_system_keyspace(&select.table.keyspace) {
        guard.require(Feature::AllowFiltering)?;
    }
    if select.restrictions.uses_index && select.restrictions.partition.keys().is_none() {
        guard.require(Feature::NonPartitionRestrictedIndexQuery)?;
    }
    if guard.guardrails.guards_reads() {
        check_levels(Names::ReadConsistencyLevels, &[options.consistency], guard)?;
    }
    Ok(())
}

/// Checks the modifications of one request.
///
/// # Errors
/// One of them has USING TIMESTAMP, and this is switched off, or a consistency level is not
/// allowed.
pub fn check_batch<'s>(
    statements: impl IntoIterator<Item = &'s PlannedModification>,
    options: &QueryOptions<'_>,
    guard: Guard<'_>,
) -> Result<()> {
    for statement in statements {
        if statement.timestamp.is_some() {
            guard.require(Feature::UserTimestamps)?;
        }
    }
    let serial = options.serial_consistency.unwrap_or(SERIAL);
    check_levels(Names::WriteConsistencyLevels, &[options.consistency, serial], guard)
}

fn check_levels(names: Names, codes: &[u16], guard: Guard<'_>) -> Result<()> {
    let levels: Vec<&str> = codes.iter().filter_map(|code| Names::level(*code)).collect();
    guard.judge(names, &levels).map(drop)
}

impl PlannedSelect {
    /// Checks the page size of an execution. A statement whose LIMIT fits into a page is not paged.
    ///
    /// # Errors
    /// The page size is not allowed.
    pub fn check_page_size(
        &self,
        options: &QueryOptions<'_>,
        limit: usize,
        guard: Guard<'_>,
    ) -> Result<()> {
        match options.page_size.and_then(|size| usize::try_from(size).ok()) {
            Some(size) if size > 0 && limit > size => {
                guard.check(Limit::PageSize, size, &self.table.name)
            }
            _ => Ok(()),
        }
    }

    /// Warns about an aggregate with an IN on the partition key or without a condition on the
    /// partitions.
    pub fn warn_of_aggregate(&self, guard: Guard<'_>) {
        if !self.is_aggregate {
            return;
        }
        if self.restrictions.partition_key_has_in() {
            guard.warn("Aggregation query used on multiple partition keys (IN restriction)");
        } else if !self.restrictions.restricts_partition() {
            guard.warn("Aggregation query used without partition key");
        }
    }
}

/// Replaces the advice to use ALLOW FILTERING if ALLOW FILTERING is switched off.
pub fn explain_filtering(error: Error, guard: Guard<'_>) -> Error {
    let may_filter = guard.is_exempt || guard.guardrails.is_enabled(Feature::AllowFiltering);
    if may_filter || error.message != NEEDS_FILTERING {
        return error;
    }
    Error::invalid(
        "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. \
         Executing this query despite the performance unpredictability with ALLOW FILTERING has been disabled \
         by the allow_filtering_enabled property in cassandra.yaml",
    )
}
