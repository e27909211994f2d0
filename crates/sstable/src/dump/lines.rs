//! Prints the lines of one SSTable, in either form, from decoded rows or from the bytes of Data.db.
//!
//! Printing from the bytes yields the same lines and is several times as fast, because it makes no
//! objects. The printer decodes each row that cannot be printed this way.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, DeletionTime, PartitionHeader, Unfiltered};

use super::{RawDump, ReadableDump};
use crate::{
    components::{Component, Descriptor},
    data::{
        column_map::{ColumnSelection, FileLayout},
        decode::{
            HeadKind, RawRowContent, RowDecoder, RowRef, read_head, read_marker,
            read_partition_head, walk_static_head,
        },
        input::{DataInput, Decoded, Malformed},
    },
    error::{FileName, Result, SSTableError},
    reader::{DataReader, RowBatch, SSTableReader},
};

#[derive(Clone, Debug)]
enum Form {
    Raw(RawDump),
    Readable(ReadableDump),
}

impl Form {
    fn write_raw(&mut self, row: &RawRowContent<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Raw(dump) => dump.write_raw(row, out),
            Self::Readable(dump) => dump.write_raw(row, out),
        }
    }
}

/// Prints the content of an SSTable. A clone may print on another thread.
#[derive(Clone, Debug)]
pub struct Lines {
    form: Form,
    name: FileName,
    decoder: RowDecoder,
    view: RowRef,
    /// True if rows can be printed in the order of their cells in the file.
    is_raw: bool,
}

impl Lines {
    /// Makes a printer for an SSTable, with the columns of its table's current schema. If `raw` is
    /// set, it prints as [`Dump`](super::Dump) does, else as [`ReadableDump`] does.
    pub fn new(reader: &SSTableReader, raw: bool, full_values: bool) -> Self {
        let layout = reader.0.layout.borrow().clone();
        Self::of(reader.descriptor(), layout, raw, full_values)
    }

    /// Makes a printer for an SSTable of which only Data.db is read.
    pub fn of_data(reader: &DataReader, raw: bool, full_values: bool) -> Self {
        Self::of(reader.descriptor(), reader.layout().clone(), raw, full_values)
    }

    fn of(descriptor: &Descriptor, layout: Arc<FileLayout>, raw: bool, full_values: bool) -> Self {
        let table = layout.table.clone();
        let form = if raw {
            Form::Raw(RawDump::new(table, full_values))
        } else {
            Form::Readable(ReadableDump::new(table, full_values))
        };
        Self {
            form,
            name: descriptor.name_in_errors(&Component::Data),
            is_raw: is_in_order(&layout) && !layout.is_static_compact,
            decoder: RowDecoder::new(layout, &ColumnSelection::All),
            view: RowRef::new(),
        }
    }

    /// Appends the line of a partition, to which the following lines belong, and the line of its
    /// static row, if it has one. `position` is the partition's position in Data.db before
    /// compression, if it is known.
    pub fn write_header(
        &mut self,
        header: &PartitionHeader,
        position: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        match &mut self.form {
            Form::Raw(dump) => dump.as_dump().write_header(header, out),
            Form::Readable(dump) => dump.write_header(header, position, out),
        }
    }

    /// Appends the line of a row or marker of the last partition.
    pub fn write_unfiltered(&mut self, unfiltered: &Unfiltered, out: &mut Vec<u8>) {
        match &mut self.form {
            Form::Raw(dump) => dump.as_dump().write_unfiltered(unfiltered, out),
            Form::Readable(dump) => dump.write_unfiltered(unfiltered, out),
        }
    }

