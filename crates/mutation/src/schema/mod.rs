//! Defines keyspaces, tables, columns and types as immutable values, which a schema change
//! replaces.

mod annotation;
mod column;
mod constraint;
mod index;
mod keyspace;
mod layout;
mod mask;
mod options;
mod table;
mod term_index;
mod view;

pub use annotation::{Annotated, Annotation};
pub use column::{ColumnDefinition, ColumnId, ColumnKind, DroppedColumn, is_before_drop};
pub use constraint::{ColumnConstraint, ConstrainedValue};
pub use index::{
    ASCII_OPTION, CASE_SENSITIVE_OPTION, CLASS_OPTION, IndexKind, IndexMetadata, IndexPart,
    NORMALIZE_OPTION, OPTIMIZE_FOR_OPTION, RECALL, SIMILARITY_OPTION, STORAGE_ATTACHED,
    TARGET_OPTION, VectorIndexOptions, target_text,
};
pub use keyspace::{KeyspaceMetadata, Schema, Unreadable, UnreadableTable};
pub use layout::TableLayout;
pub use mask::{ColumnMask, MaskArgument};
pub use options::{CompressionOptions, SSTABLE_FORMAT, TableOptions};
pub use table::{TableBuilder, TableId, TableMetadata};
pub use term_index::{LikeKind, SASI, TermIndex, TermMode};
pub use view::{ViewCondition, ViewDefinition, ViewOperator};
