//! Encodes rows. Format: docs/formats/data.md.

use espalier_mutation::{
    ClusteringComparator, Row, RowContent,
    encoding::{
        column::EncodedColumns,
        row::{RowDeletions, write_row_body},
    },
};
use espalier_types::{CqlType, vint};

use super::{
    super::{
        clustering_values::write_values,
        column_map::{FileColumn, FileLayout},
        decode::{UniformOrder, UniformRow},
        layout::{Baselines, EXTENDED_SHADOWABLE_FOLLOWS, EXTENDED_STATIC, EXTENSION},
        ranking::Ranking,
        values::ValueForm,
    },
    check_row_length, write_lengths,
};
use crate::versions::Family;

/// Encodes rows of a table for the columns of one file's header.
#[derive(Debug)]
pub(crate) struct RowEncoder {
    baselines: Baselines,
    types: Vec<(CqlType, bool)>,
    forms: Vec<ValueForm>,
    ranking: Ranking,
    statics: EncodedColumns,
    regulars: EncodedColumns,
    family: Family,
    body: Vec<u8>,
}

impl RowEncoder {
    /// Makes an encoder for a layout whose columns all belong to the table, since the file's header
    /// was made from the table.
    pub(crate) fn new(layout: FileLayout, family: Family) -> Self {
        let types = &layout.table.comparator().types;
        let forms = types.iter().map(|(column_type, _)| ValueForm::of(column_type));
        Self {
            baselines: layout.baselines,
            forms: forms.collect(),
            ranking: layout.ranking,
            types: types.to_vec(),
            statics: EncodedColumns::new(layout.statics),
            regulars: EncodedColumns::new(layout.regulars),
            family,
            body: Vec::new(),
        }
    }

    pub(crate) fn baselines(&self) -> &Baselines {
        &self.baselines
    }

    pub(crate) fn types(&self) -> &[(CqlType, bool)] {
        &self.types
    }

    pub(crate) fn has_static_columns(&self) -> bool {
        !self.statics.columns().is_empty()
    }

    /// Appends a row with a value for each clustering column; `previous` is the length of the
    /// preceding item in bytes.
    pub(crate) fn write_row<'a>(
        &mut self,
        clustering: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
        row: &impl RowContent,
        previous: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let deletions = deletions_of(row, self.family);
        self.body.clear();
        let flags =
            write_row_body(&self.regulars, &self.baselines, row, &deletions, &mut self.body)?;
        check_row_length(self.body.len())?;
        match deletions.extended {
            0 => out.push(flags),
            extended => out.extend_from_slice(&[flags | EXTENSION, extended]),
        }
        write_values(&self.types, clustering, out)?;
        write_lengths(self.body.len(), previous, out);
        out.extend_from_slice(&self.body);
        Ok(())
    }

    /// Returns whether uniform rows of a file with this layout may be copied. If so,
    /// [`RowEncoder::write_uniform`] gives the bytes that [`RowEncoder::write_row`] would give. The
    /// values must have the same form, and the columns must be the same.
    pub(crate) fn has_form_of(&self, layout: &FileLayout) -> bool {
        let columns = self.regulars.columns();
        let is_same = |(mine, theirs): (&FileColumn, &FileColumn)| {
            mine.target == theirs.target
                && mine.form == theirs.form
                && mine.is_complex == theirs.is_complex
        };
        *self.forms == *layout.clustering
            && columns.len() == layout.regulars.len()
            && columns.iter().zip(&layout.regulars).all(is_same)
    }

    /// Returns the forms of the clustering's values.
    #[inline]
    pub(crate) fn forms(&self) -> &[ValueForm] {
        &self.forms
    }

    /// Returns the data by which the uniform rows that this encoder copies are compared.
    #[inline]
    pub(crate) fn uniform_order<'a>(
        &'a self,
        comparator: &'a ClusteringComparator,
    ) -> UniformOrder<'a> {
        UniformOrder { forms: &self.forms, ranking: self.ranking, comparator }
    }

    /// Appends a uniform row that lies in `bytes`, and returns its new length in bytes.
    #[inline]
    pub(crate) fn write_uniform(
        &self,
        row: &UniformRow,
        bytes: &[u8],
        previous: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let before = out.len();
        let delta = self.baselines.timestamp_delta(row.timestamp);
        let numbers = vint::unsigned_length(previous) + vint::unsigned_length(delta);
        let body = (numbers + row.rest.1 - row.rest.0) as u64;
        let numbers = [body, previous, delta];
        if !append_short(bytes, row, numbers, out) {
            out.extend_from_slice(bytes.get(row.start.0..row.start.1).unwrap_or_default());
            numbers.into_iter().for_each(|number| vint::write_unsigned(number, out));
            out.extend_from_slice(bytes.get(row.rest.0..row.rest.1).unwrap_or_default());
        }
        (out.len() - before) as u64
    }

    /// Appends the static row, which every partition has if the header has static columns.
    pub(crate) fn write_static_row(&mut self, row: &Row, out: &mut Vec<u8>) -> Result<(), String> {
        let deletions = RowDeletions { ordinary: row.deletion, ..RowDeletions::default() };
        self.body.clear();
        let flags =
            write_row_body(&self.statics, &self.baselines, row, &deletions, &mut self.body)?;
        check_row_length(self.body.len())?;
        out.extend_from_slice(&[flags | EXTENSION, EXTENDED_STATIC]);
        write_lengths(self.body.len(), 0, out);
        out.extend_from_slice(&self.body);
        Ok(())
    }
}

