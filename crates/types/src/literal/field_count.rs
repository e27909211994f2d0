//! Limits the fields of user types in literals and JSON.

use crate::{UserType, ValueError};

/// The maximum number of fields that the user types have together, absent fields included.
/// Arbitrary, but a CQL statement that gives all fields stays below it: a field takes at least four
/// tokens (`f: 1,`), and a statement has at most 2,000,000.
pub const MAX_FIELDS: usize = 500_000;

/// Counts the fields of the user types in all literals of a statement, or in a JSON document.
///
/// An absent field takes nothing of the text, but four bytes of the value and a part of the plan.
/// Without this limit, a JSON document of 16 MiB could become 80 GB, and the plan of a statement of
/// 1 MiB could take many GB.
#[derive(Debug, Default)]
pub struct FieldCount {
    fields: usize,
}

impl FieldCount {
    /// Returns the number of fields so far.
    pub fn get(&self) -> usize {
        self.fields
    }

    /// Counts all fields of a value's type, before the value is made.
    ///
    /// # Errors
    ///
    /// Returns an error if the user types have more than 500,000 fields together.
    pub fn add(&mut self, definition: &UserType) -> Result<(), ValueError> {
        self.fields += definition.fields.len();
        if self.fields <= MAX_FIELDS {
            return Ok(());
        }
        Err(ValueError::Text {
            reason: format!(
                "The user types in the statement or JSON document have {} fields or more",
                self.fields
            ),
            expected: "at most 500000",
        })
    }
}
