//! This module reads Summary.db and searches it.
//!
//! A summary keeps the bytes of the file unchanged. It also keeps the tokens of all samples,
//! because a search compares mostly tokens, and computing a token costs a hash of the key.
//! Invariant: samples increase in key and in position, and places lie inside the file.

use bytes::Bytes;
use espalier_mutation::{KeyBound, Token};

use super::{
    super::{file::IndexFile, partition_index::Entries},
    builder::SummaryBuilder,
    layout::{HEAD_BYTES, Head, PLACE_BYTES, POSITION_BYTES},
};
use crate::{
    error::{FileName, Result, SSTableError},
    input::Input,
};

/// Number of samples after which the reader may yield.
const SAMPLES_AT_ONCE: usize = 256;

/// A summary in memory.
#[derive(Clone, Debug)]
pub struct Summary {
    min_index_interval: u32,
    /// Places and samples, as in the file.
    samples: Bytes,
    tokens: Box<[Token]>,
    first_key: Bytes,
    last_key: Bytes,
}

/// An interval of entries of Index.db between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The sample at its start, with its position in Index.db. `None` before the first sample,
    /// where Index.db begins.
    pub start: Option<(usize, u64)>,
    /// The sample at its end, with its position in Index.db. `None` after the last sample, where
    /// the interval ends with Index.db.
    pub end: Option<(usize, u64)>,
}

impl Summary {
    /// Parses a Summary.db that takes all of `bytes`.
    ///
    /// # Errors
    /// Returns [`SSTableError::Corrupt`] if the bytes are not a valid summary.
    pub async fn read(file: &FileName, bytes: &Bytes) -> Result<Self> {
        let mut input = Input::new(file, bytes, 0);
        let head = read_head(&mut input)?;
        let length = input.checked_count(head.length, 1, "bytes of samples")?;
        let base = input.position();
        let samples = bytes.slice_ref(input.take(length, "samples")?);
        let first_key = read_key(&mut input, bytes, "the first key")?;
        let last_key = read_key(&mut input, bytes, "the last key")?;
        input.expect_end("the summary")?;
        let count = head.count as usize;
        if count == 0 || count > length / (PLACE_BYTES + POSITION_BYTES) {
            let reason = format!("{count} samples cannot be in {length} bytes");
            return Err(SSTableError::corrupt(file, base, reason));
        }
        let mut summary = Self {
            min_index_interval: head.min_index_interval,
            samples,
            tokens: vec![Token::MIN; count].into_boxed_slice(),
            first_key,
            last_key,
        };
        summary.check_samples().await.map_err(|(offset, reason)| {
            SSTableError::corrupt(file, base + offset as u64, reason)
        })?;
        Ok(summary)
    }

    /// Builds the summary of an Index.db by reading all of it.
    ///
    /// # Errors
    /// Fails if Index.db is corrupt, has no entry, or cannot be read.
    pub async fn rebuild<F: IndexFile>(
        file: F,
        data_length: u64,
        min_index_interval: u32,
    ) -> Result<Self> {
        let name = file.name().clone();
        let mut builder = SummaryBuilder::new(min_index_interval);
        let mut entries = Entries::new(file, data_length);
        while let Some(entry) = entries.next().await? {
            builder.add(&entry.key.key, entry.position);
        }
        match builder.entry_count() {
            0 => Err(SSTableError::corrupt(&name, 0, "there is no entry")),
            _ => Self::read(&name, &Bytes::from(builder.finish())).await,
        }
    }

    /// Computes the tokens and checks the samples. Returns the offset and the kind of the first
    /// fault.
    async fn check_samples(&mut self) -> std::result::Result<(), (usize, &'static str)> {
        let count = self.tokens.len();
        if self.place(0) != Some(count * PLACE_BYTES) {
            return Err((0, "the first sample does not follow the places"));
        }
        let mut last: Option<(Token, usize)> = None;
        for index in 0..count {
            if index.is_multiple_of(SAMPLES_AT_ONCE) {
                espalier_runtime::maybe_yield().await;
            }
            let fault = |reason| (index * PLACE_BYTES, reason);
            let sample = self.sample(index).ok_or(fault("a sample's place is wrong"))?;
            if sample.0.len() > usize::from(u16::MAX) {
                return Err(fault("a sample's key is too long"));
            }
            let token = Token::of(sample.0);
            if let Some((last_token, last)) = last {
                let last = self.sample(last).ok_or(fault("a sample's place is wrong"))?;
                if (last_token, last.0) >= (token, sample.0) || last.1 >= sample.1 {
                    return Err(fault("a sample does not come after the previous one"));
                }
            } else if (Token::of(&self.first_key), self.first_key.as_ref()) > (token, sample.0) {
                return Err(fault("the first sample lies before the first key"));
            }
            last = Some((token, index));
            if let Some(place) = self.tokens.get_mut(index) {
                *place = token;
            }
        }
        let last_key = (Token::of(&self.last_key), self.last_key.as_ref());
        match last.and_then(|(token, last)| self.sample(last).map(|sample| (token, sample.0))) {
            Some(last) if last <= last_key => Ok(()),
            _ => Err((0, "the last sample lies after the last key")),
        }
    }

