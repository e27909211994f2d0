//! Writes and reads rows of system tables by column name.

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ClusteringSlice, ColumnData, ComplexColumn, DecoratedKey, DeletionTime,
    Liveness, PartitionUpdate, RangeTombstone, Row, schema::TableMetadata,
};
use espalier_types::collection;
use uuid::Uuid;

/// Builds a row of a system table. Column names are constants of the callers: an unknown one panics
/// in tests and is left out otherwise.
pub struct RowWriter<'t> {
    table: &'t TableMetadata,
    row: Row,
    /// The template of all cells.
    cell: Cell,
}

impl<'t> RowWriter<'t> {
    /// Starts a row with these clustering values, written at `timestamp` µs.
    pub fn new(table: &'t TableMetadata, clustering: &[&str], timestamp: i64) -> Self {
        let values = clustering.iter().map(|value| Bytes::copy_from_slice(value.as_bytes()));
        Self::at(table, Clustering::new(values), timestamp)
    }

    /// Starts a row with this clustering, written at `timestamp` µs.
    pub fn at(table: &'t TableMetadata, clustering: Clustering, timestamp: i64) -> Self {
        let row = Row { liveness: Liveness::live(timestamp), ..Row::empty(clustering) };
        Self { table, row, cell: Cell::live(timestamp, Bytes::new()) }
    }

    /// Lets the row, and the cells that are set from here on, expire `ttl_s` seconds after `now_s`.
    pub fn expiring(mut self, ttl_s: u32, now_s: u32) -> Self {
        let (timestamp, expires_s) = (self.cell.timestamp, now_s.saturating_add(ttl_s));
        self.cell = Cell::expiring(timestamp, ttl_s, expires_s, Bytes::new());
        self.row.liveness = Liveness { timestamp, ttl: ttl_s, local_expiration: expires_s };
        self
    }

    /// Deletes the previous content of the row, just before this write.
    pub fn replacing(mut self, now_s: u32) -> Self {
        self.row.deletion = DeletionTime::new(self.cell.timestamp - 1, now_s);
        self
    }

    /// Deletes the row, instead of writing it.
    pub fn deleting(mut self, now_s: u32) -> Self {
        let deletion = DeletionTime::new(self.cell.timestamp, now_s);
        self.row = Row { deletion, ..Row::empty(self.row.clustering) };
        self
    }

    /// Sets a column to serialised bytes.
    pub fn bytes(mut self, column: &str, value: impl Into<Bytes>) -> Self {
        debug_assert!(self.table.column(column).is_some(), "{}.{column}", self.table.name);
        if let Some(definition) = self.table.column(column) {
            let cell = Cell { value: value.into(), ..self.cell.clone() };
            self.row.set_cell(definition.id, cell);
        }
        self
    }

    /// Sets a text column.
    pub fn text(self, column: &str, value: &str) -> Self {
        self.bytes(column, Bytes::copy_from_slice(value.as_bytes()))
    }

    /// Sets a text column, if there is a value.
    pub fn optional_text(self, column: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(column, value),
            None => self,
        }
    }

    /// Sets a boolean column.
    pub fn boolean(self, column: &str, value: bool) -> Self {
        self.bytes(column, vec![u8::from(value)])
    }

    /// Sets an int column.
    pub fn int(self, column: &str, value: i32) -> Self {
        self.bytes(column, value.to_be_bytes().to_vec())
    }

    /// Sets a bigint column.
    pub fn bigint(self, column: &str, value: u64) -> Self {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.bytes(column, value.to_be_bytes().to_vec())
    }

    /// Sets a timestamp column, in milliseconds since 1970.
    pub fn timestamp(self, column: &str, milliseconds: i64) -> Self {
        self.bytes(column, milliseconds.to_be_bytes().to_vec())
    }

    /// Sets a double column.
    pub fn double(self, column: &str, value: f64) -> Self {
        self.bytes(column, value.to_be_bytes().to_vec())
    }

    /// Sets a uuid column.
    pub fn uuid(self, column: &str, value: Uuid) -> Self {
        self.bytes(column, value.into_bytes().to_vec())
    }

    /// Sets a frozen map column; keys come sorted.
    pub fn map<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self,
        column: &str,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.bytes(column, collection::map_of(entries))
    }

    /// Sets a frozen list or set column; elements of a set come sorted.
    pub fn list<V: AsRef<[u8]>>(self, column: &str, elements: impl IntoIterator<Item = V>) -> Self {
        self.bytes(column, collection::list_of(elements))
    }

    /// Replaces a multi-cell set column; elements come sorted.
    pub fn set_cells<V: AsRef<[u8]>>(
        self,
        column: &str,
        elements: impl IntoIterator<Item = V>,
        now_s: u32,
    ) -> Self {
        let deletion = DeletionTime::new(self.cell.timestamp - 1, now_s);
        let path = |element: V| Bytes::copy_from_slice(element.as_ref());
        let elements = elements.into_iter().map(|element| (path(element), Bytes::new()));
        self.complex(column, deletion, elements)
    }

    /// Adds entries to a multi-cell map column; keys come sorted.
    pub fn map_cells(
        self,
        column: &str,
        entries: impl IntoIterator<Item = (Bytes, Bytes)>,
    ) -> Self {
        self.complex(column, DeletionTime::LIVE, entries)
    }

    /// Sets a multi-cell column, unless nothing would be in it.
    fn complex(
        mut self,
        column: &str,
        deletion: DeletionTime,
        cells: impl IntoIterator<Item = (Bytes, Bytes)>,
    ) -> Self {
        debug_assert!(self.table.column(column).is_some(), "{}.{column}", self.table.name);
        let cell = |value| Cell { value, ..self.cell.clone() };
        let cells: Vec<_> = cells.into_iter().map(|(path, value)| (path, cell(value))).collect();
        let is_empty = cells.is_empty() && deletion.is_live();
        if let Some(definition) = self.table.column(column).filter(|_| !is_empty) {
            let none = || ColumnData::Complex(ComplexColumn::default());
            *self.row.column_or_insert(definition.id, none) =
                ColumnData::Complex(ComplexColumn { deletion, cells });
        }
        self
    }

    /// Returns the row.
    pub fn finish(self) -> Row {
        self.row
    }

    /// Returns the write of the row to a partition.
    pub fn update(self, key: DecoratedKey) -> PartitionUpdate {
        PartitionUpdate { rows: vec![self.row], ..PartitionUpdate::new(self.table.id, key) }
    }
}

