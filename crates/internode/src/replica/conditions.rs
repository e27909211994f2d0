//! Tests the conditions of a read on columns (`ALLOW FILTERING`) by Cassandra's rules.
//!
//! Conditions on the partition key and on static columns concern a whole partition; the others
//! concern a row. If the coordinator merges the rows of several replicas and filters them again,
//! the tombstone of a set's element or of a map's key meets a condition as the element or the key
//! would, because another replica may lack the deletion.

use bytes::Bytes;
use espalier_mutation::{
    ColumnData, ComplexColumn, Row,
    purge::purge_row,
    schema::{ColumnDefinition, ColumnId, ColumnKind, TableMetadata},
    split_composite,
};
use espalier_types::{CqlType, collection};

use super::ReadFailure;
use crate::payload::{Expression, FailureReason, Operator, RowFilter, columns::named};

/// The conditions of a command.
pub(super) struct Conditions {
    partition: Vec<Condition>,
    row: Vec<Condition>,
    now_s: u32,
    /// True if rows are judged with their tombstones.
    keeps_tombstones: bool,
}

struct Condition {
    id: ColumnId,
    kind: ColumnKind,
    position: usize,
    column_type: CqlType,
    test: Test,
}

/// A test of a value. The operand is serialised.
enum Test {
    Compare(Operator, Bytes),
    In(Bytes),
    Contains(Bytes),
    ContainsKey(Bytes),
    Entry(Bytes, Bytes),
}

impl Conditions {
    pub fn new(
        table: &TableMetadata,
        filter: &RowFilter,
        now_s: u32,
        keeps_tombstones: bool,
    ) -> Result<Self, ReadFailure> {
        let mut conditions =
            Self { partition: Vec::new(), row: Vec::new(), now_s, keeps_tombstones };
        for expression in &filter.expressions {
            let condition = Condition::new(table, expression)?;
            match condition.kind {
                ColumnKind::PartitionKey | ColumnKind::Static => {
                    conditions.partition.push(condition)
                }
                ColumnKind::Clustering | ColumnKind::Regular => conditions.row.push(condition),
            }
        }
        Ok(conditions)
    }

    /// Returns whether there are conditions on rows.
    pub fn concern_rows(&self) -> bool {
        !self.row.is_empty()
    }

    /// Returns whether a partition meets the conditions on whole partitions.
    pub fn hold_for_partition(
        &self,
        table: &TableMetadata,
        key: &Bytes,
        static_row: Option<&Row>,
    ) -> bool {
        self.partition.iter().all(|condition| match condition.kind {
            ColumnKind::PartitionKey => {
                let columns = table.partition_key_columns().len();
                let component = if columns == 1 {
                    Some(key.clone())
                } else {
                    let components = split_composite(key, columns).ok();
                    components.and_then(|all| all.get(condition.position).cloned())
                };
                component.is_some_and(|value| condition.holds_for_value(&value))
            }
            _ => static_row.is_some_and(|row| condition.holds_for_column(table, row, self.now_s)),
        })
    }

    /// Returns whether a row meets the conditions on rows.
    pub fn hold_for_row(&self, table: &TableMetadata, row: &Row) -> bool {
        if self.row.is_empty() && self.partition.is_empty() {
            return true;
        }
        let live;
        let row = if self.keeps_tombstones {
            row
        } else {
            let mut purged = row.clone();
            purge_row(&mut purged, self.now_s, &mut |_, _| true);
            live = purged;
            if live.is_empty() {
                return false;
            }
            &live
        };
        self.row.iter().all(|condition| match condition.kind {
            ColumnKind::Clustering => {
                let value = row.clustering.values.get(condition.position);
                value.and_then(Option::as_ref).is_some_and(|value| condition.holds_for_value(value))
            }
            _ => condition.holds_for_column(table, row, self.now_s),
        })
    }
}

impl Condition {
    fn new(table: &TableMetadata, expression: &Expression) -> Result<Self, ReadFailure> {
        let unknown = || ReadFailure::refused("a condition of a kind that is unknown here");
        let (name, test) = match expression {
            Expression::Simple { column, operator, value } => {
                let value = value.clone();
                let test = match operator {
                    Operator::Eq
                    | Operator::Neq
                    | Operator::Lt
                    | Operator::Lte
                    | Operator::Gt
                    | Operator::Gte => Test::Compare(*operator, value),
                    Operator::In => Test::In(value),
                    Operator::Contains => Test::Contains(value),
                    Operator::ContainsKey => Test::ContainsKey(value),
                    _ => return Err(unknown()),
                };
                (column, test)
            }
            Expression::MapEquality { column, operator: Operator::Eq, key, value } => {
                (column, Test::Entry(key.clone(), value.clone()))
            }
            Expression::MapEquality { .. } => return Err(unknown()),
            Expression::Custom { index, .. } => {
                let text = format!("a condition of the index with id {index}");
                return Err(ReadFailure::Refused(FailureReason::IndexNotAvailable, text));
            }
        };
        let column = named(table, name).ok_or_else(unknown)?;
        if !is_possible(column, &test) {
            return Err(ReadFailure::refused("a condition that its column's type does not have"));
        }
        let ColumnDefinition { id, kind, position, ref column_type, .. } = *column;
        Ok(Self { id, kind, position, column_type: column_type.clone(), test })
    }