    /// Returns the offset in `samples` at which a sample begins.
    fn place(&self, index: usize) -> Option<usize> {
        let start = index.checked_mul(PLACE_BYTES)?;
        let bytes = self.samples.get(start..)?.first_chunk::<PLACE_BYTES>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    }

    /// Returns the key of a sample and its position in Index.db.
    fn sample(&self, index: usize) -> Option<(&[u8], u64)> {
        if index >= self.tokens.len() {
            return None;
        }
        let start = self.place(index)?;
        let end =
            if index + 1 < self.tokens.len() { self.place(index + 1)? } else { self.samples.len() };
        let (key, position) = self.samples.get(start..end)?.split_last_chunk::<POSITION_BYTES>()?;
        Some((key, u64::from_le_bytes(*position)))
    }

    /// Returns the number of samples, which is at least 1.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns false: a summary has at least one sample.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the token of a sample's key.
    #[inline]
    pub fn token(&self, index: usize) -> Option<Token> {
        self.tokens.get(index).copied()
    }

    /// Returns the key of a sample. It is empty if there is no sample with this number.
    pub fn key(&self, index: usize) -> &[u8] {
        self.sample(index).map_or(&[], |sample| sample.0)
    }

    /// Returns the position in Index.db of a sample's entry, or `None` if there is no sample with
    /// this number.
    pub fn position(&self, index: usize) -> Option<u64> {
        self.sample(index).map(|sample| sample.1)
    }

    /// Returns the key of the first partition according to the file.
    pub fn first_key(&self) -> &Bytes {
        &self.first_key
    }

    /// Returns the key of the last partition according to the file.
    pub fn last_key(&self) -> &Bytes {
        &self.last_key
    }

    /// Returns the number of entries between two samples if no sample was removed. ScyllaDB stores
    /// a number here too, but does not sample by it.
    pub fn min_index_interval(&self) -> u32 {
        self.min_index_interval
    }

    /// Returns the number of bytes of memory that the summary holds.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.first_key.len() + self.last_key.len();
        size_of::<Self>() + self.samples.len() + keys + size_of_val(&*self.tokens)
    }

    /// Returns the interval that contains the entry with this key, if there is such an entry.
    pub fn interval_of(&self, token: Token, key: &[u8]) -> Interval {
        self.interval_behind(self.count_before(token, |sample| sample <= key))
    }

    /// Returns the interval that contains the first entry after a bound, or the interval just
    /// before that entry, if the entry is a sample.
    pub fn interval_of_bound(&self, bound: &KeyBound) -> Interval {
        let count = match bound {
            KeyBound::Unbounded => 0,
            KeyBound::BeforeToken(token) => self.count_before(*token, |_| false),
            KeyBound::AfterToken(token) => self.count_before(*token, |_| true),
            // The interval begins at the sample of the key itself, whether the bound is before or
            // after the key.
            KeyBound::BeforeKey(key) | KeyBound::AfterKey(key) => {
                self.count_before(key.token, |sample| sample <= key.key)
            }
        };
        self.interval_behind(count)
    }

    /// Returns the last interval.
    pub fn last_interval(&self) -> Interval {
        self.interval_behind(self.len())
    }

    /// Returns the number of samples with a lower token, plus the number of samples with this token
    /// for which `is_before` holds.
    fn count_before(&self, token: Token, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let mut low = self.tokens.partition_point(|sample| *sample < token);
        let equal = self.tokens.get(low..).unwrap_or_default();
        let mut high = low + equal.partition_point(|sample| *sample == token);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(self.key(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the interval that begins with sample `count - 1`, or with Index.db if `count` is 0.
    fn interval_behind(&self, count: usize) -> Interval {
        let sample = |index: usize| self.position(index).map(|position| (index, position));
        Interval { start: count.checked_sub(1).and_then(sample), end: sample(count) }
    }
}

fn read_head(input: &mut Input<'_>) -> Result<Head> {
    if input.remaining() < HEAD_BYTES {
        return Err(input.corrupt("the summary is cut short"));
    }
    Ok(Head {
        min_index_interval: input.u32("minimum index interval")?,
        count: input.u32("number of samples")?,
        length: input.u64("length of samples")?,
        sampling_level: input.u32("sampling level")?,
        count_at_full_sampling: input.u32("number of samples at full sampling")?,
    })
}

fn read_key(input: &mut Input<'_>, bytes: &Bytes, what: &str) -> Result<Bytes> {
    let length = input.u32(what)?;
    let length = input.checked_count(u64::from(length), 1, what)?;
    Ok(bytes.slice_ref(input.take(length, what)?))
}
