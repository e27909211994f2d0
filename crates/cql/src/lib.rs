//! CQL for Espalier: turns the text of a statement into reads and writes of the storage.
//!
//! `grammar` parses the text into a tree. The [`QueryProcessor`] plans a statement against the
//! schema (`term`, `restrictions`, `select`, `modify`, `batch`, `transaction`) and executes the
//! plan any number of times. It plans the statement again if a table of the statement changes. It
//! plans schema statements (`ddl`) and statements about roles (`auth`) at each execution.

pub mod audit;
pub mod auth;
mod batch;
mod condition;
mod consistency;
mod constraint;
mod current_row;
mod ddl;
mod describe;
mod error;
mod functions;
pub mod grammar;
mod guard;
mod internal_query;
mod look_ahead;
mod metadata;
mod modify;
pub mod offline;
mod options;
mod planner;
mod prepared;
mod processor;
mod read_budget;
mod restrictions;
mod result;
mod select;
mod term;
mod transaction;
mod turn;

/// Returns the statements that create a table, for a snapshot of its files.
///
/// The text creates the types that the table uses, then the table or view with its id and its
/// dropped columns, then the table's indexes. Each CREATE has IF NOT EXISTS.
pub fn describe_table(
    schema: &espalier_mutation::schema::Schema,
    table: &espalier_mutation::schema::TableMetadata,
) -> String {
    let if_missing = |statement: String, create: &str| {
        statement.replacen(create, &format!("{create}IF NOT EXISTS "), 1)
    };
    let keyspace = schema.keyspace(&table.keyspace);
    let types = describe::types_of(table).into_iter().map(|used| {
        // The table may have the type in its frozen form; the schema has the type as it was
        // created.
        let made = keyspace.and_then(|keyspace| keyspace.types.get(&used.name));
        if_missing(describe::text::user_type(made.unwrap_or(used)), "CREATE TYPE ") + "\n\n"
    });
    let create = if table.view.is_some() { "CREATE MATERIALIZED VIEW " } else { "CREATE TABLE " };
    let indexes = table.indexes.iter().map(|index| {
        let create = if index.class().is_some() { "CREATE CUSTOM INDEX " } else { "CREATE INDEX " };
        if_missing(describe::text::index(table, index), create) + "\n"
    });
    let mut text: String = types.collect();
    text += &if_missing(describe::text::table(table, true), create);
    text.push('\n');
    text.extend(indexes);
    text
}

pub use espalier_storage::Warnings;

pub use error::{Error, ErrorCode, ErrorDetail, Result};
pub use metadata::{BindMetadata, ColumnSpec, ResultMetadata, statement_id};
pub use options::{ClientState, QueryOptions, Value, Values};
pub use planner::run_apart;
pub use prepared::{Prepared, PreparedCache, selects_from_node};
pub use processor::{
    APPLIED, Batch, BatchStatement, BatchedStatement, Now, QueryProcessor, unprepared,
};
pub use result::{ChangeKind, ChangeTarget, QueryResult, Rows, SchemaChange};
