//! SizeTieredCompactionStrategy compacts files of similar size once there are `min_threshold` of
//! them.

use espalier_types::literal::print_double;

use super::{
    CompactionCandidates, PickedCompaction, SSTableInfo,
    options::{INT, Options, Thresholds},
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SizeTiered {
    pub(super) thresholds: Thresholds,
    bucket_low: f64,
    bucket_high: f64,
    /// All files smaller than this count as similar.
    minimum_bytes: u64,
}

impl SizeTiered {
    pub(super) fn read(options: &mut Options<'_>) -> Result<Self, String> {
        let thresholds = Thresholds::read(options)?;
        let bucket_low = options.float("bucket_low", 0.5, "float")?;
        let bucket_high = options.float("bucket_high", 1.5, "float")?;
        if bucket_high <= bucket_low {
            let (high, low) = (print_double(bucket_high), print_double(bucket_low));
            return Err(format!(
                "bucket_high value ({high}) is less than or equal to the bucket_low value ({low})"
            ));
        }
        let minimum_bytes = options.long("min_sstable_size", 50 << 20, INT)?;
        let minimum_bytes = u64::try_from(minimum_bytes)
            .map_err(|_| format!("min_sstable_size must be non negative: {minimum_bytes}"))?;
        Ok(Self { thresholds, bucket_low, bucket_high, minimum_bytes })
    }

    pub(super) fn picks(&self, candidates: &CompactionCandidates<'_>) -> Vec<PickedCompaction> {
        let all: Vec<usize> = (0..candidates.idle.len()).collect();
        let picked = self.pick_among(candidates.idle, &all);
        picked.into_iter().map(PickedCompaction::into_one).collect()
    }

    /// Groups the files in `among` into buckets, and returns the buckets with enough files for a
    /// compaction. The bucket with the most files comes first, because its compaction relieves
    /// reads most. If the numbers are equal, the bucket with the smallest files comes first.
    pub(super) fn pick_among(&self, files: &[SSTableInfo], among: &[usize]) -> Vec<Vec<usize>> {
        let mut full: Vec<(f64, Vec<usize>)> = self
            .buckets(among.iter().map(|index| (&files[*index], *index)))
            .into_iter()
            .filter(|(_, bucket)| bucket.len() >= self.thresholds.minimum)
            .collect();
        full.iter_mut().for_each(|(_, bucket)| bucket.truncate(self.thresholds.maximum));
        full.sort_by(|(left_mean, left), (right_mean, right)| {
            right.len().cmp(&left.len()).then(left_mean.total_cmp(right_mean))
        });
        full.into_iter().map(|(_, bucket)| bucket).collect()
    }

    /// Returns the files that are left to compact. In each bucket the largest files stay, one fewer
    /// than a compaction needs.
    pub(super) fn unsettled<'f>(&self, files: &[&'f SSTableInfo]) -> Vec<&'f SSTableInfo> {
        let buckets = self.buckets(files.iter().map(|file| (*file, *file)));
        let rest = buckets.into_iter().flat_map(|(_, bucket)| {
            let beyond = (bucket.len() + 1).saturating_sub(self.thresholds.minimum);
            bucket.into_iter().take(beyond)
        });
        rest.collect()
    }

    /// Groups files of similar size. Returns the groups' items with the mean size in bytes,
    /// smallest first.
    fn buckets<'f, T>(
        &self,
        files: impl Iterator<Item = (&'f SSTableInfo, T)>,
    ) -> Vec<(f64, Vec<T>)> {
        let mut by_size: Vec<(&SSTableInfo, T)> = files.collect();
        by_size.sort_by_key(|(file, _)| (file.bytes, file.number));
        let mut buckets: Vec<(f64, Vec<T>)> = Vec::new();
        let minimum = self.minimum_bytes as f64;
        for (file, index) in by_size {
            let bytes = file.bytes as f64;
            let fits = |mean: f64| {
                (bytes > mean * self.bucket_low && bytes < mean * self.bucket_high)
                    || (bytes < minimum && mean < minimum)
            };
            match buckets.iter_mut().find(|(mean, _)| fits(*mean)) {
                Some((mean, bucket)) => {
                    let count = bucket.len() as f64;
                    *mean = (*mean * count + bytes) / (count + 1.0);
                    bucket.push(index);
                }
                None => buckets.push((bytes, vec![index])),
            }
        }
        buckets
    }
}