    /// Appends all lines of a row batch of the SSTable.
    ///
    /// # Errors
    ///
    /// Returns an error if the batch is damaged. The lines before the fault are appended.
    pub fn write_batch(&mut self, batch: &RowBatch, out: &mut Vec<u8>) -> Result<()> {
        let bytes = &batch.bytes;
        let mut last = batch.key.clone().map(DecoratedKey::new);
        let (mut is_inside, mut open) = (batch.is_inside, batch.open);
        if let (true, Some(key), Form::Readable(dump)) = (is_inside, &last, &mut self.form) {
            dump.set_key(&key.key);
        }
        let mut at = 0;
        while let Some(&flags) = bytes.get(at) {
            let error = |at: usize, reason: &str| {
                SSTableError::corrupt(&self.name, batch.position + at as u64, reason)
            };
            if !is_inside {
                let (mut header, end) = self
                    .read_header(bytes, at)
                    .map_err(|(at, malformed)| error(at, malformed.reason()))?;
                if last.as_ref().is_some_and(|last| *last >= header.key) {
                    let reason = "a partition is out of key order";
                    return Err(error(end, reason));
                }
                let layout = &self.decoder.layout;
                // If a file has the rows of a compact table as static rows, the static row is the
                // only row of the partition.
                let only_row = header.static_row.take_if(|_| layout.is_static_compact);
                self.write_header(&header, Some(batch.position + at as u64), out);
                if let Some(row) = only_row {
                    self.write_unfiltered(&Unfiltered::Row(row), out);
                }
                last = Some(header.key);
                (is_inside, open) = (true, DeletionTime::LIVE);
                at = end;
            } else if flags == crate::data::layout::END_OF_PARTITION {
                if !open.is_live() {
                    return Err(error(at, "a range deletion is open at the end"));
                }
                is_inside = false;
                at += 1;
            } else if self.is_raw
                && let Some(end) = self.view.read(bytes, at, &self.decoder.layout)
            {
                if !self.view.is_empty() {
                    let (view, layout) = (&self.view, &*self.decoder.layout);
                    self.form.write_raw(&RawRowContent { view, bytes, layout }, out);
                }
                at = end;
            } else {
                let (unfiltered, end) = self
                    .read_unfiltered(bytes, at)
                    .map_err(|malformed| error(at, malformed.reason()))?;
                let start = std::mem::replace(&mut at, end);
                match &unfiltered {
                    Unfiltered::Row(_) if self.decoder.layout.is_static_compact => {
                        let reason = "a compact table has rows besides the static row";
                        return Err(error(start, reason));
                    }
                    Unfiltered::Row(row) if row.is_empty() => continue,
                    Unfiltered::Row(_) => {}
                    Unfiltered::Marker(marker) if marker.before != open => {
                        return Err(error(at, "a marker ends another deletion than was open"));
                    }
                    Unfiltered::Marker(marker) => open = marker.after,
                }
                self.write_unfiltered(&unfiltered, out);
            }
        }
        Ok(())
    }

    /// Reads the header and returns the offset after it, or the place and reason of a fault.
    fn read_header(
        &self,
        bytes: &Bytes,
        start: usize,
    ) -> std::result::Result<(PartitionHeader, usize), (usize, Malformed)> {
        let mut input = DataInput::new(bytes, start);
        let layout = &self.decoder.layout;
        let head = read_partition_head(&mut input, layout).map_err(|wrong| (start, wrong))?;
        let (mut end, mut static_row) = (head.end, None);
        if !layout.statics.is_empty() {
            let place = |wrong| (head.end, wrong);
            let row_head = walk_static_head(&mut input).map_err(place)?;
            let row = self.decoder.read_static_row(bytes, &row_head).map_err(place)?;
            end = row_head.end;
            static_row = (!row.is_empty()).then_some(row);
        }
        let key = DecoratedKey::new(bytes.slice(head.key.0..head.key.1));
        Ok((PartitionHeader { key, deletion: head.deletion, static_row }, end))
    }

    fn read_unfiltered(&self, bytes: &Bytes, start: usize) -> Decoded<(Unfiltered, usize)> {
        let layout = &self.decoder.layout;
        let head = read_head(&mut DataInput::new(bytes, start), layout)?;
        let head = head.ok_or(Malformed::Wrong("the end of a partition in its middle"))?;
        let unfiltered = match head.head.kind {
            HeadKind::Row => Unfiltered::Row(self.decoder.read_row(bytes, &head)?),
            HeadKind::Marker(kind) => Unfiltered::Marker(read_marker(bytes, &head, kind, layout)?),
        };
        Ok((unfiltered, head.head.end))
    }
}

/// Returns whether the table has its columns in the order of the file, simple ones first.
fn is_in_order(layout: &Arc<FileLayout>) -> bool {
    let known = || layout.regulars.iter().filter_map(|column| Some((column.target?, column)));
    let definitions = known().filter_map(|(id, _)| layout.table.column_by_id(id));
    known().map(|(id, _)| id).is_sorted()
        && definitions.is_sorted_by(|left, right| super::raw::file_order(left, right).is_le())
}
