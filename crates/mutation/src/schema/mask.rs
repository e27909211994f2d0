//! Defines the masks of columns: functions that hide values from clients without permission UNMASK.

use std::fmt;

use bytes::Bytes;
use espalier_types::{CqlType, literal::to_cql_literal};

use super::{ColumnDefinition, TableBuilder, TableMetadata};

/// The mask of a column: a function of the column's value and of constant arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMask {
    /// The keyspace of the function; `system` for native ones.
    pub keyspace: String,
    /// The name of the function.
    pub function: String,
    /// The arguments behind the column's value.
    pub arguments: Vec<MaskArgument>,
}

/// A constant argument of a mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskArgument {
    /// The type of the parameter.
    pub argument_type: CqlType,
    /// The value; `None` is null.
    pub value: Option<Bytes>,
}

/// Prints the mask as DESCRIBE does: `system.mask_inner(1, null)`.
impl fmt::Display for ColumnMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments = self.arguments.iter().map(|argument| match &argument.value {
            Some(value) => to_cql_literal(&argument.argument_type, value),
            None => "null".to_owned(),
        });
        let arguments: Vec<String> = arguments.collect();
        write!(f, "{}.{}({})", self.keyspace, self.function, arguments.join(", "))
    }
}

impl TableBuilder {
    /// Sets the mask of a column, or removes it. Does nothing if there is no such column.
    pub fn mask(mut self, name: &str, mask: Option<ColumnMask>) -> Self {
        if let Some(column) = self.table.columns.iter().find(|column| column.name == name) {
            match mask {
                Some(mask) => self.table.masks.insert(column.id, mask),
                None => self.table.masks.remove(&column.id),
            };
        }
        self
    }
}

impl TableMetadata {
    /// Returns the mask of a column, if it has one.
    pub fn mask_of(&self, column: &ColumnDefinition) -> Option<&ColumnMask> {
        self.masks.get(&column.id)
    }

    /// Returns whether the columns have the same masks as in `other`, a former state of the table.
    pub fn has_masks_of(&self, other: &Self) -> bool {
        self.masks == other.masks
    }

    /// Returns whether a column of the table has a mask.
    pub fn has_masks(&self) -> bool {
        !self.masks.is_empty()
    }
}
