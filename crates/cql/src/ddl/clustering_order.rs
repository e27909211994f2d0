//! `CLUSTERING ORDER BY`: which clustering columns are descending.
//!
//! The directive names the first clustering columns in their order. Columns that it omits at the
//! end are ascending. The texts and the order of the checks are Cassandra's.

use hashbrown::HashSet;

use crate::{
    Error, Result,
    grammar::ast::{Name, PrimaryKey},
};

/// Checks the directive of a CREATE TABLE and returns, for each clustering column of the key,
/// whether it is descending.
///
/// # Errors
/// A column is named twice, is no clustering column, or is out of order.
pub fn descending_columns(
    text: &str,
    table: &str,
    key: &PrimaryKey<'_>,
    order: &[(Name<'_>, bool)],
) -> Result<Vec<bool>> {
    let invalid = |name: &Name<'_>, message| Error::invalid_at(text, name.position, message);
    let mut named = HashSet::with_capacity(order.len());
    for (name, _) in order {
        if !named.insert(name.as_str()) {
            let message = format!(
                "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'"
            );
            return Err(invalid(name, message));
        }
    }
    let others: Vec<&Name<'_>> =
        order.iter().map(|(name, _)| name).filter(|name| !key.clustering.contains(name)).collect();
    if let Some(first) = others.first() {
        let names: Vec<String> = others.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        let message = format!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{names}] are not clustering columns"
        );
        return Err(invalid(first, message));
    }
    for ((name, _), expected) in order.iter().zip(&key.clustering) {
        if name == expected {
            continue;
        }
        let message = if named.contains(expected.as_str()) {
            format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns ({expected} must appear before {name})"
            )
        } else {
            format!("Missing CLUSTERING ORDER for column {expected}")
        };
        return Err(invalid(name, message));
    }
    let mut descending: Vec<bool> = order.iter().map(|(_, descending)| *descending).collect();
    descending.resize(key.clustering.len(), false);
    Ok(descending)
}
