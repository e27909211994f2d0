//! The state that the shards of a node share: counters with unique values, and the schema
//! snapshot.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use espalier_mutation::schema::{Schema, TableId};
use espalier_runtime::{random, time};
use hashbrown::{HashMap, HashSet};
use uuid::Uuid;

static INSTANCES: AtomicU64 = AtomicU64::new(1);

/// The shared state of one node, given to [`crate::Node::open`] on every shard.
pub struct SharedStorage {
    /// Distinguishes the nodes of one process.
    pub(crate) instance: u64,
    /// The next id of a commit log segment.
    pub(crate) segment_ids: Arc<AtomicU64>,
    /// The schema that all shards have installed or are about to install.
    schema: ArcSwap<Schema>,
    /// The last generation number given to an SSTable of a table. The lock is taken when an SSTable
    /// is begun, not on hot paths.
    generations: Mutex<HashMap<TableId, u64>>,
    host_id: OnceLock<Uuid>,
    /// The lower halves of the time-based ids that the threads of the shards make. They are random
    /// for each thread.
    lower_halves_of_ids: Mutex<HashSet<u64>>,
    /// The time at which this state was created, in µs since 1970.
    started_us: i64,
    /// Names and values of the node's settings, for `system_views.settings`. Only readers and
    /// changes of settings take the lock.
    settings: Mutex<Vec<(String, Option<String>)>>,
    /// Tables dropped since the start.
    dropped: Mutex<HashSet<TableId>>,
}

impl SharedStorage {
    /// Creates the shared state of one node.
    pub fn new() -> Arc<Self> {
        let nothing = Schema::new(BTreeMap::new(), Uuid::nil());
        Arc::new(Self {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            segment_ids: Arc::new(AtomicU64::new(1)),
            schema: ArcSwap::from_pointee(nothing),
            generations: Mutex::default(),
            host_id: OnceLock::new(),
            lower_halves_of_ids: Mutex::default(),
            started_us: time::now_micros(),
            settings: Mutex::default(),
            dropped: Mutex::default(),
        })
    }

    /// Returns the id of this node; nil before the node is open.
    pub fn host_id(&self) -> Uuid {
        self.host_id.get().copied().unwrap_or_default()
    }

    pub(crate) fn set_host_id(&self, id: Uuid) {
        let _ = self.host_id.set(id);
    }

    /// Sets the content of `system_views.settings`: names and values of settings that storage
    /// itself does not know. Only the first call has an effect.
    pub fn set_settings(&self, settings: Vec<(String, Option<String>)>) {
        let mut said = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_empty() {
            *said = settings;
        }
    }

    /// Records the new value of a setting, if there is one of this name.
    pub(crate) fn change_setting(&self, name: &str, value: String) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, old)) = settings.iter_mut().find(|(known, _)| known == name) {
            *old = Some(value);
        }
    }

    pub(crate) fn settings(&self) -> Vec<(String, Option<String>)> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the schema snapshot. Works on any thread.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    pub(crate) fn set_schema(&self, schema: Arc<Schema>) {
        self.schema.store(schema);
    }

    /// Records that the table with this id was dropped.
    pub(crate) fn record_dropped(&self, table: TableId) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).insert(table);
    }

    /// Records that the calling thread makes ids for this node.
    pub(crate) fn record_thread(&self) {
        let mut halves = self.lower_halves_of_ids.lock().unwrap_or_else(PoisonError::into_inner);
        halves.insert(random::clock_sequence_and_node());
    }

    /// Returns whether no table can have had this id before: this process made it since the start,
    /// and its table was not dropped. The time in the id alone does not decide, because the clock
    /// may have been behind at the start.
    pub(crate) fn is_new_id(&self, table: TableId) -> bool {
        let made_us = table.0.get_timestamp().map(|made| {
            let (seconds, nanoseconds) = made.to_unix();
            i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000)
                + i64::from(nanoseconds) / 1000
        });
        let halves = self.lower_halves_of_ids.lock().unwrap_or_else(PoisonError::into_inner);
        halves.contains(&table.0.as_u64_pair().1)
            && made_us.is_some_and(|made| (self.started_us..=time::now_micros()).contains(&made))
            && !self.was_dropped(table)
    }

    /// Returns whether a table with this id was dropped since the start.
    pub(crate) fn was_dropped(&self, table: TableId) -> bool {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).contains(&table)
    }

    /// Returns the next generation number of a table. A file that an operator copied into the
    /// table's directory may have it.
    pub(crate) fn next_generation(&self, table: TableId) -> u64 {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let last = generations.entry(table).or_insert(0);
        *last += 1;
        *last
    }

    /// Records that an SSTable of the table has this number.
    pub(crate) fn record_generation(&self, table: TableId, generation: u64) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let last = generations.entry(table).or_insert(0);
        *last = generation.max(*last);
    }
}
