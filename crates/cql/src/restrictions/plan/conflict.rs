//! Conflicts of relations that restrict the same column, in Cassandra's words.
//!
//! An equality, an IN or a LIKE excludes all other relations. A range has one bound on each side,
//! and may have any number of NOT IN. CONTAINS, CONTAINS KEY, their negations and `m[key] = value`
//! can be combined only with each other.

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};

use super::refusal::is_in;
use crate::{
    Result,
    grammar::ast::{
        ComparisonOperator as Operator, Position, Predicate, Relation, RelationTarget, WhereClause,
    },
    term::Preparation,
};

/// Refuses relations that conflict.
pub(super) fn check_conflicts(
    preparation: &Preparation<'_>,
    table: &TableMetadata,
    clause: &WhereClause<'_>,
) -> Result<()> {
    let mut restrictions: Vec<Restriction<'_>> = Vec::with_capacity(clause.relations.len());
    for relation in &clause.relations {
        let columns = relation.target.names().iter().map(|name| preparation.column(table, name));
        let found = Restriction::new(relation, columns.collect::<Result<_>>()?);
        let mut is_new = true;
        for earlier in &mut restrictions {
            if let Some(message) = earlier.conflict(&found) {
                return Err(preparation.invalid(relation.position, message));
            }
            is_new &= !earlier.absorbs(&found);
        }
        if is_new {
            restrictions.push(found);
        }
    }
    Ok(())
}

/// A restriction of one column, or of several at once.
pub(super) struct Restriction<'c> {
    pub kind: Kind,
    pub columns: Vec<&'c ColumnDefinition>,
    pub position: Position,
    /// True if it restricts the token of the partition key.
    pub is_token: bool,
    /// True if the relation has its columns in parentheses, as in `(c, d) > (1, 2)`.
    pub is_tuple: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Equal,
    In,
    /// A range. It has no bound if all of its relations are NOT IN.
    Slice {
        has_start: bool,
        has_end: bool,
    },
    Contains,
    Like,
}

impl Kind {
    pub fn is_slice(self) -> bool {
        matches!(self, Self::Slice { .. })
    }
}

impl<'c> Restriction<'c> {
    pub fn new(relation: &Relation<'_>, columns: Vec<&'c ColumnDefinition>) -> Self {
        let kind = match &relation.predicate {
            Predicate::Contains(_)
            | Predicate::ContainsKey(_)
            | Predicate::NotContains(_)
            | Predicate::NotContainsKey(_) => Kind::Contains,
            Predicate::NotIn(_) => Kind::Slice { has_start: false, has_end: false },
            _ if matches!(relation.target, RelationTarget::Element(..)) => Kind::Contains,
            Predicate::In(values) if is_in(values) => Kind::In,
            Predicate::Compare(Operator::Greater | Operator::GreaterOrEqual, _) => {
                Kind::Slice { has_start: true, has_end: false }
            }
            Predicate::Compare(Operator::Less | Operator::LessOrEqual, _) => {
                Kind::Slice { has_start: false, has_end: true }
            }
            Predicate::Between(..) => Kind::Slice { has_start: true, has_end: true },
            Predicate::Like(_) => Kind::Like,
            _ => Kind::Equal,
        };
        Self {
            kind,
            columns,
            position: relation.position,
            is_token: matches!(relation.target, RelationTarget::Token(_)),
            is_tuple: matches!(relation.target, RelationTarget::Columns(_)),
        }
    }

    /// Returns [`ColumnKind::Clustering`] if the first column is a clustering column.
    pub fn kind_of_columns(&self) -> Option<ColumnKind> {
        Some(self.columns.first()?.kind).filter(|kind| *kind == ColumnKind::Clustering)
    }

    fn common(&self, found: &Self) -> String {
        let names: Vec<&str> = self
            .columns
            .iter()
            .filter(|column| found.columns.iter().any(|other| other.name == column.name))
            .map(|column| column.name.as_str())
            .collect();
        names.join(", ")
    }

    /// Returns the reason to refuse `found` together with this earlier restriction.
    pub fn conflict(&self, found: &Self) -> Option<String> {
        let common = self.common(found);
        if common.is_empty() || self.is_token != found.is_token {
            return None;
        }
        let more = |what: &str| {
            Some(format!(
                "{common} cannot be restricted by more than one relation if it includes {what}"
            ))
        };
        match (self.kind, found.kind) {
            (Kind::Equal, _) => more("an Equal"),
            (Kind::In, _) => more("a IN"),
            (Kind::Like, _) => more("a LIKE"),
            (Kind::Contains, Kind::Contains) => None,
            (Kind::Contains, _) => Some(format!(
                "Collection column {common} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            )),
            (
                Kind::Slice { has_start, has_end },
                Kind::Slice { has_start: start, has_end: end },
            ) => {
                if self.columns[0].name != found.columns[0].name {
                    return Some(format!(
                        "Column \"{common}\" cannot be restricted by two inequalities not starting with the same column"
                    ));
                }
                let bound = match (has_start && start, has_end && end) {
                    (true, _) => "start",
                    (false, true) => "end",
                    (false, false) => return None,
                };
                Some(format!(
                    "More than one restriction was found for the {bound} bound on {common}"
                ))
            }
            (Kind::Slice { has_start: false, has_end: false }, Kind::Equal) => more("an Equal"),
            (Kind::Slice { has_start: false, has_end: false }, Kind::In) => more("a IN"),
            (Kind::Slice { .. }, _) => Some(format!(
                "{} \"{common}\" cannot be restricted by both an equality and an inequality relation",
                if self.is_token { "Columns" } else { "Column" }
            )),
        }
    }

    /// Merges `found`, which does not conflict, if both restrict a common column. Returns whether
    /// they do.
    pub fn absorbs(&mut self, found: &Self) -> bool {
        if self.is_token != found.is_token || self.common(found).is_empty() {
            return false;
        }
        if let (
            Kind::Slice { has_start, has_end },
            Kind::Slice { has_start: start, has_end: end },
        ) = (&mut self.kind, found.kind)
        {
            *has_start |= start;
            *has_end |= end;
        }
        if found.columns.len() > self.columns.len() {
            self.columns.clone_from(&found.columns);
        }
        true
    }
}
