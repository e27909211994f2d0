//! Which segments a stopped node has left, where each ends, and what is in them.
//!
//! The end of a segment is what the first marker of its successor says. The last segment of a shard has no successor:
//! its records end where the first one fails, unless a later marker says that what fails had been durable.

use std::{collections::BTreeMap, path::PathBuf};

use bytes::Bytes;
use espalier_runtime::{file::FileSystem, maybe_yield};

use super::{
    LogKind, LogPosition, ReplayPolicy,
    layout::{HEADER_BYTES, SegmentHeader},
    reader::{Opened, Read, SegmentReader},
};
use crate::StorageError;

/// A segment of an earlier run.
#[derive(Clone, Debug)]
pub struct FoundSegment {
    /// Its id.
    pub id: u64,
    /// Its file.
    pub path: PathBuf,
    /// The shard that wrote it.
    pub shard: u32,
    /// How many shards there were.
    pub shard_count: u32,
    /// Where it ends, if its successor says so.
    pub known_end: Option<u32>,
}

/// The segments in a directory.
#[derive(Clone, Debug, Default)]
pub struct FoundSegments {
    /// With records perhaps, in order of id.
    pub segments: Vec<FoundSegment>,
    /// Files that were never in use; they may be removed.
    pub unused: Vec<PathBuf>,
    /// Greatest id seen, also among the unused.
    pub greatest_id: u64,
}

/// Looks for the segments of a log in `directory`. One whose header is damaged is an error, unless `policy` says to go on
/// without it; its file then stays.
pub async fn find_segments(
    file_system: &FileSystem,
    directory: &std::path::Path,
    kind: LogKind,
    policy: ReplayPolicy,
) -> Result<FoundSegments, StorageError> {
    let mut found = FoundSegments::default();
    // Of each shard of each run: (header, path, first marker).
    let mut shards: BTreeMap<(u32, u32), Vec<(SegmentHeader, PathBuf, Option<LogPosition>)>> =
        BTreeMap::new();
    for entry in file_system.read_dir(directory).await? {
        let Some((_, id)) = kind.parse_file_name(&entry.name) else { continue };
        found.greatest_id = found.greatest_id.max(id);
        match SegmentReader::open(file_system, &entry.path, id).await? {
            Opened::Unused => found.unused.push(entry.path),
            Opened::Damaged => {
                let reason = "the header of the segment is damaged, but it has records".to_owned();
                let error = StorageError::CommitLogCorrupt { path: entry.path, offset: 0, reason };
                match policy {
                    ReplayPolicy::Stop => return Err(error),
                    ReplayPolicy::Ignore => tracing::error!(%error, "the segment is left out"),
                }
            }
            Opened::Version(version) => {
                return Err(StorageError::CommitLogCorrupt {
                    path: entry.path,
                    offset: 0,
                    reason: format!("version {version} is not known here"),
                });
            }
            Opened::Segment(header, mut reader) => {
                let marker = reader.first_marker().await?;
                let shard = shards.entry((header.shard_count, header.shard)).or_default();
                shard.push((header, entry.path, marker));
            }
        }
    }
    for segments in shards.values_mut() {
        segments.sort_by_key(|(header, ..)| header.id);
        for (index, (header, path, _)) in segments.iter().enumerate() {
            let successors = segments.iter().skip(index + 1);
            let known_end = successors
                .filter_map(|(_, _, marker)| *marker)
                .find(|durable| durable.segment == header.id)
                .map(|durable| durable.offset);
            found.segments.push(FoundSegment {
                id: header.id,
                path: path.clone(),
                shard: header.shard,
                shard_count: header.shard_count,
                known_end,
            });
        }
    }
    found.segments.sort_by_key(|segment| segment.id);
    Ok(found)
}

/// Gives each record of a segment, with where it begins, to `take`. Returns where the segment ends.
///
/// Damage that loses durable records is an error that names file and offset, unless `policy` says to go on without
/// them. An error of `take` ends it.
pub(crate) async fn read_segment(
    file_system: &FileSystem,
    segment: &FoundSegment,
    policy: ReplayPolicy,
    mut take: impl AsyncFnMut(LogPosition, Bytes) -> Result<(), StorageError>,
) -> Result<u32, StorageError> {
    let Opened::Segment(_, mut reader) =
        SegmentReader::open(file_system, &segment.path, segment.id).await?
    else {
        return Ok(HEADER_BYTES as u32);
    };
    // Records behind the known end were not acknowledged, unless a failing disk came in between under periodic sync:
    // those that are whole are taken.
    loop {
        match reader.next().await? {
            Read::Record { offset, body } => {
                take(LogPosition { segment: segment.id, offset: offset as u32 }, body).await?;
                maybe_yield().await;
            }
            Read::Nothing { offset, reason } => {
                let durable = match segment.known_end {
                    Some(end) => end,
                    None => reader.durable_offset_behind(offset).await?,
                };
                if u64::from(durable) > offset {
                    let error = StorageError::CommitLogCorrupt {
                        path: reader.path().to_owned(),
                        offset,
                        reason: format!("{reason}, but the log was durable up to {durable}"),
                    };
                    match policy {
                        ReplayPolicy::Stop => return Err(error),
                        ReplayPolicy::Ignore => {
                            tracing::error!(%error, "the rest of the segment is left out");
                        }
                    }
                }
                break;
            }
        }
    }
    Ok(reader.offset() as u32)
}
