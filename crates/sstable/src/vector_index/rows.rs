//! Growing arrays whose rows never move. An append allocates at most one chunk and copies no rows,
//! so that it does not stall the core.

/// Bytes of a chunk, or more if a row is longer.
const CHUNK_BYTES: usize = 64 << 10;

/// Rows of equal length.
#[derive(Debug)]
pub struct ChunkedRows<T> {
    width: usize,
    per_chunk: usize,
    chunks: Vec<Vec<T>>,
    count: usize,
}

impl<T: Copy> ChunkedRows<T> {
    /// Makes an empty array of rows with `width` items each.
    pub fn new(width: usize) -> Self {
        let per_chunk = (CHUNK_BYTES / size_of::<T>() / width.max(1)).max(1);
        Self { width, per_chunk, chunks: Vec::new(), count: 0 }
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
        self.chunks.len() * self.per_chunk * self.width * size_of::<T>()
    }

    /// Returns the bytes of the rows.
    pub fn used_bytes(&self) -> usize {
        self.count * self.width * size_of::<T>()
    }

    /// Appends a row, which must have `width` items.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) {
        if self.count == self.chunks.len() * self.per_chunk {
            self.chunks.push(Vec::with_capacity(self.per_chunk * self.width));
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
        let at = (index % self.per_chunk) * self.width;
        let chunk = self.chunks.get(index / self.per_chunk);
        chunk.and_then(|chunk| chunk.get(at..at + self.width)).unwrap_or_default()
    }

    /// Returns a row to change it, or an empty row if `index` is behind the last row.
    #[inline]
    pub(super) fn row_mut(&mut self, index: usize) -> &mut [T] {
        let at = (index % self.per_chunk) * self.width;
        let chunk = self.chunks.get_mut(index / self.per_chunk);
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