    /// Tests a value that is no multi-cell collection.
    fn holds_for_value(&self, value: &[u8]) -> bool {
        let column_type = &self.column_type;
        match &self.test {
            Test::Compare(operator, operand) => {
                let order = column_type.compare(value, operand);
                match operator {
                    Operator::Eq => order.is_eq(),
                    Operator::Neq => order.is_ne(),
                    Operator::Lt => order.is_lt(),
                    Operator::Lte => order.is_le(),
                    Operator::Gt => order.is_gt(),
                    Operator::Gte => order.is_ge(),
                    _ => false,
                }
            }
            Test::In(list) => collection::elements(list).is_ok_and(|mut elements| {
                elements.any(|element| {
                    let element = element.ok().flatten();
                    element.is_some_and(|element| column_type.compare(value, element).is_eq())
                })
            }),
            Test::Contains(operand) => match column_type {
                CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                    collection::elements(value).is_ok_and(|mut elements| {
                        elements.any(|found| {
                            let found = found.ok().flatten();
                            found.is_some_and(|found| element.compare(found, operand).is_eq())
                        })
                    })
                }
                CqlType::Map { value: of_values, .. } => {
                    has_entry(value, |_, found| of_values.compare(found, operand).is_eq())
                }
                _ => false,
            },
            Test::ContainsKey(operand) => {
                let CqlType::Map { key, .. } = column_type else { return false };
                has_entry(value, |found, _| key.compare(found, operand).is_eq())
            }
            Test::Entry(key_operand, operand) => {
                let CqlType::Map { key, value: of_values, .. } = column_type else { return false };
                has_entry(value, |found_key, found| {
                    key.compare(found_key, key_operand).is_eq()
                        && of_values.compare(found, operand).is_eq()
                })
            }
        }
    }

    fn holds_for_column(&self, table: &TableMetadata, row: &Row, now_s: u32) -> bool {
        match row.column(self.id) {
            Some(ColumnData::Simple(cell)) => {
                !cell.is_tombstone() && cell.is_live(now_s) && self.holds_for_value(&cell.value)
            }
            Some(ColumnData::Complex(column)) => self.holds_for_cells(table, column),
            None => false,
        }
    }

    fn holds_for_cells(&self, table: &TableMetadata, column: &ComplexColumn) -> bool {
        let mut cells = column.cells.iter();
        let is_at = |path: &[u8], key: &[u8]| table.compare_paths(self.id, path, key).is_eq();
        match (&self.test, &self.column_type) {
            (Test::Contains(operand), CqlType::Set { element, .. }) => {
                cells.any(|(path, _)| element.compare(path, operand).is_eq())
            }
            (Test::Contains(operand), CqlType::List { element, .. }) => {
                cells.any(|(_, cell)| element.compare(&cell.value, operand).is_eq())
            }
            (Test::Contains(operand), CqlType::Map { value, .. }) => {
                cells.any(|(_, cell)| value.compare(&cell.value, operand).is_eq())
            }
            (Test::ContainsKey(operand), CqlType::Map { .. }) => {
                cells.any(|(path, _)| is_at(path, operand))
            }
            (Test::Entry(key, operand), CqlType::Map { value, .. }) => cells.any(|(path, cell)| {
                is_at(path, key) && value.compare(&cell.value, operand).is_eq()
            }),
            _ => false,
        }
    }
}

/// Returns whether a column's type has this test.
fn is_possible(column: &ColumnDefinition, test: &Test) -> bool {
    let column_type = &column.column_type;
    match test {
        Test::Compare(..) | Test::In(_) => !column.is_complex(),
        Test::Contains(_) => {
            matches!(column_type, CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. })
        }
        Test::ContainsKey(_) | Test::Entry(..) => matches!(column_type, CqlType::Map { .. }),
    }
}

fn has_entry(map: &[u8], test: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    collection::entries(map).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|(key, value)| test(key, value)))
    })
}
