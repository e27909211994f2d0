//! Answers a read with the data or the digest that a Cassandra replica with the same rows would
//! send.
//!
//! | module | content |
//! | --- | --- |
//! | `plan` | the checks of a command, and the reads of storage that it needs |
//! | `visitor` | turns the partitions of storage into those of the answer |
//! | `columns` | the columns and cells that a command fetches |
//! | `purge` | removes tombstones whose grace period has passed |
//! | `tombstones` | the count of tombstones, and its limits |
//! | `conditions` | the conditions of `ALLOW FILTERING` |
//! | `limits`, `groups` | limits of rows and of groups |
//! | `output` | turns the partitions of the answer into data or a digest |
//! | `budget` | the memory of answers until they are sent |
//!
//! Storage shows its merged partitions with all tombstones ([`FragmentVisitor`]). Each row and
//! marker passes these steps, in Cassandra's order:
//!
//! 1. `columns` removes the columns that the command does not fetch. A cell that the command
//!    fetches but does not query loses its value, or is removed if the row's liveness is newer.
//! 2. `purge` turns expired cells into tombstones, and removes tombstones whose grace period has
//!    passed at the command's time.
//! 3. `tombstones` counts the remaining tombstones towards the limit.
//! 4. `conditions` removes rows that do not meet the conditions.
//! 5. `limits` counts live rows, and ends the partition or the read.
//! 6. If a limit ended the partition inside a range deletion, `visitor` closes the deletion after
//!    the last row.
//!
//! Source: Cassandra 5.0.9, `ReadCommand.executeLocally`.
//!
//! [`FragmentVisitor`]: espalier_storage::FragmentVisitor

mod budget;
mod columns;
mod conditions;
mod groups;
mod limits;
mod output;
mod plan;
mod purge;
mod tombstones;
mod visitor;

use std::sync::Arc;

use espalier_runtime::time::Instant;
use espalier_storage::Node;

pub use budget::{AnswerBudget, AnswerBytes};
pub use tombstones::TombstoneLimits;
use visitor::ReplicaRead;

use crate::{
    message::Parameter,
    payload::{FailureReason, ReadCommand, ReadResponse},
};

/// The terms of a read besides its command.
#[derive(Clone, Debug)]
pub struct ReadTerms {
    /// The time at which the coordinator gives up.
    pub deadline: Instant,
    /// The limits of tombstones.
    pub tombstones: TombstoneLimits,
    /// True if the coordinator understands the parameter that reports an exceeded limit.
    pub tracks_warnings: bool,
    /// True if the coordinator compares digests of repaired data. This node has no repaired data,
    /// so its answer says that the comparison is inconclusive.
    pub tracks_repaired: bool,
    /// The memory of all answers that are not sent yet.
    pub budget: AnswerBudget,
}

/// The answer to a read.
#[derive(Debug)]
pub struct ReadAnswer {
    /// The data or the digest.
    pub response: ReadResponse,
    /// The parameters of the message: a limit that the read exceeded.
    pub parameters: Vec<Parameter>,
    /// The number of tombstones, if it is above the limit for a warning.
    pub many_tombstones: Option<u64>,
    /// The memory that the answer takes.
    pub bytes: AnswerBytes,
}

/// The reason why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The node cannot answer the read.
    Refused(FailureReason, String),
    /// The coordinator has given up.
    Expired,
}

impl ReadFailure {
    fn refused(text: impl Into<String>) -> Self {
        Self::Refused(FailureReason::Unknown, text.into())
    }
}

/// Answers a read from the node's data.
///
/// # Errors
///
/// Fails if the command asks for something that this node does not have, if the answer exceeds a
/// limit, if storage fails, or if the deadline passes.
pub async fn answer(
    database: &Node,
    command: ReadCommand,
    terms: ReadTerms,
) -> Result<ReadAnswer, ReadFailure> {
    let parts = plan::parts(&command).await?;
    let mut read = ReplicaRead::new(Arc::new(command), terms)?;
    for part in parts {
        read.select_rows(part.has_rows);
        let visited = database.visit(part.read, read).await;
        read = visited.map_err(|error| ReadFailure::refused(error.to_string()))?;
        if read.is_over() {
            break;
        }
    }
    read.finish().await
}
