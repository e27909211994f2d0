//! A raw row: a row read in place, whose cells are ranges of the bytes, without an object for any
//! of them.
//!
//! It serves readers that go through each row once and keep nothing of it, such as a dump. It
//! covers the common rows: without an extension, without complex columns and without counters. For
//! all other rows, and for damaged ones, [`RowRef::read`] has no answer, and the caller uses
//! [`RowDecoder`](super::RowDecoder), which also gives the reason.
//!
//! Memory: 40 bytes for each column of the widest row, reused for the next row.

use espalier_mutation::{BoundKind, DeletionTime, Liveness, NO_DELETION_TIME};

use super::super::{
    clustering_values::{EMPTY, GROUP, NULL},
    column_map::FileLayout,
    cursor::Cursor,
    layout::{
        CELL_DELETED, CELL_EMPTY, CELL_EXPIRING, CELL_FLAGS, CELL_ROW_TIMESTAMP, CELL_ROW_TTL,
        END_OF_PARTITION, EXTENSION, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION,
        HAS_TIMESTAMP, HAS_TTL, IS_MARKER,
    },
    values::ValueForm,
};
use crate::{data::input::MAX_VALUE_LENGTH, versions::DeletionTimeForm};

/// A range: the offset of its first byte and the offset after its last, in the bytes from which
/// the row was read.
pub(crate) type Span = (usize, usize);

/// A cell of a simple column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellSpan {
    /// Index of the column in the file's header.
    pub(crate) column: usize,
    pub(crate) timestamp: i64,
    pub(crate) ttl: u32,
    pub(crate) local_deletion_time: u32,
    pub(crate) value: Span,
}

impl CellSpan {
    pub(crate) fn is_tombstone(&self) -> bool {
        self.ttl == 0 && self.local_deletion_time != NO_DELETION_TIME
    }

    /// Returns whether the cell was written together with the row.
    pub(crate) fn is_like(&self, liveness: &Liveness) -> bool {
        self.timestamp == liveness.timestamp
            && self.ttl == liveness.ttl
            && self.local_deletion_time == liveness.local_expiration
            && !self.is_tombstone()
    }
}

/// The row that was read last.
#[derive(Clone, Debug)]
pub(crate) struct RowRef {
    pub(crate) liveness: Liveness,
    pub(crate) deletion: DeletionTime,
    /// Ranges of the clustering values; `None` is null.
    pub(crate) clustering: Vec<Option<Span>>,
    /// The cells in the file's order, without those of dropped columns.
    pub(crate) cells: Vec<CellSpan>,
    /// True if all cells were written together with the row.
    pub(crate) is_plain: bool,
}

impl RowRef {
    pub(crate) fn new() -> Self {
        Self {
            liveness: Liveness::NONE,
            deletion: DeletionTime::LIVE,
            clustering: Vec::new(),
            cells: Vec::new(),
            is_plain: true,
        }
    }

