//! Statements that will be executed one after the other: the memory that they take is fetched for several of them side by side.

use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_storage::{Database, LookAhead};

use crate::{options::Value, restrictions::PointKey};

/// Gathers rows as long as they are of one table, and to be read or to be written.
pub struct Ahead<'a> {
    database: &'a Database,
    current: Option<Current<'a>>,
}

struct Current<'a> {
    rows: LookAhead<'a>,
    table: &'a Arc<TableMetadata>,
    is_write: bool,
}

impl<'a> Ahead<'a> {
    /// For statements over this database.
    pub fn new(database: &'a Database) -> Self {
        Self { database, current: None }
    }

    /// A statement with its values. `buffer` is for the key.
    pub fn add(
        &mut self,
        table: &'a Arc<TableMetadata>,
        key: Option<&PointKey>,
        values: &[Value],
        is_write: bool,
        buffer: &mut Vec<u8>,
    ) {
        let Some(point) = key else { return };
        let Some(key) = point.partition(values, buffer) else { return };
        let Some(clustering) = point.clustering(values) else { return };
        let is_other = |current: &Current<'_>| {
            current.is_write != is_write || !Arc::ptr_eq(current.table, table)
        };
        if self.current.as_ref().is_some_and(is_other) {
            self.end();
        }
        if self.current.is_none() {
            let rows = self.database.look_ahead(table);
            self.current = rows.map(|rows| Current { rows, table, is_write });
        }
        let Some(current) = &mut self.current else { return };
        if !current.rows.add(table, key, &clustering) {
            self.end();
        }
    }

    /// Fetches what is left.
    pub fn end(&mut self) {
        match self.current.take() {
            Some(Current { rows, is_write: true, .. }) => rows.for_writing(),
            Some(Current { rows, is_write: false, .. }) => rows.for_reading(),
            None => {}
        }
    }
}
