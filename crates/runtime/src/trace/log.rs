//! The packed events of a trace: one string holds all texts.

use std::fmt::{self, Write};

use super::{MAX_EVENTS, MAX_TEXT_BYTES};

/// Maximum bytes of one text.
const MAX_EVENT_BYTES: usize = 2048;

/// The events and sums that a trace has recorded.
#[derive(Clone, Debug, Default)]
pub struct TraceLog {
    text: String,
    events: Vec<Entry>,
    left_out: u64,
    counts: Vec<(&'static str, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    elapsed_us: u64,
    shard: usize,
    start: usize,
    end: usize,
}

/// One event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent<'a> {
    /// Microseconds since the trace began.
    pub elapsed_us: u64,
    /// The shard on which the event happened.
    pub shard: usize,
    /// The text of the event.
    pub text: &'a str,
}

impl TraceLog {
    /// Returns the events, sorted by time.
    pub fn events(&self) -> Vec<TraceEvent<'_>> {
        let event = |entry: &Entry| TraceEvent {
            elapsed_us: entry.elapsed_us,
            shard: entry.shard,
            text: self.text.get(entry.start..entry.end).unwrap_or_default(),
        };
        let mut events: Vec<_> = self.events.iter().map(event).collect();
        events.sort_by_key(|event| event.elapsed_us);
        events
    }

    /// Returns the number of events that found no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.events.capacity() * size_of::<Entry>()
    }

    /// Adds an event if the log then takes at most `room` bytes.
    pub(super) fn push(
        &mut self,
        elapsed_us: u64,
        shard: usize,
        text: fmt::Arguments<'_>,
        room: usize,
    ) {
        let start = self.text.len();
        let is_full = self.events.len() >= MAX_EVENTS || start >= MAX_TEXT_BYTES;
        // Growing doubles the capacity.
        if is_full || 2 * self.memory_bytes() + MAX_EVENT_BYTES > room {
            self.left_out += 1;
            return;
        }
        let mut bounded = Bounded { text: &mut self.text, left: MAX_EVENT_BYTES };
        let _ = bounded.write_fmt(text); // an error means that the text was cut
        self.events.push(Entry { elapsed_us, shard, start, end: self.text.len() });
    }

    /// Adds the events of another log; if they do not fit, only counts them.
    pub(super) fn append(&mut self, other: TraceLog, fits: bool) {
        self.left_out += other.left_out;
        other.counts.iter().for_each(|(what, number)| self.count(what, *number));
        let fits = fits
            && self.events.len() + other.events.len() <= MAX_EVENTS
            && self.text.len() + other.text.len() <= MAX_TEXT_BYTES;
        if !fits {
            self.left_out += other.events.len() as u64;
            return;
        }
        let offset = self.text.len();
        self.text.push_str(&other.text);
        let moved =
            |entry: Entry| Entry { start: entry.start + offset, end: entry.end + offset, ..entry };
        self.events.extend(other.events.into_iter().map(moved));
    }

    pub(super) fn count(&mut self, what: &'static str, number: u64) {
        match self.counts.iter_mut().find(|(other, _)| *other == what) {
            Some((_, sum)) => *sum += number,
            None => self.counts.push((what, number)),
        }
    }

    pub(super) fn take_count(&mut self, what: &'static str) -> u64 {
        let found = self.counts.iter_mut().find(|(other, _)| *other == what);
        found.map_or(0, |(_, sum)| std::mem::take(sum))
    }
}

/// Writes at most `left` bytes, and an ellipsis where it cuts the text.
struct Bounded<'a> {
    text: &'a mut String,
    left: usize,
}

impl Write for Bounded<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part.len() <= self.left {
            self.left -= part.len();
            self.text.push_str(part);
            return Ok(());
        }
        // A character of UTF-8 has at most four bytes.
        let cuts = (self.left.saturating_sub(3)..=self.left).rev();
        let kept = cuts.into_iter().find_map(|end| part.get(..end));
        self.text.push_str(kept.unwrap_or_default());
        self.text.push('…');
        self.left = 0;
        Err(fmt::Error)
    }
}
