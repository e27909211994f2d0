//! Packs a row into one string of bytes, its form in memtables and in the commit log.
//!
//! ```text
//! row     flags u8 (1 liveness, 2 expiring liveness, 4 row deletion, 8 shadowable deletion),
//!         base timestamp i64,
//!         [2: ttl u32, expiry u32], [4: timestamp i64, local deletion time u32],
//!         [8: the same fields again], then columns up to the end
//! column  column id vint, then kind u8
//!         below 80: simple -> the kind is the first byte of a cell
//!         80: complex -> [81: deletion i64, u32], vint count,
//!         count x (vint path length, path, cell)
//! cell    flags u8 (1 tombstone, 2 expiring, 4 value empty, 8 base timestamp, 10 ttl and expiry of
//!         the row), [!8: timestamp i64] [1 or 2, !10: local deletion time u32] [2, !10: ttl u32]
//!         [!4: vint length, value]
//! ```
//!
//! Kinds and flags are in hex, other integers little-endian. A vint has 7 bits a byte, the lowest
//! first. The base timestamp is that of the liveness, or of the first cell if there is no liveness.
//! The clustering is not part of the form; in the memtable it is the path. A row costs 9 bytes, and
//! a cell of an ordinary INSERT 3 bytes beside its value. Packed rows come from memory or have
//! passed a checksum; the reader checks all lengths nevertheless.

use bytes::Bytes;

use crate::{
    Cell, CellRef, Clustering, ColumnData, ColumnRef, ComplexColumn, DeletionTime, Liveness,
    NO_DELETION_TIME, NO_TIMESTAMP, Row, RowContent,
    encoding::body::{put_bytes, put_deletion, put_vint},
    row_content::is_valid_shadowable,
    schema::ColumnId,
};

const ROW_LIVENESS: u8 = 1;
const ROW_EXPIRING: u8 = 2;
const ROW_DELETION: u8 = 4;
const ROW_SHADOWABLE_DELETION: u8 = 8;

const COLUMN_COMPLEX: u8 = 0x80;
const COLUMN_COMPLEX_DELETED: u8 = 0x81;

const CELL_TOMBSTONE: u8 = 0x01;
const CELL_EXPIRING: u8 = 0x02;
const CELL_EMPTY: u8 = 0x04;
const CELL_ROW_TIMESTAMP: u8 = 0x08;
const CELL_ROW_TTL: u8 = 0x10;

/// The error for bytes that are not a packed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed row of {length} bytes is malformed at byte {offset}")]
pub struct PackError {
    /// The offset in bytes at which reading stopped.
    pub offset: usize,
    /// The length of the packed row in bytes.
    pub length: usize,
}

/// Appends the packed form of `row`, without its clustering.
#[inline]
pub fn pack_row(row: &impl RowContent, out: &mut Vec<u8>) {
    let (liveness, deletion) = (row.liveness(), row.deletion());
    let shadowable_deletion = row.shadowable_deletion();
    let base = if liveness.is_none() { first_timestamp(row) } else { liveness.timestamp };
    let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
    let flags = flag(!liveness.is_none(), ROW_LIVENESS)
        | flag(liveness.is_expiring(), ROW_EXPIRING)
        | flag(!deletion.is_live(), ROW_DELETION)
        | flag(!shadowable_deletion.is_live(), ROW_SHADOWABLE_DELETION);
    let mut head = [flags; 9];
    head[1..].copy_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&head);
    if liveness.is_expiring() {
        out.extend_from_slice(&liveness.ttl.to_le_bytes());
        out.extend_from_slice(&liveness.local_expiration.to_le_bytes());
    }
    if !deletion.is_live() {
        put_deletion(deletion, out);
    }
    if !shadowable_deletion.is_live() {
        put_deletion(shadowable_deletion, out);
    }
    for (id, column) in row.columns() {
        put_vint(u64::from(id.0), out);
        match column {
            ColumnRef::Simple(cell) => pack_cell(cell, base, &liveness, out),
            ColumnRef::Complex(column) => pack_complex(column, base, &liveness, out),
        }
    }
}

