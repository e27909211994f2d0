//! The fast path of conditional writes: one row by its full primary key, with conditions on its
//! plain columns, in memory. The turn begins and ends in one poll, so no other turn can begin
//! meanwhile, and the store need not register this one.
//!
//! If a condition does not hold, the general path (`turn`) answers with the row. It also executes
//! the statements that this path does not support.

use std::sync::Arc;

use espalier_mutation::{
    DecoratedKeyRef, FoundRow,
    schema::{ColumnId, ColumnKind},
};
use espalier_storage::{CommitTicket, Node, RowLookup, StorageError};
use espalier_types::CqlType;
use smallvec::SmallVec;

use super::{Clocks, PlannedModification, PointWrite};
use crate::{
    condition::{ColumnCondition, Condition, ConditionTarget, applied_columns},
    grammar::ast::ComparisonOperator as Operator,
    metadata::ResultMetadata,
    options::Value,
    restrictions::{FilterOperator, PointClustering, holds},
    select::visible_cells,
    term::{BorrowedBound, Term},
};

/// The plan of a conditional write of one row.
#[derive(Clone, Debug)]
pub struct PointTurn {
    write: PointWrite,
    conditions: Conditions,
    /// The columns of the answer to an applied statement.
    pub applied: Arc<ResultMetadata>,
}

#[derive(Clone, Debug)]
enum Conditions {
    Exists,
    NotExists,
    Columns(Box<[Comparison]>),
}

/// A comparison of a plain column.
#[derive(Clone, Debug)]
struct Comparison {
    column: ColumnId,
    column_type: CqlType,
    operator: Operator,
    wanted: Term,
}

impl PointTurn {
    /// Plans the write, or returns `None` if the modification is not of this kind.
    pub fn plan(plan: &PlannedModification) -> Option<PointTurn> {
        let conditions = match &plan.condition {
            Condition::None => return None,
            Condition::Exists => Conditions::Exists,
            Condition::NotExists => Conditions::NotExists,
            Condition::Columns(columns) => {
                Conditions::Columns(columns.iter().map(comparison).collect::<Option<_>>()?)
            }
        };
        let applied = Arc::new(ResultMetadata::of_one_answer(applied_columns(&plan.table)));
        Some(PointTurn { write: PointWrite::plan(plan)?, conditions, applied })
    }
}

fn comparison(condition: &ColumnCondition) -> Option<Comparison> {
    let ConditionTarget::Column(column) = &condition.target else { return None };
    let FilterOperator::Compare(operator, wanted) = &condition.operator else { return None };
    let is_plain = column.kind == ColumnKind::Regular && !column.is_complex();
    let is_value = match wanted {
        Term::Constant(Some(bytes)) => column.column_type.validate(bytes).is_ok(),
        _ => true,
    };
    (is_plain && is_value && wanted.is_borrowable()).then(|| Comparison {
        column: column.id,
        column_type: column.column_type.clone(),
        operator: *operator,
        wanted: wanted.clone(),
    })
}

impl Comparison {
    /// Returns whether the comparison holds; `None` if the general path must decide.
    #[inline]
    fn holds(&self, cells: &[(ColumnId, &[u8])], values: &[Value]) -> Option<bool> {
        let found = cells.binary_search_by_key(&self.column, |(id, _)| *id).ok();
        let value = found.and_then(|index| cells.get(index)).map(|(_, value)| *value);
        match (self.wanted.borrow(values)?, value) {
            (BorrowedBound::Unset, _) => None,
            (BorrowedBound::Null, value) => match self.operator {
                Operator::Equal => Some(value.is_none()),
                Operator::NotEqual => Some(value.is_some()),
                _ => None,
            },
            (BorrowedBound::Value(_), None) => Some(self.operator == Operator::NotEqual),
            (BorrowedBound::Value(wanted), Some(value)) => {
                Some(holds(self.operator, self.column_type.compare(value, wanted)))
            }
        }
    }
}

impl PlannedModification {
    /// Executes the write if its condition holds, without waiting. Returns `None` if the general
    /// path must execute the statement.
    ///
    /// The caller has checked `values` against their markers; `buffer` is scratch space for the
    /// key.
    #[inline]
    pub fn write_in_point_turn(
        &self,
        database: &Node,
        values: &[Value],
        clocks: Clocks,
        buffer: &mut Vec<u8>,
    ) -> Option<Result<CommitTicket, StorageError>> {
        let turn = self.point_turn.as_ref()?;
        let key = turn.write.key.partition(values, buffer)?;
        let clustering = turn.write.key.clustering(values)?;
        let is_fast_path_safe = database.store().turns().is_row_free(&self.table, key, &clustering)
            && database.store().is_later_than_all(self.table.id, clocks.timestamp_us)
            && database.store().check_log(&self.table).is_ok();
        if !is_fast_path_safe
            || !self.condition_holds(turn, database, key, &clustering, values, clocks.now_s)?
        {
            return None;
        }
        self.write_row(&turn.write, database, (key, &clustering), values, clocks)
    }

    #[inline]
    fn condition_holds(
        &self,
        turn: &PointTurn,
        database: &Node,
        key: DecoratedKeyRef<'_>,
        clustering: &PointClustering<'_>,
        values: &[Value],
        now_s: u32,
    ) -> Option<bool> {
        let test_conditions = |found: FoundRow<'_>| {
            let mut cells: SmallVec<[(ColumnId, &[u8]); 8]> = SmallVec::new();
            let exists = visible_cells(&found, &self.table, now_s, &mut cells).ok()?;
            match &turn.conditions {
                Conditions::Exists => Some(exists),
                Conditions::NotExists => Some(!exists),
                Conditions::Columns(comparisons) => {
                    for comparison in comparisons {
                        if !comparison.holds(&cells, values)? {
                            return Some(false);
                        }
                    }
                    Some(true)
                }
            }
        };
        let outcome =
            RowLookup::new(&self.table, key, clustering).poll(database.store(), test_conditions);
        outcome.known_or(|| test_conditions(FoundRow::NOTHING))?
    }
}
