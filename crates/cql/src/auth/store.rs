//! Writes the tables of `system_auth` by CQL statements.
//!
//! The tables are ordinary ones, so that the node can read Cassandra's files of these tables, and a
//! superuser can correct rows with CQL. The node applies a change of several rows as a whole, even
//! if the node crashes during the change.

use espalier_runtime::time;
use espalier_storage::Node;

use super::Auth;
use crate::{
    QueryOptions, Result, Value,
    batch::BatchUpdates,
    guard::Guard,
    internal_query::{bound, not_a},
    modify::Clocks,
    planner,
    prepared::Plan,
    term::Evaluation,
    turn::later_than,
};

/// A change of the tables: INSERT, UPDATE and DELETE statements that the node applies together.
#[derive(Debug, Default)]
pub struct Change {
    statements: Vec<(String, Vec<Value>)>,
}

impl Change {
    /// Adds a statement whose markers have text values.
    pub fn add(&mut self, text: impl Into<String>, values: &[&str]) {
        self.statements.push((text.into(), bound(values)));
    }

    /// Adds a statement with any values.
    pub fn add_values(&mut self, text: impl Into<String>, values: Vec<Value>) {
        self.statements.push((text.into(), values));
    }

    /// Applies the statements, and makes all shards read the roles again, even if the change
    /// failed, because a part of it may be applied.
    ///
    /// # Errors
    /// The storage fails, or a row has a timestamp to which no later one exists.
    pub async fn apply(self, database: &Node, auth: &Auth) -> Result<()> {
        let applied = self.write(database).await;
        auth.roles_changed();
        applied
    }

    /// Applies the statements of this change together. Their timestamp is later than those of the
    /// rows that they change, even if the clock was set back: a revoked permission must not stay in
    /// effect.
    async fn write(self, database: &Node) -> Result<()> {
        let schema = database.store().schema();
        let now_us = time::now_micros();
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(u32::MAX - 3);
        let evaluation = |values| Evaluation { values, now_us, references: &[] };
        let (mut planned, mut replaced) = (Vec::new(), Vec::new());
        for (text, values) in &self.statements {
            let prepared = planner::plan(text, None, &schema)?;
            let Plan::Modification(statement) = prepared.plan else { return Err(not_a(text)) };
            let written = statement.written_rows(&evaluation(values))?;
            replaced.extend(statement.timestamp_reads(&written, now_s));
            planned.push((statement, written, values));
        }
        // Boxed, because the compiler refuses futures that are nested more deeply.
        let timestamp_us = Box::pin(later_than(database, &replaced)).await?;
        let clocks = Clocks { timestamp_us, now_s };
        let guard = Guard::of(database, &QueryOptions::default());
        let mut updates = BatchUpdates::default();
        for (statement, written, values) in &planned {
            updates.add(statement, written, &evaluation(values), clocks, &|_, _| None, guard)?;
        }
        let mutation = updates.into_mutation().await;
        match mutation.updates.len() {
            0 => Ok(()),
            1 => Ok(database.apply(mutation).await?),
            _ => Ok(database.batches().apply_whole(mutation).await?),
        }
    }
}
