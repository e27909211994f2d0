//! Consistency levels that Cassandra refuses for a statement, regardless of the number of nodes.
//!
//! Batches are not checked: Cassandra accepts each level for them.

use crate::{Error, Result, modify::PlannedModification, prepared::Plan};

const ANY: u16 = 0x00;
const SERIAL: u16 = 0x08;
const LOCAL_SERIAL: u16 = 0x09;

/// Refuses a consistency level (its code in the protocol) that is invalid for the statement.
#[inline]
pub(crate) fn check(plan: &Plan, consistency: u16) -> Result<()> {
    if !matches!(consistency, ANY | SERIAL | LOCAL_SERIAL) {
        return Ok(());
    }
    match plan {
        Plan::Select(_) if consistency == ANY => {
            Err(Error::invalid("ANY ConsistencyLevel is only supported for writes"))
        }
        Plan::Modification(statement) => check_write(statement, consistency),
        _ => Ok(()),
    }
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
        (false, ANY) => Ok(()),
        (false, _) => {
            Err(Error::invalid("You must use conditional updates for serializable writes"))
        }
    }
}
