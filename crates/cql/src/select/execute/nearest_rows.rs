//! The most similar rows that a pass has read, each encoded as in the result.
//!
//! Memory: at most the bytes that a result without paging may have, and one row.

use espalier_storage::Top;

use crate::Result;

/// The most similar rows so far.
pub(super) struct NearestRows {
    top: Top<EncodedRow>,
    /// The number of calls of [`Self::add`].
    added: usize,
    /// Bytes of the rows in `top`.
    bytes: usize,
    max_bytes: usize,
}

struct EncodedRow {
    /// The number of the call that added the row. Of equally similar rows, the one with the least
    /// number comes first.
    number: usize,
    /// The row, or the error of a selector. The statement fails with the error only if the row is
    /// in the result.
    content: Result<Vec<u8>>,
}

impl EncodedRow {
    fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Vec::len)
    }
}

impl NearestRows {
    pub(super) fn new(max_rows: usize, max_bytes: usize) -> Self {
        Self { top: Top::new(max_rows), added: 0, bytes: 0, max_bytes }
    }

    /// Adds a row. Calls `encode` unless enough other rows are known to be more similar. Returns
    /// the bytes of the best rows if they exceed the maximum.
    pub(super) fn add(
        &mut self,
        similarity: f32,
        encode: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Option<usize> {
        let (number, mut bytes) = (self.added, 0);
        self.added += 1;
        let mut has_dropped = self.top.push_with(similarity, || {
            let row = EncodedRow { number, content: encode() };
            bytes = row.bytes();
            row
        });
        self.bytes += bytes;
        if self.bytes > self.max_bytes {
            has_dropped |= self.top.shrink();
        }
        if has_dropped {
            self.bytes = self.top.items().map(EncodedRow::bytes).sum();
        }
        (self.bytes > self.max_bytes).then_some(self.bytes)
    }

    /// Returns the least similarity among the best rows, if there are as many as the result may
    /// have.
    pub(super) fn least_of_full(&mut self) -> Option<f32> {
        self.top.least_of_full()
    }

    /// Returns the rows by descending similarity.
    pub(super) async fn finish(self) -> impl Iterator<Item = Result<Vec<u8>>> {
        let by_number = |left: &EncodedRow, right: &EncodedRow| left.number.cmp(&right.number);
        let (rows, _) = self.top.finish_in_steps(by_number).await;
        rows.into_iter().map(|(_, row)| row.content)
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::block_on;

    use super::*;
    use crate::Error;

    #[test]
    fn kept_rows_have_few_bytes() {
        let mut rows = NearestRows::new(8, 10_000);
        let mut encoded = 0;
        for i in 0..200_u32 {
            let encode = || {
                encoded += 1;
                Ok(vec![i as u8; 1000])
            };
            assert_eq!(rows.add((i * 37 % 101) as f32, encode), None);
            // Without the maximum, there would be up to 16 rows.
            let kept: usize = rows.top.items().map(EncodedRow::bytes).sum();
            assert_eq!(rows.bytes, kept);
            assert!(kept <= 10_000, "{kept}");
        }
        assert!(encoded < 100, "{encoded} rows were encoded");
        let best: Vec<usize> = (0..200).filter(|i| i * 37 % 101 >= 97).collect();
        assert_eq!(best.len(), 8);
        let mut found: Vec<usize> =
            block_on(rows.finish()).map(|row| row.unwrap()[0].into()).collect();
        found.sort_unstable();
        assert_eq!(found, best);
    }

    #[test]
    fn too_many_bytes_are_refused() {
        let mut rows = NearestRows::new(8, 3000);
        for similarity in [0.1, 0.2, 0.3] {
            assert_eq!(rows.add(similarity, || Ok(vec![0; 1000])), None);
        }
        assert_eq!(rows.add(0.1, || Ok(vec![0; 1000])), Some(4000));
    }

    #[test]
    fn an_error_counts_only_in_the_result() {
        let failure = || Err(Error::invalid("no value"));
        for (similarity, fails) in [(0.1, false), (0.9, true)] {
            let mut rows = NearestRows::new(1, 3000);
            rows.add(similarity, failure);
            rows.add(0.5, || Ok(vec![1]));
            assert_eq!(block_on(rows.finish()).any(|row| row.is_err()), fails);
        }
    }
}
