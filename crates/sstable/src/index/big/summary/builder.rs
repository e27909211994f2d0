//! Makes a Summary.db while Index.db is written, or from an Index.db.
//!
//! A sample is taken every so many entries, as Cassandra does it, or wherever there is room for one by a ratio of bytes of
//! samples to bytes of Data.db, as ScyllaDB does it (`sstable_summary_ratio`).
//!
//! Memory: what the file will have: a key and 12 bytes for every sample.

use super::layout::{
    FULL_SAMPLING, HEAD_BYTES, Head, MAXIMUM_SAMPLES_BYTES, PLACE_BYTES, POSITION_BYTES,
};

/// Samples entries.
#[derive(Clone, Debug)]
pub struct SummaryBuilder {
    min_index_interval: u32,
    /// Of bytes of samples to bytes of data, and from which position in Data.db on the next sample may be taken.
    ratio: Option<(f64, f64)>,
    entries: u64,
    /// Where in `samples` each begins.
    places: Vec<u32>,
    samples: Vec<u8>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

impl SummaryBuilder {
    /// For an empty index; every `min_index_interval`-th entry becomes a sample, the first one among them.
    pub fn new(min_index_interval: u32) -> Self {
        Self {
            min_index_interval: min_index_interval.max(1),
            ratio: None,
            entries: 0,
            places: Vec::new(),
            samples: Vec::new(),
            first_key: Vec::new(),
            last_key: Vec::new(),
        }
    }

    /// The same with samples by a ratio of their bytes to those of Data.db, which is above 0; the interval is only noted.
    pub fn with_ratio(min_index_interval: u32, ratio: f64) -> Self {
        Self { ratio: Some((ratio, 0.0)), ..Self::new(min_index_interval) }
    }

    /// Adds the next entry of Index.db, which begins at `position` and is not sampled by its place in Data.db.
    pub fn add(&mut self, key: &[u8], position: u64) {
        self.add_at(key, position, 0);
    }

    /// Adds the next entry of Index.db, which begins at `position` and leads to `data_position`. Once there are samples of 2 GiB, which is all that the
    /// format holds, no more are taken: entries behind them are found by reading on from the last one.
    pub fn add_at(&mut self, key: &[u8], position: u64, data_position: u64) {
        if self.entries == 0 {
            self.first_key.extend_from_slice(key);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let is_sample = match &mut self.ratio {
            None => self.entries.is_multiple_of(u64::from(self.min_index_interval)),
            Some((ratio, next)) => {
                let has_room = self.entries == 0 || data_position as f64 >= *next;
                if has_room {
                    let bytes = key.len() + PLACE_BYTES + POSITION_BYTES;
                    *next = data_position as f64 + bytes as f64 / *ratio;
                }
                has_room
            }
        };
        self.entries += 1;
        let places = (self.places.len() + 1) * PLACE_BYTES;
        let length = places + self.samples.len() + key.len() + POSITION_BYTES;
        if is_sample && length <= MAXIMUM_SAMPLES_BYTES {
            self.places.push(self.samples.len() as u32);
            self.samples.extend_from_slice(key);
            self.samples.extend_from_slice(&position.to_le_bytes());
        }
    }

    /// Entries so far.
    pub fn entry_count(&self) -> u64 {
        self.entries
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.first_key.capacity() + self.last_key.capacity();
        keys + self.samples.capacity() + self.places.capacity() * PLACE_BYTES
    }

    /// The bytes of Summary.db.
    pub fn finish(self) -> Vec<u8> {
        let places_length = self.places.len() * PLACE_BYTES;
        let length = places_length + self.samples.len();
        let keys_length = 4 + self.first_key.len() + 4 + self.last_key.len();
        let mut out = Vec::with_capacity(HEAD_BYTES + length + keys_length);
        let count = self.places.len() as u32;
        let head = Head {
            min_index_interval: self.min_index_interval,
            count,
            length: length as u64,
            sampling_level: FULL_SAMPLING,
            count_at_full_sampling: count,
        };
        head.encode(&mut out);
        for place in &self.places {
            // Fits: `add` sees to it.
            out.extend_from_slice(&(place + places_length as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.samples);
        for key in [&self.first_key, &self.last_key] {
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
        }
        out
    }
}
