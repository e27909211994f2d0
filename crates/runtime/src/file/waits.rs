//! Counts how long background work waits for the disk, so that it can leave the disk to requests.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    marker::PhantomData,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use crate::time::Instant;

thread_local! {
    /// Running reads of this thread, without those of background work; and all such reads that have
    /// begun.
    static UNDER_WAY: Cell<u64> = const { Cell::new(0) };
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// The counts of the background work that is being polled.
    static CURRENT: RefCell<Option<Rc<DiskWaits>>> = const { RefCell::new(None) };
}

/// The time for which some background work has waited for the disk.
#[derive(Debug, Default)]
pub struct DiskWaits {
    all: Cell<Duration>,
    contended: Cell<Duration>,
}

impl DiskWaits {
    /// Wraps a future as background work, whose waits are counted here.
    pub fn of<F: Future>(self: &Rc<Self>, future: F) -> InBackground<F> {
        InBackground { waits: self.clone(), future: Box::pin(future) }
    }

    /// Returns all waits since the last [`DiskWaits::take_contended`].
    pub fn all(&self) -> Duration {
        self.all.get()
    }

    /// Returns the part of the waits during which other reads waited too, and resets both counts.
    pub fn take_contended(&self) -> Duration {
        self.all.take();
        self.contended.take()
    }
}

/// Background work, made by [`DiskWaits::of`].
#[derive(Debug)]
pub struct InBackground<F> {
    waits: Rc<DiskWaits>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for InBackground<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = CURRENT.replace(Some(self.waits.clone()));
        let _entered = Entered(before);
        self.future.as_mut().poll(context)
    }
}

/// Restores the previously polled work when it is dropped, also after a panic.
struct Entered(Option<Rc<DiskWaits>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// A wait of background work.
struct Wait {
    waits: Rc<DiskWaits>,
    since: Instant,
    begun: u64,
}

impl Wait {
    /// Begins a wait; `None` outside of background work.
    fn begin() -> Option<Self> {
        let waits = CURRENT.with_borrow(Clone::clone)?;
        Some(Self { waits, since: Instant::now(), begun: BEGUN.get() - UNDER_WAY.get() })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let (waits, waited) = (&self.waits, self.since.elapsed());
        waits.all.set(waits.all.get() + waited);
        if BEGUN.get() > self.begun {
            waits.contended.set(waits.contended.get() + waited);
        }
    }
}

/// A read outside of background work, bound to its thread.
struct Read(PhantomData<*const ()>);

impl Read {
    fn begin() -> Self {
        UNDER_WAY.set(UNDER_WAY.get() + 1);
        BEGUN.set(BEGUN.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get() - 1);
    }
}

/// Runs a read of a file and counts it.
pub(super) async fn read<T>(read: impl Future<Output = T>) -> T {
    let _counted = match Wait::begin() {
        Some(wait) => (Some(wait), None),
        None => (None, Some(Read::begin())),
    };
    read.await
}

/// Waits for another operation of the disk. Counted for background work only.
pub async fn wait_for_disk<T>(what: impl Future<Output = T>) -> T {
    let _counted = Wait::begin();
    what.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        block_on, spawn_local,
        time::{ManualClock, sleep},
    };

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_in_the_background_are_contended_beside_reads_of_others() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let waits = Rc::new(DiskWaits::default());
            let work = waits.of(async {
                sleep(MS).await;
                read(sleep(2 * MS)).await;
                wait_for_disk(sleep(3 * MS)).await;
            });
            work.await;
            assert_eq!((waits.all(), waits.take_contended()), (5 * MS, Duration::ZERO));
            assert_eq!(waits.all(), Duration::ZERO);
            // Three waits: a read that began before, one that begins and ends during the wait, and
            // no read.
            let other = spawn_local(async {
                read(sleep(2 * MS)).await;
                sleep(2 * MS).await;
                read(sleep(MS)).await;
                wait_for_disk(sleep(100 * MS)).await;
            });
            let work = waits.of(async {
                sleep(MS).await;
                read(sleep(2 * MS)).await;
                read(sleep(3 * MS)).await;
                read(sleep(4 * MS)).await;
            });
            work.await;
            assert_eq!((waits.all(), waits.take_contended()), (9 * MS, 5 * MS));
            other.await;
            assert_eq!(UNDER_WAY.get(), 0);
        });
    }
}