fn pack_complex(column: &ComplexColumn, base: i64, liveness: &Liveness, out: &mut Vec<u8>) {
    if column.deletion.is_live() {
        out.push(COLUMN_COMPLEX);
    } else {
        out.push(COLUMN_COMPLEX_DELETED);
        put_deletion(column.deletion, out);
    }
    put_vint(column.cells.len() as u64, out);
    for (path, cell) in &column.cells {
        put_bytes(path, out);
        pack_cell(cell.into(), base, liveness, out);
    }
}

fn first_timestamp(row: &impl RowContent) -> i64 {
    match row.columns().next() {
        Some((_, ColumnRef::Simple(cell))) => cell.timestamp,
        Some((_, ColumnRef::Complex(column))) => {
            column.cells.first().map_or(NO_TIMESTAMP, |(_, cell)| cell.timestamp)
        }
        None => NO_TIMESTAMP,
    }
}

#[inline]
fn pack_cell(cell: CellRef<'_>, base: i64, liveness: &Liveness, out: &mut Vec<u8>) {
    let mut flags = 0;
    if cell.is_expiring() {
        flags |= CELL_EXPIRING;
        if liveness.is_expiring()
            && cell.ttl == liveness.ttl
            && cell.local_deletion_time == liveness.local_expiration
        {
            flags |= CELL_ROW_TTL;
        }
    } else if cell.is_tombstone() {
        flags |= CELL_TOMBSTONE;
    }
    if cell.value.is_empty() {
        flags |= CELL_EMPTY;
    }
    if cell.timestamp == base {
        flags |= CELL_ROW_TIMESTAMP;
    }
    out.push(flags);
    if flags & CELL_ROW_TIMESTAMP == 0 {
        out.extend_from_slice(&cell.timestamp.to_le_bytes());
    }
    if flags & (CELL_TOMBSTONE | CELL_EXPIRING) != 0 && flags & CELL_ROW_TTL == 0 {
        out.extend_from_slice(&cell.local_deletion_time.to_le_bytes());
        if flags & CELL_EXPIRING != 0 {
            out.extend_from_slice(&cell.ttl.to_le_bytes());
        }
    }
    if flags & CELL_EMPTY == 0 {
        put_bytes(cell.value, out);
    }
}

/// Makes a row from its packed form. Values and paths are slices of `packed`, not copies.
///
/// # Errors
///
/// Returns an error if the bytes are not a packed row.
pub fn unpack_row(clustering: Clustering, packed: &Bytes) -> Result<Row, PackError> {
    let view = PackedRow::new(packed)?;
    let mut row =
        Row { liveness: view.liveness, deletion: view.deletion, ..Row::empty(clustering) };
    row.shadowable_deletion = view.shadowable_deletion;
    for column in view.columns() {
        let (id, data) = match column? {
            PackedColumn::Simple(id, cell) => (id, ColumnData::Simple(to_cell(cell, packed))),
            PackedColumn::Complex(id, deletion, cells) => {
                let cells = cells
                    .map(|entry| {
                        entry.map(|(path, cell)| (packed.slice_ref(path), to_cell(cell, packed)))
                    })
                    .collect::<Result<_, _>>()?;
                (id, ColumnData::Complex(ComplexColumn { deletion, cells }))
            }
        };
        row.columns.push((id, data));
    }
    Ok(row)
}

fn to_cell(cell: CellRef<'_>, packed: &Bytes) -> Cell {
    Cell {
        timestamp: cell.timestamp,
        ttl: cell.ttl,
        local_deletion_time: cell.local_deletion_time,
        value: if cell.value.is_empty() { Bytes::new() } else { packed.slice_ref(cell.value) },
    }
}

