//! Growing arrays whose rows never move. An append allocates at most one chunk and copies no rows,
//! so that it does not stall the core.

/// Maximum bytes of a chunk, or more if a row is longer.
const CHUNK_BYTES: usize = 64 << 10;

/// Rows of equal length.
#[derive(Debug)]
pub struct ChunkedRows<T> {
    width: usize,
    /// The binary logarithm of the number of rows of a chunk. The look-up of a row shifts, because
    /// a division takes longer than the rest of it.
    shift: u32,
    chunks: Vec<Vec<T>>,
    count: usize,
}

impl<T: Copy> ChunkedRows<T> {
    /// Makes an empty array of rows with `width` items each.
    pub fn new(width: usize) -> Self {
        let per_chunk = (CHUNK_BYTES / size_of::<T>() / width.max(1)).max(1);
        Self { width, shift: per_chunk.ilog2(), chunks: Vec::new(), count: 0 }
    }

    fn per_chunk(&self) -> usize {
        1 << self.shift
    }

    /// Returns the chunk of a row, and the row's first item there.
    #[inline]
    fn locate(&self, index: usize) -> (usize, usize) {
        (index >> self.shift, (index & (self.per_chunk() - 1)) * self.width)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes that are allocated.
    pub fn allocated_bytes(&self) -> usize {
        self.chunks.len() * self.per_chunk() * self.width * size_of::<T>()
    }

    /// Returns the bytes of the rows.
    pub fn used_bytes(&self) -> usize {
        self.count * self.width * size_of::<T>()
    }

    /// Appends a row, which must have `width` items.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) {
        if self.count == self.chunks.len() << self.shift {
            self.chunks.push(Vec::with_capacity(self.per_chunk() * self.width));
        }
        if let Some(last) = self.chunks.last_mut() {
            let before = last.len();
            last.extend(row.into_iter().take(self.width));
            debug_assert_eq!(last.len(), before + self.width);
        }
        self.count += 1;
    }

    /// Returns a row, or an empty row if `index` is behind the last row.
    #[inline]
    pub fn row(&self, index: usize) -> &[T] {
        let (chunk, at) = self.locate(index);
        let chunk = self.chunks.get(chunk);
        chunk.and_then(|chunk| chunk.get(at..at + self.width)).unwrap_or_default()
    }

    /// Returns a row to change it, or an empty row if `index` is behind the last row.
    #[inline]
    pub(super) fn row_mut(&mut self, index: usize) -> &mut [T] {
        let (chunk, at) = self.locate(index);
        let chunk = self.chunks.get_mut(chunk);
        chunk.and_then(|chunk| chunk.get_mut(at..at + self.width)).unwrap_or_default()
    }
}

/// Byte strings.
#[derive(Debug)]
pub struct ChunkedBytes {
    chunks: Vec<Vec<u8>>,
    /// The chunk of each string, and its place there.
    strings: ChunkedRows<u32>,
    length: usize,
}

impl Default for ChunkedBytes {
    fn default() -> Self {
        Self { chunks: Vec::new(), strings: ChunkedRows::new(3), length: 0 }
    }
}

impl ChunkedBytes {
    /// Appends a string.
    pub fn push(&mut self, bytes: &[u8]) {
        let last = self.chunks.last();
        if last.is_none_or(|last| last.len() + bytes.len() > CHUNK_BYTES) {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES.max(bytes.len())));
        }
        let number = self.chunks.len().saturating_sub(1) as u32;
        if let Some(last) = self.chunks.last_mut() {
            self.strings.push([number, last.len() as u32, bytes.len() as u32]);
            last.extend_from_slice(bytes);
        }
        self.length += bytes.len();
    }

    /// Returns a string.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let [chunk, from, length] = self.strings.row(index).try_into().ok()?;
        let (from, length) = (from as usize, length as usize);
        self.chunks.get(chunk as usize)?.get(from..from + length)
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Returns whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// Returns the bytes of all strings.
    pub fn total_length(&self) -> usize {
        self.length
    }

    /// Returns the bytes that are in use.
    pub fn used_bytes(&self) -> usize {
        self.length + self.strings.used_bytes()
    }

    /// Returns the bytes that are allocated.
    pub fn allocated_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(Vec::capacity).sum();
        chunks + self.strings.allocated_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_places_in_all_chunks() {
        for width in [1, 3, 112, CHUNK_BYTES / 4, CHUNK_BYTES / 4 + 1] {
            let mut rows = ChunkedRows::new(width);
            let count = 3 * (1 << rows.shift) + 1;
            (0..count).for_each(|row| rows.push((0..width).map(|item| (row * 7 + item) as u32)));
            assert_eq!((rows.len(), rows.chunks.len()), (count, 4));
            // No chunk was reallocated when it filled up.
            let items: usize = rows.chunks.iter().map(Vec::capacity).sum();
            assert_eq!(rows.allocated_bytes(), items * size_of::<u32>());
            for row in 0..count {
                let wanted = (0..width).map(|item| (row * 7 + item) as u32);
                assert!(rows.row(row).iter().copied().eq(wanted), "{width} {row}");
            }
            assert!(rows.row(count).is_empty() && rows.row(usize::MAX).is_empty());
            rows.row_mut(count - 2).fill(5);
            assert!(rows.row(count - 2).iter().all(|item| *item == 5));
        }
    }
}
