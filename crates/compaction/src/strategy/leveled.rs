//! LeveledCompactionStrategy keeps levels: no two files of a level above 0 overlap, and each level
//! may have `fanout_size` times the bytes of the one below.

use super::{
    CompactionCandidates, PickedCompaction, SSTableInfo, Split, depth_of, garbage::MAX_PICKS,
    options::Options, overlaps::Amounts, size_tiered::SizeTiered,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leveled {
    tiers: SizeTiered,
    file_bytes: u64,
    fanout: u64,
}

/// Number of levels, as in Cassandra.
pub(super) const LEVELS: usize = 9;
/// Maximum number of files of level 0 that move to level 1 at once, as in Cassandra. If there are
/// more, a size-tiered compaction within level 0 is tried first. Garbage compactions have no limit.
const MAX_LEVEL_0: usize = 32;

impl Leveled {
    pub(super) fn read(options: &mut Options<'_>) -> Result<Self, String> {
        let mebibytes = options.int("sstable_size_in_mb", 160)?;
        if mebibytes < 1 {
            return Err(format!("sstable_size_in_mb must be larger than 0, but was {mebibytes}"));
        }
        let fanout = options.int("fanout_size", 10)?;
        if fanout < 1 {
            return Err(format!("fanout_size must be larger than 0, but was {fanout}"));
        }
        options.ignore(&["single_sstable_uplevel"]);
        let tiers = SizeTiered::read(options)?;
        let file_bytes = mebibytes.unsigned_abs().saturating_mul(1 << 20);
        Ok(Self { tiers, file_bytes, fanout: fanout.unsigned_abs() })
    }

    pub(super) fn split(&self) -> Split {
        Split::Bytes(self.file_bytes)
    }

    fn maximum_bytes(&self, level: usize) -> u64 {
        let mut bytes = self.file_bytes.saturating_mul(self.fanout);
        for _ in 1..level {
            bytes = bytes.saturating_mul(self.fanout);
        }
        bytes
    }

    pub(super) fn picks(&self, candidates: &CompactionCandidates<'_>) -> Vec<PickedCompaction> {
        let levels = levels(candidates);
        let mut picks = Vec::new();
        if levels.of[0].len() > MAX_LEVEL_0 {
            let tiers = self.tiers.pick_among(candidates.idle, &levels.of[0]);
            picks.extend(tiers.into_iter().take(1).map(PickedCompaction::into_one));
        }
        for level in (1..LEVELS - 1).rev() {
            if levels.bytes[level] > self.maximum_bytes(level) {
                picks.extend(self.upwards(candidates, &levels, level));
            }
        }
        picks.extend(self.out_of_level_0(candidates, &levels));
        picks
    }

    /// Picks one file of a level with the files that it overlaps in the next one: the file that
    /// overlaps the fewest bytes relative to its size, because it is the cheapest.
    fn upwards(
        &self,
        candidates: &CompactionCandidates<'_>,
        levels: &Levels,
        level: usize,
    ) -> Option<PickedCompaction> {
        let next = u32::try_from(level + 1).unwrap_or(u32::MAX);
        let candidates = levels.of[level].iter().filter_map(|index| {
            let file = &candidates.idle[*index];
            let met = met_in(candidates, levels, level + 1, (file.first_token, file.last_token))?;
            let bytes: u64 = met.iter().map(|index| candidates.idle[*index].bytes).sum();
            let files: Vec<usize> = std::iter::once(*index).chain(met).collect();
            Some((bytes as f64 / file.bytes.max(1) as f64, files))
        });
        let cheapest = candidates.min_by(|(left, _), (right, _)| left.total_cmp(right));
        cheapest.map(|(_, files)| PickedCompaction::new(files, next, self.split()))
    }

    fn out_of_level_0(
        &self,
        candidates: &CompactionCandidates<'_>,
        levels: &Levels,
    ) -> Option<PickedCompaction> {
        // Only one such compaction runs at a time, so that files of level 1 cannot overlap.
        let mut files = levels.of[0].clone();
        if files.len() < self.tiers.thresholds.minimum || levels.is_level_0_busy {
            return None;
        }
        files.sort_by_key(|index| {
            (candidates.idle[*index].maximum_timestamp, candidates.idle[*index].number)
        });
        files.truncate(MAX_LEVEL_0);
        let bytes: u64 = files.iter().map(|index| candidates.idle[*index].bytes).sum();
        if bytes <= self.file_bytes {
            return Some(PickedCompaction::into_one(files));
        }
        files.extend(met_in(candidates, levels, 1, candidates.span_of(&files)?)?);
        Some(PickedCompaction::new(files, 1, self.split()))
    }

    /// Picks garbage files that cover data in deeper levels or in level 0, so that deletions and
    /// covered data can be purged. A file moves to the next level with the files that it overlaps
    /// there. All files of level 0 move together. So the deletions reach the data that they cover.
    ///
    /// `older` holds for each idle file the amounts of the files that it may cover. `is_worth`
    /// receives the amounts of all files of a pick together, and the index of its garbage file.
    pub(super) fn downwards(
        &self,
        candidates: &CompactionCandidates<'_>,
        garbage: &[usize],
        older: &[Amounts],
        is_worth: impl Fn(Amounts, usize) -> bool,
    ) -> Vec<PickedCompaction> {
        let levels = levels(candidates);
        let mut is_garbage = vec![false; candidates.idle.len()];
        garbage.iter().for_each(|index| is_garbage[*index] = true);
        let garbage_of = |level: usize| {
            levels.of[level].iter().copied().filter(|index: &usize| is_garbage[*index])
        };
        let of_all = |files: &[usize]| {
            files.iter().map(|index| Amounts::of(&candidates.idle[*index], true)).sum::<Amounts>()
        };
        let pick = |files, index, level: usize| {
            let next = u32::try_from(level + 1).unwrap_or(u32::MAX);
            PickedCompaction {
                garbage: Some(index),
                ..PickedCompaction::new(files, next, self.split())
            }
        };
        let mut picks = Vec::new();
        // All files of level 0 move together, because they overlap.
        if let Some(files) = all_of_level_0(candidates, &levels) {
            let all = of_all(&files);
            let covers_some = |index: &usize| older[*index].files > older[*index].taken;
            let for_whom = garbage_of(0).find(|index| covers_some(index) && is_worth(all, *index));
            picks.extend(for_whom.map(|index| pick(files, index, 0)));
        }
        for level in 1..LEVELS - 1 {
            for index in
                garbage_of(level).filter(|index| covers_deeper(candidates, &levels, level, *index))
            {
                if picks.len() == MAX_PICKS {
                    return picks;
                }
                let range = (candidates.idle[index].first_token, candidates.idle[index].last_token);
                let Some(met) = met_in(candidates, &levels, level + 1, range) else { continue };
                let files: Vec<usize> = std::iter::once(index).chain(met).collect();
                if is_worth(of_all(&files), index) {
                    picks.push(pick(files, index, level));
                }
            }
        }
        picks
    }

    /// Returns the score: the maximum number of files of level 0 over one token, minus the largest
    /// number of files that is too few for a compaction. Each other level has at most one file over
    /// a token.
    pub(super) fn score(&self, candidates: &CompactionCandidates<'_>) -> usize {
        let files: Vec<&SSTableInfo> = candidates.all().collect();
        let of_level_0 = levels_of(&files).filter(|(_, level)| *level == 0);
        depth_of(of_level_0.map(|(index, _)| files[index]))
            .saturating_sub(self.tiers.thresholds.minimum - 1)
    }

    /// Returns the sum of the fill factors of the levels above 0, without the last level. A fill
    /// factor is a level's bytes divided by its maximum, rounded down.
    pub(super) fn level_score(&self, candidates: &CompactionCandidates<'_>) -> usize {
        let levels = levels(candidates);
        let times = (1..LEVELS - 1).map(|level| levels.bytes[level] / self.maximum_bytes(level));
        usize::try_from(times.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Picks a compaction of these files. If they are all files of the table, the output goes to
    /// the lowest level above 0 whose maximum holds it. Otherwise the output stays in the level of
    /// the files, if they share one and no other file of this level lies between them; else it goes
    /// to level 0.
    pub(super) fn one_run(
        &self,
        candidates: &CompactionCandidates<'_>,
        files: Vec<usize>,
    ) -> PickedCompaction {
        if files.len() < candidates.idle.len() + candidates.busy.len() {
            let level = self.level_of_all(candidates, &files).unwrap_or(0);
            return PickedCompaction::new(files, u32::try_from(level).unwrap_or(0), self.split());
        }
        let bytes: u64 = files.iter().map(|index| candidates.idle[*index].bytes).sum();
        let level = (1..LEVELS - 1).find(|level| bytes <= self.maximum_bytes(*level));
        let level = u32::try_from(level.unwrap_or(LEVELS - 1)).unwrap_or(0);
        PickedCompaction::new(files, level, self.split())
    }

    /// Returns the level above 0 that all the files are in, if no other file of that level lies
    /// between the first and the last one.
    fn level_of_all(
        &self,
        candidates: &CompactionCandidates<'_>,
        files: &[usize],
    ) -> Option<usize> {
        let levels = levels(candidates);
        let of_all = |of_level: &Vec<usize>| files.iter().all(|index| of_level.contains(index));
        let level = (1..LEVELS).find(|level| of_all(&levels.of[*level]))?;
        let met = met_in(candidates, &levels, level, candidates.span_of(files)?)?;
        (met.len() == files.len()).then_some(level)
    }
}

/// Returns the files of level 0 with the files that they overlap in the next level. Returns `None`
/// if a file of level 0, or an overlapping file of level 1, is being compacted, because no older
/// file that overlaps the moved files may remain.
fn all_of_level_0(candidates: &CompactionCandidates<'_>, levels: &Levels) -> Option<Vec<usize>> {
    if levels.is_level_0_busy {
        return None;
    }
    let mut files = levels.of[0].clone();
    files.extend(met_in(candidates, levels, 1, candidates.span_of(&files)?)?);
    Some(files)
}

/// Returns whether a file of a level may cover data in deeper ones.
fn covers_deeper(
    candidates: &CompactionCandidates<'_>,
    levels: &Levels,
    level: usize,
    index: usize,
) -> bool {
    let file = &candidates.idle[index];
    let range = (file.first_token, file.last_token);
    let mut met =
        levels.of[level + 1..].iter().flat_map(|of_level| meeting(candidates, of_level, range));
    met.any(|other| candidates.idle[other].may_be_covered_by(file))
}

/// Returns the files of a level that overlap a token range. The level's files are sorted and
/// disjoint.
fn meeting<'a>(
    candidates: &'a CompactionCandidates<'_>,
    of_level: &'a [usize],
    range: (i64, i64),
) -> impl Iterator<Item = usize> + 'a {
    let first = of_level.partition_point(|index| candidates.idle[*index].last_token < range.0);
    let behind = of_level[first..].iter().copied();
    behind.take_while(move |index| candidates.idle[*index].first_token <= range.1)
}

struct Levels {
    /// Indices of the idle files of each level.
    of: Vec<Vec<usize>>,
    /// Bytes of all files of each level.
    bytes: Vec<u64>,
    /// True if a file that counts as level 0 is being compacted.
    is_level_0_busy: bool,
}

/// Returns the indices of the files in the order of the ring, each with its effective level: 0 if
/// the file overlaps an earlier file of its level, because another node or tool wrote it.
fn levels_of(files: &[&SSTableInfo]) -> impl Iterator<Item = (usize, usize)> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|index| (files[*index].first_token, files[*index].number));
    let mut ends: Vec<Option<i64>> = vec![None; LEVELS];
    order.into_iter().map(move |index| {
        let file = files[index];
        let level = level_of(file);
        if level > 0 && ends[level].is_some_and(|end| end >= file.first_token) {
            return (index, 0);
        }
        ends[level] = ends[level].max(Some(file.last_token));
        (index, level)
    })
}