/// A packed row that is read in place.
#[derive(Clone, Copy, Debug)]
pub struct PackedRow<'a> {
    /// Liveness of the primary key.
    pub liveness: Liveness,
    /// Deletion of the whole row.
    pub deletion: DeletionTime,
    /// Shadowable deletion, see [`Row::shadowable_deletion`].
    pub shadowable_deletion: DeletionTime,
    base: i64,
    packed: &'a [u8],
    columns_at: usize,
}

/// A column of a packed row.
#[derive(Clone, Debug)]
pub enum PackedColumn<'a> {
    /// One cell.
    Simple(ColumnId, CellRef<'a>),
    /// The column's deletion, and its cells in the order of their paths.
    Complex(ColumnId, DeletionTime, PackedCells<'a>),
}

struct Reader<'a> {
    packed: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    #[cold]
    fn error(&self) -> PackError {
        PackError { offset: self.offset, length: self.packed.len() }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], PackError> {
        let end = self.offset.checked_add(length).ok_or_else(|| self.error())?;
        let taken = self.packed.get(self.offset..end).ok_or_else(|| self.error())?;
        self.offset = end;
        Ok(taken)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, PackError> {
        let byte = *self.packed.get(self.offset).ok_or_else(|| self.error())?;
        self.offset += 1;
        Ok(byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], PackError> {
        let rest = self.packed.get(self.offset..).unwrap_or_default();
        let Some(array) = rest.first_chunk::<N>() else { return Err(self.error()) };
        self.offset += N;
        Ok(*array)
    }

    #[inline]
    fn vint(&mut self) -> Result<u64, PackError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error())
    }

    #[inline]
    fn length(&mut self) -> Result<usize, PackError> {
        let length = self.vint()?;
        usize::try_from(length).map_err(|_| self.error())
    }

    #[inline]
    fn deletion(&mut self) -> Result<DeletionTime, PackError> {
        let timestamp = i64::from_le_bytes(self.array()?);
        Ok(DeletionTime::new(timestamp, u32::from_le_bytes(self.array()?)))
    }

    #[inline]
    fn cell(
        &mut self,
        flags: u8,
        base: i64,
        liveness: &Liveness,
    ) -> Result<CellRef<'a>, PackError> {
        let timestamp =
            if flags & CELL_ROW_TIMESTAMP != 0 { base } else { i64::from_le_bytes(self.array()?) };
        let (mut ttl, mut local_deletion_time) = (0, NO_DELETION_TIME);
        if flags & CELL_ROW_TTL != 0 {
            (ttl, local_deletion_time) = (liveness.ttl, liveness.local_expiration);
        } else if flags & (CELL_TOMBSTONE | CELL_EXPIRING) != 0 {
            local_deletion_time = u32::from_le_bytes(self.array()?);
            if flags & CELL_EXPIRING != 0 {
                ttl = u32::from_le_bytes(self.array()?);
            }
        }
        let value = if flags & CELL_EMPTY != 0 {
            &[][..]
        } else {
            let length = self.length()?;
            self.take(length)?
        };
        Ok(CellRef { timestamp, ttl, local_deletion_time, value })
    }
}

impl<'a> PackedRow<'a> {
    /// Returns [`Row::is_dead_for_ever`] of the packed row, and false for a malformed one.
    #[inline]
    pub fn is_dead_for_ever(&self) -> bool {
        self.liveness.is_none()
            && self.columns().all(|column| match column {
                Ok(PackedColumn::Simple(_, cell)) => cell.is_tombstone(),
                Ok(PackedColumn::Complex(_, _, mut cells)) => {
                    cells.all(|cell| cell.is_ok_and(|(_, cell)| cell.is_tombstone()))
                }
                Err(_) => false,
            })
    }

    /// Returns the strongest deletion over the row's data, given the deletion `above` of its
    /// partition or range; see [`RowContent::strongest_deletion`].
    #[inline]
    pub fn strongest_deletion(&self, above: DeletionTime) -> DeletionTime {
        let strongest = above.max(self.deletion);
        if is_valid_shadowable(self.shadowable_deletion, &self.liveness, &strongest) {
            self.shadowable_deletion
        } else {
            strongest
        }
    }

