//! Reads Summary.db and searches it.
//!
//! The file's bytes are kept as they are, and the tokens of all samples beside them, since a search compares tokens mostly
//! and each would cost a hash of the key. Invariant: samples increase, in key and in position; places are inside.

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

/// Samples between which their reader asks whether it should give way.
const SAMPLES_AT_ONCE: usize = 256;

/// A summary in memory.
#[derive(Clone, Debug)]
pub struct Summary {
    min_index_interval: u32,
    sampling_level: u32,
    /// Places and samples.
    samples: Bytes,
    tokens: Box<[Token]>,
    first_key: Bytes,
    last_key: Bytes,
}

/// Entries of Index.db between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The sample at its start, and its position in Index.db. `None` before the first sample, where Index.db begins.
    pub start: Option<(usize, u64)>,
    /// The sample that ends it. `None` behind the last sample: it ends with Index.db.
    pub end: Option<(usize, u64)>,
}

impl Summary {
    /// Parses a Summary.db that is all of `bytes`.
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
            sampling_level: head.sampling_level,
            samples,
            tokens: vec![Token::MINIMUM; count].into_boxed_slice(),
            first_key,
            last_key,
        };
        summary.check_samples().await.map_err(|(offset, reason)| {
            SSTableError::corrupt(file, base + offset as u64, reason)
        })?;
        Ok(summary)
    }

    /// Makes the summary of an Index.db by reading all of it.
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

    /// Fills in the tokens; gives the place and the kind of the first fault.
    async fn check_samples(&mut self) -> std::result::Result<(), (usize, &'static str)> {
        let count = self.tokens.len();
        if self.place(0) != Some(count * PLACE_BYTES) {
            return Err((0, "the first sample does not stand behind the places"));
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
                    return Err(fault("a sample does not come behind the one before"));
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
            _ => Err((0, "the last sample lies behind the last key")),
        }
    }

    /// Where in `samples` one begins.
    fn place(&self, index: usize) -> Option<usize> {
        let start = index.checked_mul(PLACE_BYTES)?;
        let bytes = self.samples.get(start..)?.first_chunk::<PLACE_BYTES>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    }

    /// Key and position in Index.db.
    fn sample(&self, index: usize) -> Option<(&[u8], u64)> {
        if index >= self.tokens.len() {
            return None;
        }
        let start = self.place(index)?;
        let end = match index + 1 < self.tokens.len() {
            true => self.place(index + 1)?,
            false => self.samples.len(),
        };
        let (key, position) = self.samples.get(start..end)?.split_last_chunk::<POSITION_BYTES>()?;
        Some((key, u64::from_le_bytes(*position)))
    }

    /// Number of samples, at least 1.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Never: a summary has a sample.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Token of a sample's key.
    #[inline]
    pub fn token(&self, index: usize) -> Option<Token> {
        self.tokens.get(index).copied()
    }

    /// The key of a sample; empty if there is none of the number.
    pub fn key(&self, index: usize) -> &[u8] {
        self.sample(index).map_or(&[], |sample| sample.0)
    }

    /// Where a sample's entry begins in Index.db; `None` if there is none of the number.
    pub fn position(&self, index: usize) -> Option<u64> {
        self.sample(index).map(|sample| sample.1)
    }

    /// Key of the first partition, by the file.
    pub fn first_key(&self) -> &Bytes {
        &self.first_key
    }

    /// Key of the last partition, by the file.
    pub fn last_key(&self) -> &Bytes {
        &self.last_key
    }

    /// Entries between two samples when none was taken away; ScyllaDB's files say one and do another.
    pub fn min_index_interval(&self) -> u32 {
        self.min_index_interval
    }

    /// 128 if no sample was taken away.
    pub fn sampling_level(&self) -> u32 {
        self.sampling_level
    }

    /// Bytes that it holds.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.first_key.len() + self.last_key.len();
        size_of::<Self>() + self.samples.len() + keys + size_of_val(&*self.tokens)
    }

    /// Where the entry with this key is, if there is one.
    pub fn interval_of(&self, token: Token, key: &[u8]) -> Interval {
        self.interval_behind(self.count_before(token, |sample| sample <= key))
    }

    /// Where the first entry behind a bound is, or else the next interval begins with it.
    pub fn interval_of_bound(&self, bound: &KeyBound) -> Interval {
        let count = match bound {
            KeyBound::Unbounded => 0,
            KeyBound::BeforeToken(token) => self.count_before(*token, |_| false),
            KeyBound::AfterToken(token) => self.count_before(*token, |_| true),
            // The sample of the key itself is where to begin, on whichever side of it the bound is.
            KeyBound::BeforeKey(key) | KeyBound::AfterKey(key) => {
                self.count_before(key.token, |sample| sample <= key.key)
            }
        };
        self.interval_behind(count)
    }

    /// The last interval.
    pub fn last_interval(&self) -> Interval {
        self.interval_behind(self.len())
    }

    /// Samples with a lower token, and those of the same token for which `is_before` holds.
    fn count_before(&self, token: Token, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let mut low = self.tokens.partition_point(|sample| *sample < token);
        let equal = self.tokens.get(low..).unwrap_or_default();
        let mut high = low + equal.partition_point(|sample| *sample == token);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(self.key(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// From the last of the first `count` samples on.
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
