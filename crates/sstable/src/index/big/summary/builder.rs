//! This module builds a Summary.db while Index.db is written, or from an existing Index.db.
//!
//! Samples are taken at a fixed interval of entries, as in Cassandra, or by a ratio of the bytes of
//! samples to the bytes of Data.db, as in ScyllaDB (`sstable_summary_ratio`).
//!
//! Memory: the content of the file, which is a key and 12 bytes for every sample.

use super::layout::{
    FULL_SAMPLING, HEAD_BYTES, Head, MAX_SAMPLES_BYTES, PLACE_BYTES, POSITION_BYTES,
};

/// A builder that samples entries of Index.db.
#[derive(Clone, Debug)]
pub struct SummaryBuilder {
    min_index_interval: u32,
    /// Ratio of the bytes of samples to the bytes of Data.db, and the position in Data.db from
    /// which the next sample may be taken.
    ratio: Option<(f64, f64)>,
    entries: u64,
    /// Offset in `samples` at which each sample begins.
    places: Vec<u32>,
    samples: Vec<u8>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

impl SummaryBuilder {
    /// Creates a builder for an empty index. Every `min_index_interval`-th entry becomes a sample,
    /// beginning with the first one.
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

    /// Creates a builder that samples by a ratio of the bytes of samples to the bytes of Data.db.
    /// `ratio` must be above 0; `min_index_interval` is only stored in the file.
    pub fn with_ratio(min_index_interval: u32, ratio: f64) -> Self {
        Self { ratio: Some((ratio, 0.0)), ..Self::new(min_index_interval) }
    }

    /// Adds the next entry of Index.db, which begins at `position`. The entry is sampled by its
    /// number, not by its position in Data.db.
    pub fn add(&mut self, key: &[u8], position: u64) {
        self.add_at(key, position, 0);
    }

    /// Adds the next entry of Index.db, which begins at `position` and leads to `data_position`.
    ///
    /// The format holds 2 GiB of samples. After that, the builder takes no more samples, and a
    /// look-up finds later entries by reading on from the last sample.
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
        if is_sample && length <= MAX_SAMPLES_BYTES {
            self.places.push(self.samples.len() as u32);
            self.samples.extend_from_slice(key);
            self.samples.extend_from_slice(&position.to_le_bytes());
        }
    }

    /// Returns the number of entries added.
    pub fn entry_count(&self) -> u64 {
        self.entries
    }

    /// Returns the bytes of Summary.db.
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
            // The sum fits, because `add_at` limits the length.
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
