//! TimeWindowCompactionStrategy compacts the files of a window of time into one. The open window is
//! size-tiered. The files of a closed window are compacted into one, and dropped when all their
//! data has expired.

use std::collections::BTreeMap;

use super::{
    CompactionCandidates, PickedCompaction, SSTableInfo,
    options::{INT, Options},
    size_tiered::SizeTiered,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeWindow {
    tiers: SizeTiered,
    window_s: u64,
    /// Units of write timestamps per second.
    per_second: i64,
}

impl TimeWindow {
    pub(super) fn read(options: &mut Options<'_>) -> Result<Self, String> {
        let per_second = match options.text("timestamp_resolution").unwrap_or("MICROSECONDS") {
            "MICROSECONDS" => 1_000_000,
            "MILLISECONDS" => 1_000,
            "SECONDS" => 1,
            "NANOSECONDS" => 1_000_000_000,
            other => return Err(format!("{other} is not valid for timestamp_resolution")),
        };
        let unit_s = match options.text("compaction_window_unit").unwrap_or("DAYS") {
            "MINUTES" => 60,
            "HOURS" => 3_600,
            "DAYS" => 86_400,
            other => return Err(format!("{other} is not valid for compaction_window_unit")),
        };
        let size = options.int("compaction_window_size", 1)?;
        if size < 1 {
            return Err(format!("{size} must be greater than 1 for compaction_window_size"));
        }
        let frequency = options.long("expired_sstable_check_frequency_seconds", 600, INT)?;
        if frequency < 0 {
            return Err(format!(
                "expired_sstable_check_frequency_seconds must not be negative, but was {frequency}"
            ));
        }
        // Overlapping files are never ignored, because rows could reappear.
        let expiration = "unsafe_aggressive_sstable_expiration";
        options.flag(expiration, false, |text| {
            format!("{expiration} is not 'true' or 'false' ({text})")
        })?;
        let tiers = SizeTiered::read(options)?;
        let window_s = size.unsigned_abs().saturating_mul(unit_s);
        Ok(Self { tiers, window_s, per_second })
    }

    fn window_of(&self, file: &SSTableInfo) -> i64 {
        let second = file.maximum_timestamp.div_euclid(self.per_second);
        second.div_euclid(i64::try_from(self.window_s).unwrap_or(i64::MAX))
    }

    /// Returns the open window: the current one, or the newest window of `files` if its timestamps
    /// are in the future, or if its youngest file is younger than one window (still being written).
    ///
    /// In Cassandra the newest window is open whatever the clock says, and stays open until a newer
    /// one arrives.
    fn present<'f>(
        &self,
        candidates: &CompactionCandidates<'_>,
        files: impl Iterator<Item = &'f SSTableInfo>,
    ) -> i64 {
        let now = i64::try_from(candidates.now_s / self.window_s).unwrap_or(i64::MAX);
        // The youngest file of the newest window.
        let newest = files.map(|file| (self.window_of(file), std::cmp::Reverse(file.age_s))).max();
        match newest {
            Some((window, std::cmp::Reverse(age_s))) if window > now || age_s < self.window_s => {
                window
            }
            _ => now,
        }
    }

    /// Returns the files that are left to compact. The largest file of each closed window stays,
    /// and so do the files that the tiers leave in the open window.
    pub(super) fn unsettled<'f>(
        &self,
        candidates: &CompactionCandidates<'f>,
    ) -> Vec<&'f SSTableInfo> {
        let mut windows: BTreeMap<i64, Vec<&SSTableInfo>> = BTreeMap::new();
        candidates
            .all()
            .for_each(|file| windows.entry(self.window_of(file)).or_default().push(file));
        let present = self.present(candidates, candidates.all());
        let rest = windows.into_iter().flat_map(|(window, mut files)| {
            if window >= present {
                return self.tiers.unsettled(&files);
            }
            files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
            files.split_off(1)
        });
        rest.collect()
    }

    pub(super) fn picks(&self, candidates: &CompactionCandidates<'_>) -> Vec<PickedCompaction> {
        let mut windows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (index, file) in candidates.idle.iter().enumerate() {
            windows.entry(self.window_of(file)).or_default().push(index);
        }
        let present = self.present(candidates, candidates.idle.iter().chain(candidates.busy));
        let mut picks = Vec::new();
        for (window, mut files) in windows.into_iter().rev() {
            if window >= present {
                let tiers = self.tiers.pick_among(candidates.idle, &files);
                picks.extend(tiers.into_iter().map(PickedCompaction::into_one));
            } else if files.len() >= 2 {
                files.sort_by_key(|index| {
                    (candidates.idle[*index].bytes, candidates.idle[*index].number)
                });
                files.truncate(self.tiers.thresholds.maximum);
                picks.push(PickedCompaction::into_one(files));
            }
        }
        picks
    }
}
