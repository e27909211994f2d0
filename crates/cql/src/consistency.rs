//! Consistency levels that Cassandra refuses for a statement, regardless of the number of nodes.
//!
//! Cassandra accepts each level for a batch without conditions, except ANY for a batch that reads
//! rows.

use crate::{Error, Result, modify::PlannedModification, options::QueryOptions, prepared::Plan};

const ANY: u16 = 0x00;
const SERIAL: u16 = 0x08;
const LOCAL_SERIAL: u16 = 0x09;

/// Returns whether the level is SERIAL or LOCAL_SERIAL.
#[inline]
pub(crate) fn is_serial(consistency: u16) -> bool {
    matches!(consistency, SERIAL | LOCAL_SERIAL)
}

/// Refuses consistency levels (by their codes in the protocol) that are invalid for the statement.
#[inline]
pub(crate) fn check(plan: &Plan, options: &QueryOptions<'_>) -> Result<()> {
    match plan {
        Plan::Modification(statement) if !statement.condition.is_none() => {
            check_conditional(options)
        }
        Plan::Batch(batch) if batch.is_conditional() => check_conditional(options),
        _ => check_unconditional(plan, options.consistency),
    }
}

#[inline]
fn check_unconditional(plan: &Plan, consistency: u16) -> Result<()> {
    if consistency != ANY && !is_serial(consistency) {
        return Ok(());
    }
    match plan {
        Plan::Select(_) if consistency == ANY => {
            Err(Error::invalid("ANY ConsistencyLevel is only supported for writes"))
        }
        Plan::Modification(statement) => check_write(statement, consistency),
        Plan::Batch(batch) => check_batch(&batch.statements, consistency),
        _ => Ok(()),
    }
}

/// Refuses ANY for a batch without conditions that reads rows.
pub(crate) fn check_batch<'s>(
    statements: impl IntoIterator<Item = &'s PlannedModification>,
    consistency: u16,
) -> Result<()> {
    if consistency == ANY && statements.into_iter().any(PlannedModification::needs_read) {
        return Err(unreadable());
    }
    Ok(())
}

#[cold]
fn unreadable() -> Error {
    Error::invalid("Write operation require a read but consistency ANY is not supported on reads")
}

/// Refuses consistency levels that are invalid for a conditional statement or batch.
pub(crate) fn check_conditional(options: &QueryOptions<'_>) -> Result<()> {
    if options.serial_consistency.is_some_and(|consistency| !is_serial(consistency)) {
        return Err(Error::invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        ));
    }
    let name = match options.consistency {
        SERIAL => "SERIAL",
        LOCAL_SERIAL => "LOCAL_SERIAL",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!(
        "{name} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\""
    )))
}

#[cold]
fn check_write(statement: &PlannedModification, consistency: u16) -> Result<()> {
    let table = &statement.table;
    match (table.is_counter(), consistency) {
        (true, ANY) => Err(Error::invalid(format!(
            "Consistency level ANY is not yet supported for counter table {}",
            table.name
        ))),
        (true, _) => Err(Error::invalid("Counter operations are inherently non-serializable")),
        (false, ANY) if statement.needs_read() => Err(unreadable()),
        (false, ANY) => Ok(()),
        (false, _) => {
            Err(Error::invalid("You must use conditional updates for serializable writes"))
        }
    }
}