    /// Returns the packed form.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.packed
    }

    /// Reads the part in front of the columns. [`Self::columns`] reads the columns.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes end inside that part.
    #[inline]
    pub fn new(packed: &'a [u8]) -> Result<Self, PackError> {
        let mut reader = Reader { packed, offset: 0 };
        let flags = reader.byte()?;
        let base = i64::from_le_bytes(reader.array()?);
        let mut liveness = Liveness::NONE;
        if flags & ROW_LIVENESS != 0 {
            liveness.timestamp = base;
        }
        if flags & ROW_EXPIRING != 0 {
            liveness.ttl = u32::from_le_bytes(reader.array()?);
            liveness.local_expiration = u32::from_le_bytes(reader.array()?);
        }
        let deletion =
            if flags & ROW_DELETION != 0 { reader.deletion()? } else { DeletionTime::LIVE };
        let shadowable_deletion = if flags & ROW_SHADOWABLE_DELETION != 0 {
            reader.deletion()?
        } else {
            DeletionTime::LIVE
        };
        let columns_at = reader.offset;
        Ok(Self { liveness, deletion, shadowable_deletion, base, packed, columns_at })
    }

    /// Returns the columns in ascending order of id. After an error the iterator ends.
    #[inline]
    pub fn columns(&self) -> impl Iterator<Item = Result<PackedColumn<'a>, PackError>> + use<'a> {
        let (base, liveness) = (self.base, self.liveness);
        let mut reader = Reader { packed: self.packed, offset: self.columns_at };
        std::iter::from_fn(move || {
            (reader.offset < reader.packed.len()).then(|| next_column(&mut reader, base, liveness))
        })
    }
}

#[inline]
fn next_column<'a>(
    reader: &mut Reader<'a>,
    base: i64,
    liveness: Liveness,
) -> Result<PackedColumn<'a>, PackError> {
    let result = (|| {
        let id = u32::try_from(reader.vint()?).map_err(|_| reader.error())?;
        let flags = reader.byte()?;
        if flags & COLUMN_COMPLEX == 0 {
            return Ok(PackedColumn::Simple(ColumnId(id), reader.cell(flags, base, &liveness)?));
        }
        next_complex(reader, ColumnId(id), flags, base, liveness)
    })();
    if result.is_err() {
        reader.offset = reader.packed.len();
    }
    result
}

fn next_complex<'a>(
    reader: &mut Reader<'a>,
    id: ColumnId,
    flags: u8,
    base: i64,
    liveness: Liveness,
) -> Result<PackedColumn<'a>, PackError> {
    let deletion = match flags {
        COLUMN_COMPLEX_DELETED => reader.deletion()?,
        _ => DeletionTime::LIVE,
    };
    let count = reader.length()?;
    let cells = PackedCells { packed: reader.packed, offset: reader.offset, count, base, liveness };
    let mut walked = cells.clone();
    for cell in &mut walked {
        cell?;
    }
    reader.offset = walked.offset;
    Ok(PackedColumn::Complex(id, deletion, cells))
}

/// The cells of a complex column in the order of their paths. After an error the iterator ends.
#[derive(Clone, Debug)]
pub struct PackedCells<'a> {
    packed: &'a [u8],
    offset: usize,
    count: usize,
    base: i64,
    liveness: Liveness,
}

impl<'a> Iterator for PackedCells<'a> {
    type Item = Result<(&'a [u8], CellRef<'a>), PackError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let mut reader = Reader { packed: self.packed, offset: self.offset };
        let entry = (|| {
            let length = reader.length()?;
            let path = reader.take(length)?;
            let flags = reader.byte()?;
            Ok((path, reader.cell(flags, self.base, &self.liveness)?))
        })();
        self.offset = reader.offset;
        if entry.is_err() {
            self.count = 0;
        }
        Some(entry)
    }
}