    /// Returns whether the row is empty, because its cells belong to dropped columns.
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.liveness.is_none() && self.deletion.is_live()
    }

    /// Reads the row that begins at `start`, and returns the offset after it. Returns `None` if
    /// the caller must use the decoder.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        layout: &FileLayout,
    ) -> Option<usize> {
        self.read_columns(bytes, start, layout, usize::MAX)
    }

    /// Reads a row as [`Self::read`] does, but steps over the cells behind the first `wanted`
    /// columns of the file. Only of a row that exists whatever its cells: one with a liveness that
    /// does not expire and without a deletion.
    #[inline]
    pub(crate) fn read_columns(
        &mut self,
        bytes: &[u8],
        start: usize,
        layout: &FileLayout,
        wanted: usize,
    ) -> Option<usize> {
        let mut cursor = Cursor::new(bytes, start);
        let flags = cursor.u8()?;
        const OTHERS: u8 = END_OF_PARTITION | IS_MARKER | EXTENSION | HAS_COMPLEX_DELETION;
        if flags & OTHERS != 0 || flags & (HAS_TTL | HAS_TIMESTAMP) == HAS_TTL {
            return None;
        }
        self.clustering.clear();
        let push = |span| self.clustering.push(span);
        read_clustering(&mut cursor, &layout.clustering, push).ok()?;
        let body_length = usize::try_from(cursor.vint()?).ok()?;
        let end = cursor.at.checked_add(body_length)?;
        cursor.vint()?; // the length of the preceding item
        let baselines = &layout.baselines;
        self.liveness = Liveness::NONE;
        if flags & HAS_TIMESTAMP != 0 {
            self.liveness = Liveness::live(baselines.timestamp(cursor.vint()?));
            if flags & HAS_TTL != 0 {
                self.liveness.ttl = positive_ttl(baselines.ttl(cursor.vint()?))?;
                self.liveness.local_expiration = baselines.local_deletion_time(cursor.vint()?);
            }
        }
        self.deletion = DeletionTime::LIVE;
        if flags & HAS_DELETION != 0 {
            self.deletion = read_deletion(&mut cursor, layout)?;
        }
        self.cells.clear();
        self.is_plain = true;
        let columns = layout.regulars.len();
        let may_skip = flags & (HAS_TIMESTAMP | HAS_TTL | HAS_DELETION) == HAS_TIMESTAMP;
        let is_partial = may_skip && wanted < columns;
        if is_partial && wanted == 0 {
            // No cell is needed.
        } else if flags & HAS_ALL_COLUMNS != 0 {
            for index in 0..if is_partial { wanted } else { columns } {
                self.read_cell(&mut cursor, index, layout)?;
            }
        } else {
            if columns >= 64 {
                return None;
            }
            let all = (1u64 << columns) - 1;
            let missing = cursor.vint()?;
            let mut present = match missing & !all {
                0 => !missing & all,
                _ => return None,
            };
            if is_partial {
                present &= (1 << wanted) - 1;
            }
            while present != 0 {
                self.read_cell(&mut cursor, present.trailing_zeros() as usize, layout)?;
                present &= present - 1;
            }
        }
        let is_whole = cursor.at == end || (is_partial && cursor.at < end && end <= bytes.len());
        is_whole.then_some(end)
    }

    #[inline]
    fn read_cell(
        &mut self,
        cursor: &mut Cursor<'_>,
        index: usize,
        layout: &FileLayout,
    ) -> Option<()> {
        let column = layout.regulars.get(index)?;
        if column.is_complex || column.is_counter {
            return None;
        }
        let flags = cursor.u8()?;
        let row = &self.liveness;
        let mut timestamp = row.timestamp;
        let (mut local_deletion_time, mut ttl) = (NO_DELETION_TIME, 0);
        if flags == CELL_ROW_TIMESTAMP && !row.is_none() {
            // Most cells are written together with the row.
        } else {
            let is_deleted = flags & CELL_DELETED != 0;
            let is_expiring = flags & CELL_EXPIRING != 0;
            if flags & !CELL_FLAGS != 0 || is_deleted && is_expiring {
                return None;
            }
            if flags & CELL_ROW_TIMESTAMP == 0 {
                timestamp = layout.baselines.timestamp(cursor.vint()?);
            } else if row.is_none() {
                return None;
            }
            if flags & CELL_ROW_TTL != 0 {
                if !is_expiring || !row.is_expiring() {
                    return None;
                }
                (local_deletion_time, ttl) = (row.local_expiration, row.ttl);
            } else if is_deleted || is_expiring {
                local_deletion_time = layout.baselines.local_deletion_time(cursor.vint()?);
                if is_expiring {
                    ttl = positive_ttl(layout.baselines.ttl(cursor.vint()?))?;
                }
            }
            if is_deleted && local_deletion_time == NO_DELETION_TIME {
                return None;
            }
        }
        let length = match (flags & CELL_EMPTY, column.form) {
            (0, ValueForm::Fixed(length)) => length,
            (0, ValueForm::Prefixed) => value_length(cursor)?,
            _ => 0,
        };
        let value = cursor.span(length)?;
        if column.target.is_some() && !column.has_dropped(timestamp) {
            let cell = CellSpan { column: index, timestamp, ttl, local_deletion_time, value };
            self.is_plain &= cell.is_like(&self.liveness);
            self.cells.push(cell);
        }
        Some(())
    }
}

impl Default for RowRef {
    fn default() -> Self {
        Self::new()
    }
}

/// The item at a place after a partition's head, as far as a walk needs it.
pub(crate) enum Step {
    /// A row that ends at this offset.
    Row(usize),
    /// A marker that ends at this offset, the deletion that is open after it, and its kind.
    Marker(usize, DeletionTime, BoundKind),
    /// The byte that ends the partition.
    End,
}

/// The reason why a walk cannot take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStep {
    /// More bytes are needed.
    Short,
    /// The bytes are malformed, or the case is not handled here.
    Odd,
}

/// Takes the step at `start`. A row may end after the bytes; a marker must lie wholly in them.
#[inline]
pub(crate) fn step(bytes: &[u8], start: usize, layout: &FileLayout) -> Result<Step, NoStep> {
    step_noting(bytes, start, layout, |_| ())
}