/// Maximum lengths of the start and the rest of a uniform row that [`append_short`] copies.
const SHORT_START: usize = 16;
const SHORT_REST: usize = 128;
/// Length of each copy in bytes. It is fixed, because a copy of variable length calls a function;
/// so does a longer copy. The encoder cuts off the excess.
const COPY_LENGTH: usize = SHORT_REST;
/// Maximum number of bytes that the store of a number writes after the number.
const SURPLUS: usize = vint::MAX_BYTES - 1;
// The first copy has room for the numbers.
const _: () = assert!(SHORT_START + 3 * vint::MAX_BYTES + SURPLUS <= COPY_LENGTH);

/// Appends a uniform row with these numbers, if it is short and does not lie near the end of
/// `bytes`. Otherwise it does nothing and returns false.
///
/// The row is assembled in `out`. If it were assembled elsewhere and then copied, the copy would
/// load bytes that were just stored in other widths, and the core would wait until those stores are
/// done.
#[inline]
fn append_short(bytes: &[u8], row: &UniformRow, numbers: [u64; 3], out: &mut Vec<u8>) -> bool {
    let (start_length, rest_length) = (row.start.1 - row.start.0, row.rest.1 - row.rest.0);
    let chunks = || {
        let start = bytes.get(row.start.0..)?.first_chunk::<COPY_LENGTH>()?;
        let rest = bytes.get(row.rest.0..)?.first_chunk::<COPY_LENGTH>()?;
        Some((start, rest))
    };
    let Some((start, rest)) = chunks() else { return false };
    if start_length > SHORT_START || rest_length > SHORT_REST {
        return false;
    }
    let before = out.len();
    // This copy also brings the rest. The rest is then in its place if the new numbers take as many
    // bytes as the old ones, as they usually do.
    out.extend_from_slice(start);
    let Some(room) = out[before..].first_chunk_mut::<COPY_LENGTH>() else { return false };
    let mut end = start_length;
    for number in numbers {
        if number < 0x80 {
            // Usually two of the numbers take one byte each. The next store then does not wait
            // for their lengths.
            room[end] = number as u8;
            end += 1;
            continue;
        }
        let (encoded, length) = vint::encoded_unsigned(number);
        room[end..end + vint::MAX_BYTES].copy_from_slice(&encoded);
        end += length;
    }
    if row.start.0 + end == row.rest.0 && end + rest_length <= COPY_LENGTH {
        room[end..end + SURPLUS].copy_from_slice(&rest[..SURPLUS]);
    } else {
        out.truncate(before + end);
        out.extend_from_slice(rest);
    }
    out.truncate(before + end + rest_length);
    true
}

/// Chooses the forms of a row's deletions. A row in ScyllaDB's files can hold both an ordinary and
/// a shadowable deletion; a row in Cassandra's holds one of them ([`RowDeletions::of`]).
#[inline]
fn deletions_of(row: &impl RowContent, family: Family) -> RowDeletions {
    let (ordinary, shadowable) = (row.deletion(), row.shadowable_deletion());
    match family {
        Family::Scylla if !shadowable.is_live() => {
            let extended = EXTENDED_SHADOWABLE_FOLLOWS;
            RowDeletions { ordinary, following: shadowable, extended }
        }
        _ => RowDeletions::of(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that short rows get the bytes of the general copy, whether or not the numbers take as
    /// many bytes as before.
    #[test]
    fn short_copies_consist_of_start_numbers_and_rest() {
        let bytes: Vec<u8> = (0..512u32).map(|index| ((index * 151) >> 2) as u8).collect();
        let powers = (0..64).step_by(7).map(|power| 1 << power);
        let values: Vec<u64> = powers.chain([0, 0x7F, u64::MAX]).collect();
        let all = values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b)));
        for (number, numbers) in all.map(|(a, b)| [a, b, a ^ b]).enumerate() {
            for start_length in [1, 5, SHORT_START] {
                for old_length in 3..=3 * vint::MAX_BYTES {
                    for rest_length in [0, 1, 7, 8, 9, 100, SHORT_REST] {
                        let mut row = UniformRow::default();
                        row.start = (number, number + start_length);
                        let rest = row.start.1 + old_length;
                        row.rest = (rest, rest + rest_length);
                        let mut expected = vec![0xA5; number];
                        expected.extend_from_slice(&bytes[row.start.0..row.start.1]);
                        numbers.iter().for_each(|its| vint::write_unsigned(*its, &mut expected));
                        expected.extend_from_slice(&bytes[row.rest.0..row.rest.1]);
                        let mut out = vec![0xA5; number];
                        assert!(append_short(&bytes, &row, numbers, &mut out));
                        assert_eq!(out, expected, "{row:?} {numbers:?}");
                    }
                }
            }
        }
    }
}
