//! The columns and cells that a command fetches.
//!
//! A command fetches more cells than it queries, because a row without queried cells exists if it
//! has another cell. The answer has such a cell without its value. It leaves the cell out if the
//! row's liveness is newer, because the liveness shows then that the row exists.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use espalier_mutation::{
    ColumnData, Row,
    schema::{ColumnId, TableMetadata},
};

use crate::payload::{ColumnFilter, ColumnList, SelectedCells, SubSelection, columns::named};

/// The fetched columns of one kind, by id.
pub(super) struct FetchedColumnSet(Vec<FetchedColumn>);

struct FetchedColumn {
    id: ColumnId,
    is_queried: bool,
    /// The queried cells, if the command queries a part of the column.
    cells: Option<FetchedCells>,
}

struct FetchedCells {
    /// True if the command fetches the other cells too.
    fetches_all: bool,
    queried: Vec<SelectedCells>,
}

impl FetchedColumnSet {
    /// Returns the static columns, then the regular ones.
    pub fn of(table: &TableMetadata, filter: &ColumnFilter) -> (Self, Self) {
        let Some((statics, regulars)) = filter.fetched() else {
            return (Self(Vec::new()), Self(Vec::new()));
        };
        let queried = filter.queried.as_ref();
        let set = |fetched: &ColumnList, queried: Option<&ColumnList>, fetches_all: bool| {
            let queried: Option<HashSet<_>> = queried.map(|list| list.names().iter().collect());
            let is_queried = |name| queried.as_ref().is_none_or(|names| names.contains(name));
            let selections = selections_of(filter);
            let names = fetched.names().iter();
            let mut columns: Vec<_> = names
                .filter_map(|name| {
                    let id = named(table, name)?.id;
                    let queried = selections.get(name).cloned();
                    let cells = queried.map(|queried| FetchedCells { fetches_all, queried });
                    Some(FetchedColumn { id, is_queried: is_queried(name), cells })
                })
                .collect();
            columns.sort_by_key(|column| column.id);
            Self(columns)
        };
        (
            set(statics, queried.map(|(statics, _)| statics), filter.fetches_all_statics),
            set(regulars, queried.map(|(_, regulars)| regulars), filter.all_regulars.is_some()),
        )
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reduces a row to its queried cells, and to the fetched cells that show that the row exists.
    /// The latter lose their values. Returns whether anything is left.
    pub fn cut(&self, table: &TableMetadata, row: &mut Row) -> bool {
        let newest = row.liveness.timestamp;
        row.columns.retain_mut(|(id, data)| {
            let index = self.0.binary_search_by_key(id, |column| column.id);
            let Some(column) = index.ok().and_then(|index| self.0.get(index)) else { return false };
            match data {
                ColumnData::Simple(cell) => {
                    if !column.is_queried {
                        cell.value = Bytes::new();
                    }
                    column.is_queried || cell.timestamp >= newest
                }
                ColumnData::Complex(complex) => {
                    complex.cells.retain_mut(|(path, cell)| {
                        let (is_fetched, is_queried) = column.selects(table, path);
                        if !is_queried {
                            cell.value = Bytes::new();
                        }
                        is_queried || (is_fetched && cell.timestamp >= newest)
                    });
                    !complex.deletion.is_live() || !complex.cells.is_empty()
                }
            }
        });
        !row.is_empty()
    }
}

impl FetchedColumn {
    /// Returns whether the cell at a path is fetched, and whether it is queried.
    fn selects(&self, table: &TableMetadata, path: &[u8]) -> (bool, bool) {
        let Some(cells) = &self.cells else { return (true, self.is_queried) };
        let compare = |left: &[u8], right: &[u8]| table.compare_paths(self.id, left, right);
        let is_selected = cells.queried.iter().any(|selected| match selected {
            SelectedCells::Element(element) => compare(element, path).is_eq(),
            SelectedCells::Slice(from, to) => {
                compare(from, path).is_le() && compare(path, to).is_le()
            }
        });
        (cells.fetches_all || is_selected, self.is_queried && is_selected)
    }
}

/// Returns the queried cells of each column of which the command queries a part.
fn selections_of(filter: &ColumnFilter) -> HashMap<&Bytes, Vec<SelectedCells>> {
    let mut selections: HashMap<_, Vec<_>> = HashMap::new();
    for SubSelection { column, cells } in filter.sub_selections.iter().flatten() {
        selections.entry(column).or_default().push(cells.clone());
    }
    selections
}