/// Takes the step at `start`, and passes the ranges of the position's values to `note`.
#[inline]
pub(crate) fn step_noting(
    bytes: &[u8],
    start: usize,
    layout: &FileLayout,
    note: impl FnMut(Option<Span>),
) -> Result<Step, NoStep> {
    let mut cursor = Cursor::new(bytes, start);
    let flags = cursor.u8().ok_or(NoStep::Short)?;
    let (mut forms, mut kind) = (layout.clustering.as_slice(), None);
    if flags & (END_OF_PARTITION | IS_MARKER | EXTENSION) != 0 {
        match flags {
            END_OF_PARTITION => return Ok(Step::End),
            IS_MARKER => {
                let number = cursor.u8().ok_or(NoStep::Short)?;
                kind = Some(BoundKind::from_number(number).ok_or(NoStep::Odd)?);
                let count = cursor.u16().ok_or(NoStep::Short)?;
                forms = forms.get(..usize::from(count)).ok_or(NoStep::Odd)?;
            }
            flags if flags & (END_OF_PARTITION | IS_MARKER) == 0 => {
                cursor.u8().ok_or(NoStep::Short)?;
            }
            _ => return Err(NoStep::Odd),
        }
    }
    read_clustering(&mut cursor, forms, note)?;
    let body_length = cursor.vint().ok_or(NoStep::Short)?;
    if !(1..=super::super::input::MAX_ROW_LENGTH).contains(&body_length) {
        return Err(NoStep::Odd);
    }
    let end = cursor.at + body_length as usize;
    let Some(kind) = kind else { return Ok(Step::Row(end)) };
    if end > bytes.len() {
        return Err(NoStep::Short);
    }
    cursor.vint().ok_or(NoStep::Odd)?;
    let mut open = read_deletion(&mut cursor, layout).ok_or(NoStep::Odd)?;
    if kind.is_boundary() {
        open = read_deletion(&mut cursor, layout).ok_or(NoStep::Odd)?;
    } else if !kind.is_start() {
        open = DeletionTime::LIVE;
    }
    Ok(Step::Marker(end, open, kind))
}

/// Reads the head of the partition that begins at `start`: the range of its key, its deletion, and
/// the offset after both.
#[inline]
pub(crate) fn partition_head(
    bytes: &[u8],
    start: usize,
    layout: &FileLayout,
) -> Result<(Span, DeletionTime, usize), NoStep> {
    let mut cursor = Cursor::new(bytes, start);
    let length = cursor.u16().ok_or(NoStep::Short)?;
    let key = cursor.span(usize::from(length)).ok_or(NoStep::Short)?;
    if layout.deletion_time == DeletionTimeForm::Unsigned {
        match cursor.clone().u8().ok_or(NoStep::Short)? {
            0x80 => return Ok((key, DeletionTime::LIVE, cursor.at + 1)),
            0x81.. => return Err(NoStep::Odd),
            _ => {}
        }
    }
    let (at, end) = cursor.span(12).ok_or(NoStep::Short)?;
    let raw = bytes.get(at..end).and_then(|raw| raw.first_chunk::<12>()).ok_or(NoStep::Short)?;
    let deletion = match layout.deletion_time {
        DeletionTimeForm::Unsigned => {
            let [timestamp @ .., a, b, c, d] = *raw;
            DeletionTime::new(i64::from_be_bytes(timestamp), u32::from_be_bytes([a, b, c, d]))
        }
        DeletionTimeForm::Legacy => {
            let [a, b, c, d, timestamp @ ..] = *raw;
            DeletionTime::new(i64::from_be_bytes(timestamp), u32::from_be_bytes([a, b, c, d]))
        }
    };
    Ok((key, if deletion.is_live() { DeletionTime::LIVE } else { deletion }, end))
}

#[inline]
fn read_clustering(
    cursor: &mut Cursor<'_>,
    forms: &[ValueForm],
    mut each: impl FnMut(Option<Span>),
) -> Result<(), NoStep> {
    for group in forms.chunks(GROUP) {
        let header = cursor.vint().ok_or(NoStep::Short)?;
        if group.len() < GROUP && header >> (2 * group.len()) != 0 {
            return Err(NoStep::Odd);
        }
        for (index, form) in group.iter().enumerate() {
            each(match header >> (2 * index) & 3 {
                0 => {
                    let length = match form {
                        ValueForm::Fixed(length) => *length,
                        ValueForm::Prefixed => match cursor.vint().ok_or(NoStep::Short)? {
                            length if length <= MAX_VALUE_LENGTH => length as usize,
                            _ => return Err(NoStep::Odd),
                        },
                    };
                    Some(cursor.span(length).ok_or(NoStep::Short)?)
                }
                EMPTY => Some((cursor.at, cursor.at)),
                NULL => None,
                _ => return Err(NoStep::Odd),
            });
        }
    }
    Ok(())
}

#[inline]
fn value_length(cursor: &mut Cursor<'_>) -> Option<usize> {
    match cursor.vint()? {
        length if length <= MAX_VALUE_LENGTH => Some(length as usize),
        _ => None,
    }
}

fn positive_ttl(ttl: u32) -> Option<u32> {
    (1..=0x7FFF_FFFF).contains(&ttl).then_some(ttl)
}

fn read_deletion(cursor: &mut Cursor<'_>, layout: &FileLayout) -> Option<DeletionTime> {
    let timestamp = layout.baselines.timestamp(cursor.vint()?);
    let time = layout.baselines.local_deletion_time(cursor.vint()?);
    let deletion = DeletionTime::new(timestamp, time);
    Some(if deletion.is_live() { DeletionTime::LIVE } else { deletion })
}
