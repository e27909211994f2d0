//! Defines keyspaces, tables, columns and types as immutable values, which a schema change
//! replaces.

mod column;
mod constraint;
mod keyspace;
mod layout;
mod options;
mod table;

pub use column::{ColumnDefinition, ColumnId, ColumnKind, DroppedColumn, is_before_drop};
pub use constraint::{ColumnConstraint, ConstrainedValue};
pub use keyspace::{KeyspaceMetadata, Schema, Unreadable, UnreadableTable};
pub use layout::TableLayout;
pub use options::{CompressionOptions, SSTABLE_FORMAT, TableOptions};
pub use table::{TableBuilder, TableId, TableMetadata};