/// Returns the key of a partition whose key is one text column.
pub(crate) fn text_key(text: &str) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(text.as_bytes()))
}

/// Returns the deletion of all rows whose clustering begins with a text.
pub(crate) fn deletion_below(text: &str, deletion: DeletionTime) -> RangeTombstone {
    let values = [Some(Bytes::copy_from_slice(text.as_bytes()))];
    let ClusteringSlice { start, end } = ClusteringSlice::prefix(values.into());
    RangeTombstone { start, end, deletion }
}

/// Reads columns of a row by name.
#[derive(Clone, Copy)]
pub struct Fields<'r> {
    table: &'r TableMetadata,
    row: &'r Row,
}

impl<'r> Fields<'r> {
    /// Reads a live row of `table`.
    pub fn new(table: &'r TableMetadata, row: &'r Row) -> Self {
        Self { table, row }
    }

    /// Returns a clustering value as text.
    pub fn clustering(&self, index: usize) -> Option<&'r str> {
        std::str::from_utf8(self.row.clustering.values.get(index)?.as_deref()?).ok()
    }

    /// Returns the serialised value of a simple column.
    pub fn bytes(&self, column: &str) -> Option<&'r Bytes> {
        match self.row.column(self.table.column(column)?.id)? {
            ColumnData::Simple(cell) => Some(&cell.value),
            ColumnData::Complex(_) => None,
        }
    }

    /// Returns the cells of a multi-cell column, tombstones included.
    pub fn cells(&self, column: &str) -> &'r [(Bytes, Cell)] {
        let column = self.table.column(column).and_then(|column| self.row.column(column.id));
        match column {
            Some(ColumnData::Complex(column)) => &column.cells,
            _ => &[],
        }
    }

    /// Returns a text column.
    pub fn text(&self, column: &str) -> Option<&'r str> {
        std::str::from_utf8(self.bytes(column)?).ok()
    }

    /// Returns a boolean column.
    pub fn boolean(&self, column: &str) -> Option<bool> {
        Some(self.bytes(column)?.first().is_some_and(|byte| *byte != 0))
    }

    /// Returns an int column.
    pub fn int(&self, column: &str) -> Option<i32> {
        Some(i32::from_be_bytes(self.bytes(column)?.as_ref().try_into().ok()?))
    }

    /// Returns a bigint or timestamp column.
    pub fn bigint(&self, column: &str) -> Option<i64> {
        Some(i64::from_be_bytes(self.bytes(column)?.as_ref().try_into().ok()?))
    }

    /// Returns a double column.
    pub fn double(&self, column: &str) -> Option<f64> {
        Some(f64::from_be_bytes(self.bytes(column)?.as_ref().try_into().ok()?))
    }

    /// Returns a uuid column.
    pub fn uuid(&self, column: &str) -> Option<Uuid> {
        Uuid::from_slice(self.bytes(column)?).ok()
    }

    /// Returns a frozen list or set of text.
    pub fn texts(&self, column: &str) -> Option<Vec<String>> {
        let value = self.bytes(column)?;
        collection::elements(value)
            .ok()?
            .map(|element| Some(std::str::from_utf8(element.ok()??).ok()?.to_string()))
            .collect()
    }

    /// Returns a frozen list of booleans.
    pub fn booleans(&self, column: &str) -> Option<Vec<bool>> {
        let value = self.bytes(column)?;
        let elements = collection::elements(value).ok()?;
        elements
            .map(|element| Some(element.ok()??.first().is_some_and(|byte| *byte != 0)))
            .collect()
    }

    /// Returns a frozen map of text to bytes.
    pub fn map(&self, column: &str) -> Option<Vec<(String, Vec<u8>)>> {
        let value = self.bytes(column)?;
        collection::entries(value)
            .ok()?
            .map(|entry| {
                let (key, value) = entry.ok()?;
                Some((std::str::from_utf8(key).ok()?.to_string(), value.to_vec()))
            })
            .collect()
    }
}
