//! CQL for Espalier: turns the text of a statement into reads and writes of the storage.
//!
//! `grammar` parses the text into a tree. A statement is planned against the schema once (`term`,
//! `restrictions`, `select`, `modify`, `ddl`) and executed any number of times by the
//! [`QueryProcessor`].

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
/// The text creates the types that the table uses, unless they exist, and then the table with its
/// id and its dropped columns.
pub fn describe_table(
    schema: &espalier_mutation::schema::Schema,
    table: &espalier_mutation::schema::TableMetadata,
) -> String {
    let keyspace = schema.keyspace(&table.keyspace);
    let types = describe::types_of(table).into_iter().map(|used| {
        // The table's use of the type may be frozen, with all types inside; the declaration is not.
        let made = keyspace.and_then(|keyspace| keyspace.types.get(&used.name));
        let statement = describe::text::user_type(made.unwrap_or(used));
        statement.replacen("CREATE TYPE ", "CREATE TYPE IF NOT EXISTS ", 1) + "\n\n"
    });
    let table = describe::text::table(table, true);
    types.collect::<String>()
        + &table.replacen("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
        + "\n"
}

pub use espalier_storage::Warnings;

pub use error::{Error, ErrorCode, ErrorDetail, Result};
pub use metadata::{BindMetadata, ColumnSpec, ResultMetadata, statement_id};
pub use options::{ClientState, QueryOptions, Value, Values};
pub use prepared::{Prepared, PreparedCache, selects_from_node};
pub use processor::{
    APPLIED, Batch, BatchStatement, BatchedStatement, Now, QueryProcessor, unprepared,
};
pub use result::{ChangeKind, ChangeTarget, QueryResult, Rows, SchemaChange};
