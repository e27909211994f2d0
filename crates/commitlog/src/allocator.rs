//! The allocator is the task that creates segments ahead of time and removes segments that are not
//! needed any more.
//!
//! Bound: the segments in use, ready and recyclable together stay within the log's maximum. If a
//! segment cannot be created, for example because the disk is full, the allocator retries after a
//! pause. Until it succeeds, appends that need a segment fail at once.

use std::{rc::Rc, sync::Arc, time::Duration};

use espalier_runtime::time;

use super::{segment::Segment, state::Shared};

/// Pause after a failed attempt to create a segment (arbitrary): the longest wait after an operator
/// has freed disk space.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

pub(super) async fn run(shared: Rc<Shared>) {
    loop {
        remove_obsolete(&shared).await;
        let (is_closing, is_queued) = {
            let state = shared.state.borrow();
            let room = state.segments.live.len() < shared.configuration.maximum_segments();
            (state.is_closing, state.segments.ready.is_none() && room)
        };
        if is_closing {
            return;
        }
        if is_queued {
            if make_ready(&shared).await {
                continue;
            }
            time::sleep(RETRY_PAUSE).await;
        } else {
            shared.allocator_work.notified().await;
        }
    }
}

async fn make_ready(shared: &Shared) -> bool {
    let id = shared.next_id();
    // Recycle the oldest segment first. Until a segment is recycled, a restart reads its records,
    // so the log must keep the segment's discarded intervals (`CommitLog::oldest_readable`).
    let recycled = {
        let mut state = shared.state.borrow_mut();
        let recycled = state.segments.recyclable.pop_front();
        state.segments.being_recycled = recycled.as_ref().map(|(id, _)| *id);
        state.segments.being_made = Some(id);
        recycled
    };
    let file = recycled.as_ref().map(|(_, path)| path);
    let made = Segment::create(&shared.file_system, &shared.configuration, id, file).await;
    let counters = &shared.counters;
    let mut state = shared.state.borrow_mut();
    (state.segments.being_made, state.segments.being_recycled) = (None, None);
    let success = match made {
        Ok(segment) => {
            let counter = match recycled {
                Some(_) => &counters.segments_recycled,
                None => &counters.segments_created,
            };
            counter.set(counter.get() + 1);
            state.segments.ready = Some(Rc::new(segment));
            state.allocation_failure = None;
            true
        }
        Err(error) => {
            if state.allocation_failure.is_none() {
                tracing::error!(
                    %error,
                    "commit log: cannot create a segment; writes fail until it succeeds, free disk \
                    space or check the disk"
                );
            }
            state.allocation_failure = Some(Arc::new(error));
            // The recycled file may still have its old name.
            state.segments.obsolete.extend(recycled);
            false
        }
    };
    drop(state);
    // Wake the writers after a failure too, so that they get the error.
    shared.room.notify_all();
    success
}

/// Removes the obsolete segments, oldest first. A segment that cannot be removed stays in the list
/// for the next pass, because a restart would read its records. So does a removed segment until the
/// directory is synced, because a crash may undo the removal.
async fn remove_obsolete(shared: &Shared) {
    loop {
        let oldest = shared.state.borrow().segments.obsolete.iter().min().cloned();
        let Some((id, path)) = oldest else { break };
        let removed = shared.file_system.remove_file(&path).await;
        // Until the file is gone, a restart would read its records, so the segment stays in the
        // list until here.
        let mut state = shared.state.borrow_mut();
        state.segments.obsolete.retain(|(other, _)| *other != id);
        match removed {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(
                    %error,
                    "commit log: cannot remove an obsolete segment; it takes disk space until a \
                    later attempt succeeds"
                );
                state.segments.unremovable.push((id, path));
            }
            _ => state.segments.removed.push(id),
        }
    }
    {
        let segments = &mut shared.state.borrow_mut().segments;
        segments.obsolete.append(&mut segments.unremovable);
        if segments.removed.is_empty() {
            return;
        }
    }
    match shared.file_system.sync_dir(&shared.configuration.directory).await {
        Ok(()) => shared.state.borrow_mut().segments.removed.clear(),
        Err(error) => {
            if shared.log_limit.is_due("commit log: removals not synced") {
                tracing::warn!(
                    %error,
                    "commit log: cannot sync the removal of obsolete segments, keeping their \
                    discarded intervals; check the disk"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::atomic::AtomicU64};

    use espalier_runtime::{
        block_on,
        file::{
            FileSystem, Operation,
            simulated::{Effect, Fault},
        },
    };

    use super::*;
    use crate::{CommitLog, CommitLogConfiguration, CommitLogSync, LogKind, layout::HEADER_BYTES};

    const DIRECTORY: &str = "log";
    /// Segments of an earlier run.
    const OLD: u64 = 100;

    async fn until(mut is_reached: impl AsyncFnMut() -> bool) {
        for _ in 0..6000 {
            if is_reached().await {
                return;
            }
            time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not reached within a minute");
    }

    /// Until then, the discarded intervals of the segment must stay.
    #[test]
    fn a_removed_segment_counts_until_its_removal_is_durable() {
        block_on(async {
            let file_system = FileSystem::simulated(1);
            let disk = file_system.simulated_disk().unwrap().clone();
            let configuration = CommitLogConfiguration {
                directory: DIRECTORY.into(),
                kind: LogKind::Data,
                shard: 0,
                shard_count: 1,
                sync: CommitLogSync::Batch,
                segment_bytes: 16 << 10,
                total_bytes: 1 << 20,
            };
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            let mut adopted = Vec::new();
            for id in 1..=OLD {
                let path = PathBuf::from(DIRECTORY).join(LogKind::Data.file_name(0, id));
                file_system.create(&path).await.unwrap();
                adopted.push((id, path, HEADER_BYTES as u32 + 1));
            }
            let fault = Fault::always(Operation::SyncDirectory, Effect::InputOutput);
            disk.inject(fault.on_path(DIRECTORY));
            let ids = Arc::new(AtomicU64::new(OLD + 1));
            let log = CommitLog::open(configuration, file_system.clone(), ids, adopted.clone());
            log.reclaim(OLD + 1);
            until(async || {
                let files = file_system.read_dir(DIRECTORY).await.unwrap();
                !files.iter().any(|file| adopted.iter().any(|(_, path, _)| *path == file.path))
            })
            .await;
            assert_eq!(log.oldest_readable(), 1);
            disk.clear_faults();
            until(async || log.append(b"record", &[]).is_ok()).await;
            until(async || log.oldest_readable() > OLD).await;
            log.close().await;
        });
    }
}
