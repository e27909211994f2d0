//! Checks whether several relations may restrict one column together.

use std::collections::BTreeMap;

use espalier_mutation::schema::TableMetadata;

use crate::{
    Result,
    grammar::ast::{
        ComparisonOperator as Operator, Predicate, Relation, RelationTarget, WhereClause,
    },
    term::Preparation,
};

/// The relations of a column that the check has found so far.
enum Restricted {
    Equal,
    Slice { has_start: bool, has_end: bool },
    Contains,
}

/// Refuses a relation that conflicts with an earlier one of the same column. The error has
/// Cassandra's text. An equality excludes all other relations. A range has one bound on each side.
/// CONTAINS and CONTAINS KEY can be combined only with each other.
pub(super) fn check_repeated(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    clause: &WhereClause<'_>,
) -> Result<()> {
    let mut restricted: BTreeMap<&str, Restricted> = BTreeMap::new();
    for relation in &clause.relations {
        let RelationTarget::Column(name) = &relation.target else { continue };
        let Some(column) = table.column(name.as_str()) else { continue };
        let Some(found) = kind_of(relation) else { continue };
        let Some(earlier) = restricted.get_mut(column.name.as_str()) else {
            restricted.insert(&column.name, found);
            continue;
        };
        if let Some(message) = conflict(&column.name, earlier, &found) {
            return Err(preparation.invalid(relation.position, message));
        }
    }
    Ok(())
}

fn kind_of(relation: &Relation<'_>) -> Option<Restricted> {
    Some(match &relation.predicate {
        Predicate::Compare(Operator::Equal, _) | Predicate::In(_) => Restricted::Equal,
        Predicate::Compare(Operator::NotEqual, _) => return None,
        Predicate::Compare(operator, _) => {
            let has_start = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
            Restricted::Slice { has_start, has_end: !has_start }
        }
        Predicate::Between(..) => Restricted::Slice { has_start: true, has_end: true },
        Predicate::Contains(_) | Predicate::ContainsKey(_) => Restricted::Contains,
        _ => return None,
    })
}

/// Returns the reason to refuse `found` beside `earlier`. If there is none, adds the bounds of
/// `found` to `earlier`.
fn conflict(column: &str, earlier: &mut Restricted, found: &Restricted) -> Option<String> {
    match (earlier, found) {
        (Restricted::Equal, _) => Some(format!(
            "{column} cannot be restricted by more than one relation if it includes an Equal"
        )),
        (Restricted::Contains, Restricted::Contains) => None,
        (Restricted::Contains, _) => Some(format!(
            "Collection column {column} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
        )),
        (
            Restricted::Slice { has_start, has_end },
            Restricted::Slice { has_start: start, has_end: end },
        ) => {
            let twice = match (*has_start && *start, *has_end && *end) {
                (true, _) => Some("start"),
                (false, true) => Some("end"),
                (false, false) => None,
            };
            *has_start |= start;
            *has_end |= end;
            twice.map(|bound| {
                format!("More than one restriction was found for the {bound} bound on {column}")
            })
        }
        (Restricted::Slice { .. }, _) => Some(format!(
            "Column \"{column}\" cannot be restricted by both an equality and an inequality relation"
        )),
    }
}
