//! The task that makes segments ahead of time and removes those that nobody needs.
//!
//! Bound: segments in use, ready and recyclable together stay within the log's maximum. A full disk is not an end: it
//! tries again after a pause, and until then appends that need a segment fail at once.

use std::{rc::Rc, sync::Arc, time::Duration};

use espalier_runtime::time;

use super::{log::Shared, segment::Segment};

/// Pause after a segment could not be made. Arbitrary; an operator who makes room waits no longer than this.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

pub(super) async fn run(shared: Rc<Shared>) {
    loop {
        remove_obsolete(&shared).await;
        let (is_closing, is_wanted) = {
            let state = shared.state.borrow();
            let room = state.live.len() < shared.configuration.maximum_segments();
            (state.is_closing, state.ready.is_none() && room)
        };
        if is_closing {
            return;
        }
        if is_wanted {
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
    // The oldest first: what is in it is read at a start, and settled only as long as that is known.
    let recycled = {
        let mut state = shared.state.borrow_mut();
        let recycled = state.recyclable.pop_front();
        state.being_recycled = recycled.as_ref().map(|(id, _)| *id);
        state.being_made = Some(id);
        recycled
    };
    let file = recycled.as_ref().map(|(_, path)| path);
    let made = Segment::create(&shared.file_system, &shared.configuration, id, file).await;
    let counters = &shared.counters;
    let mut state = shared.state.borrow_mut();
    (state.being_made, state.being_recycled) = (None, None);
    let success = match made {
        Ok(segment) => {
            let counter = match recycled {
                Some(_) => &counters.segments_recycled,
                None => &counters.segments_created,
            };
            counter.set(counter.get() + 1);
            state.ready = Some(Rc::new(segment));
            state.allocation_failure = None;
            true
        }
        Err(error) => {
            if state.allocation_failure.is_none() {
                tracing::error!(%error, "no segment of the commit log can be made");
            }
            state.allocation_failure = Some(Arc::new(error));
            // It may have its old name still.
            state.obsolete.extend(recycled);
            false
        }
    };
    drop(state);
    // Also after a failure: those who wait learn of it.
    shared.room.notify_all();
    success
}

/// Removes what is not needed, the oldest first. What cannot be removed stays known, and is tried again at the next turn: a start
/// would read its records.
async fn remove_obsolete(shared: &Shared) {
    loop {
        let oldest = shared.state.borrow().obsolete.iter().min().cloned();
        let Some((id, path)) = oldest else { break };
        let removed = shared.file_system.remove_file(&path).await;
        // Not before: until then its records are there.
        let mut state = shared.state.borrow_mut();
        state.obsolete.retain(|(other, _)| *other != id);
        match removed {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(%error, "a segment of the commit log cannot be removed");
                state.unremovable.push((id, path));
            }
            _ => {}
        }
    }
    let mut guard = shared.state.borrow_mut();
    let state = &mut *guard;
    state.obsolete.append(&mut state.unremovable);
}
