//! Starts the threads of the shards and waits for them.

use super::{Peers, ShardContext, ShardIdentity};
use crate::cpu;
use crate::event_loop::EventLoop;
use crate::mailbox::{self, Inbox, ShardStopped};
use std::any::Any;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Bytes of stack of a shard's thread (arbitrary); only touched pages cost memory.
const STACK_BYTES: usize = 8 << 20;

/// Options for the start of shards.
#[derive(Debug, Clone, Default)]
pub struct ShardOptions {
    /// The number of shards; 0 counts as 1.
    pub count: usize,
    /// The processors to which shards are pinned, in turn. `None` leaves the placement to the
    /// kernel.
    pub pin_to: Option<Vec<usize>>,
    /// The time for which a shard without work looks for work before it sleeps. Zero, the default,
    /// is right on shared processors; on a dedicated machine, some tens of microseconds save a
    /// wake-up (5 to 30 µs) for each request.
    pub idle_spin: Duration,
}

/// A shard's `main` panicked.
#[derive(Debug, thiserror::Error)]
#[error("shard {shard} panicked: {message}")]
pub struct ShardPanic {
    /// The index of the shard.
    pub shard: usize,
    /// The panic's message, or a note that it had none.
    pub message: String,
}

/// A handle of the running shards, for the thread that started them.
pub struct Shards<R> {
    peers: Arc<Peers>,
    outcomes: mpsc::Receiver<(usize, thread::Result<R>)>,
    threads: Vec<thread::JoinHandle<()>>,
}

type Ready = mpsc::Sender<io::Result<(usize, Arc<Inbox>)>>;

/// Starts `options.count` shards, each of which runs `main` to its end on a thread and event loop
/// of its own. Returns when all event loops exist.
///
/// # Errors
/// Fails if a thread or an event loop cannot be made, or a thread cannot be pinned.
pub fn start_shards<M, F, R>(options: &ShardOptions, main: M) -> io::Result<Shards<R>>
where
    M: Fn(ShardContext) -> F + Clone + Send + 'static,
    F: Future<Output = R> + 'static,
    R: Send + 'static,
{
    let count = options.count.max(1);
    let (ready, readies) = mpsc::channel();
    let (outcome, outcomes) = mpsc::channel();
    let mut threads = Vec::with_capacity(count);
    let mut starters = Vec::with_capacity(count);
    for index in 0..count {
        let (starter, start) = mpsc::channel::<Arc<Peers>>();
        let (ready, outcome, main) = (ready.clone(), outcome.clone(), main.clone());
        let pin_to = options.pin_to.as_ref().filter(|cpus| !cpus.is_empty());
        let pin_to = pin_to.map(|cpus| cpus[index % cpus.len()]);
        let idle_spin = options.idle_spin;
        let thread = thread::Builder::new()
            .name(format!("shard-{index}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let context = ShardContext { index, count };
                let Some((event_loop, peers)) = prepare(index, pin_to, &ready, &start) else {
                    return;
                };
                event_loop.state().set_idle_spin(idle_spin);
                let result =
                    catch_unwind(AssertUnwindSafe(|| live(event_loop, &peers, || main(context))));
                let _ = outcome.send((index, result));
            })?;
        threads.push(thread);
        starters.push(starter);
    }
    drop(ready);
    let mut inboxes: Vec<Option<Arc<Inbox>>> = vec![None; count];
    for _ in 0..count {
        let (index, inbox) = readies.recv().map_err(|_| io::Error::other("a shard died"))??;
        inboxes[index] = Some(inbox);
    }
    let inboxes = inboxes.into_iter().flatten().collect();
    let peers = Arc::new(Peers { inboxes, running: AtomicUsize::new(count) });
    for starter in starters {
        let _ = starter.send(Arc::clone(&peers));
    }
    Ok(Shards { peers, outcomes, threads })
}

fn prepare(
    index: usize,
    pin_to: Option<usize>,
    ready: &Ready,
    start: &mpsc::Receiver<Arc<Peers>>,
) -> Option<(EventLoop, Arc<Peers>)> {
    let made = pin_to.map_or(Ok(()), cpu::pin_current_thread).and_then(|()| EventLoop::new());
    let event_loop = match made {
        Ok(event_loop) => event_loop,
        Err(error) => {
            let _ = ready.send(Err(error));
            return None;
        }
    };
    let _ = ready.send(Ok((index, Arc::clone(&event_loop.state().inbox))));
    let peers = start.recv().ok()?;
    let identity = ShardIdentity { index, peers: Arc::clone(&peers) };
    let _ = event_loop.state().shard.set(identity);
    Some((event_loop, peers))
}

fn live<F: Future>(event_loop: EventLoop, peers: &Peers, main: impl FnOnce() -> F) -> F::Output {
    // The departure also counts down when `main` panics, so that the other shards can end.
    let mut departure = Some(Departure(peers));
    let all_done = || peers.running.load(Ordering::Acquire) == 0;
    event_loop.run(async move { main().await }, all_done, || drop(departure.take()))
}

struct Departure<'a>(&'a Peers);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            for inbox in &self.0.inboxes {
                inbox.hand_over_one(mailbox::nudge());
            }
        }
    }
}

impl<R> Shards<R> {
    /// Returns the number of shards that were started.
    pub fn count(&self) -> usize {
        self.peers.inboxes.len()
    }

    /// Returns a handle to call the shards from any thread that is inside of [`crate::block_on`].
    pub fn caller(&self) -> ShardCaller {
        ShardCaller { peers: Arc::clone(&self.peers) }
    }

    /// Waits, blocking the thread, until all shards have ended, and returns their outputs in shard
    /// order.
    ///
    /// # Errors
    /// Returns the first panic of a shard at once and leaves the other shards running: the process
    /// is expected to end then.
    pub fn join(self) -> Result<Vec<R>, ShardPanic> {
        let count = self.count();
        let mut outputs: Vec<Option<R>> = (0..count).map(|_| None).collect();
        for _ in 0..count {
            let Ok((shard, outcome)) = self.outcomes.recv() else { break };
            match outcome {
                Ok(output) => outputs[shard] = Some(output),
                Err(panic) => return Err(ShardPanic { shard, message: message_of(&*panic) }),
            }
        }
        for thread in self.threads {
            let _ = thread.join();
        }
        Ok(outputs.into_iter().flatten().collect())
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "a panic without a message".to_owned(),
    }
}

/// A handle that calls shards from threads that are not shards.
#[derive(Clone)]
pub struct ShardCaller {
    peers: Arc<Peers>,
}

impl ShardCaller {
    /// Runs `work` on `shard` and returns its output; a panic of `work` continues in the caller.
    /// The call is sent when the future is first polled. Panics outside of an event loop and if
    /// there is no such shard.
    ///
    /// # Errors
    /// The future fails if the shard ends before it answers.
    pub fn submit_to<R, F, W>(
        &self,
        shard: usize,
        work: W,
    ) -> impl Future<Output = Result<R, ShardStopped>> + use<R, F, W>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
        W: FnOnce() -> F + Send + 'static,
    {
        let Some(inbox) = self.peers.inboxes.get(shard) else {
            panic!("there is no shard {shard} of {}", self.peers.inboxes.len());
        };
        let inbox = Arc::clone(inbox);
        async move { mailbox::call_from_anywhere(&inbox, work).await }
    }
}