fn level_of(file: &SSTableInfo) -> usize {
    (file.level as usize).min(LEVELS - 1)
}

/// Groups the idle files by level, each level in the order of the ring. Busy files take part, so
/// that a file keeps its effective level while it, or another one, is being compacted.
fn levels(candidates: &CompactionCandidates<'_>) -> Levels {
    let files: Vec<&SSTableInfo> = candidates.idle.iter().chain(candidates.busy).collect();
    let mut levels =
        Levels { of: vec![Vec::new(); LEVELS], bytes: vec![0; LEVELS], is_level_0_busy: false };
    for (index, level) in levels_of(&files) {
        levels.bytes[level] += files[index].bytes;
        if index < candidates.idle.len() {
            levels.of[level].push(index)
        } else {
            levels.is_level_0_busy |= level == 0
        }
    }
    levels
}

/// Returns the idle files of a level that overlap a token range. Returns `None` if an overlapping
/// file is being compacted, or a compaction is about to write one there.
fn met_in(
    candidates: &CompactionCandidates<'_>,
    levels: &Levels,
    level: usize,
    range: (i64, i64),
) -> Option<Vec<usize>> {
    let meets = |file: &SSTableInfo| file.first_token <= range.1 && range.0 <= file.last_token;
    let is_near = |file: &SSTableInfo| {
        let at = file.level as usize;
        at == level || at + 1 == level
    };
    if candidates.busy.iter().any(|file| is_near(file) && meets(file)) {
        return None;
    }
    Some(meeting(candidates, levels.of.get(level)?, range).collect())
}
