//! What the shards of a database share: counters that must not repeat, and the schema snapshot.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use espalier_mutation::schema::{Schema, TableId};
use espalier_runtime::time;
use hashbrown::{HashMap, HashSet};
use uuid::Uuid;

static INSTANCES: AtomicU64 = AtomicU64::new(1);

/// Made once for each database and given to [`crate::Database::open`] on every shard.
pub struct SharedDatabase {
    /// Tells this database from others in the same process.
    pub(crate) instance: u64,
    /// The next id of a commit log segment.
    pub(crate) segment_ids: Arc<AtomicU64>,
    /// The schema that all shards have installed, or are about to.
    schema: ArcSwap<Schema>,
    /// The last generation number given to a file of a table. A lock taken when a file is begun, not on hot paths.
    generations: Mutex<HashMap<TableId, u64>>,
    host_id: OnceLock<Uuid>,
    /// When this was made, in µs since 1970.
    started_us: i64,
    /// Names and values of the node's settings, for `system_views.settings`. A lock for those who look at them or change one.
    settings: Mutex<Vec<(String, Option<String>)>>,
    /// Tables dropped since.
    dropped: Mutex<HashSet<TableId>>,
}

impl SharedDatabase {
    /// What the shards of one database share.
    pub fn new() -> Arc<Self> {
        let nothing = Schema::new(BTreeMap::new(), Uuid::nil());
        Arc::new(Self {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            segment_ids: Arc::new(AtomicU64::new(1)),
            schema: ArcSwap::from_pointee(nothing),
            generations: Mutex::default(),
            host_id: OnceLock::new(),
            started_us: time::now_micros(),
            settings: Mutex::default(),
            dropped: Mutex::default(),
        })
    }

    /// The id of this node; nil before the database is open.
    pub fn host_id(&self) -> Uuid {
        self.host_id.get().copied().unwrap_or_default()
    }

    pub(crate) fn set_host_id(&self, id: Uuid) {
        let _ = self.host_id.set(id);
    }

    /// Says what `system_views.settings` shows: names and values of settings that storage knows nothing of. The first who says it is
    /// believed.
    pub fn set_settings(&self, settings: Vec<(String, Option<String>)>) {
        let mut said = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_empty() {
            *said = settings;
        }
    }

    /// Notes that a setting is another one since now, if there is one of this name.
    pub(crate) fn change_setting(&self, name: &str, value: String) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, old)) = settings.iter_mut().find(|(known, _)| known == name) {
            *old = Some(value);
        }
    }

    pub(crate) fn settings(&self) -> Vec<(String, Option<String>)> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The schema snapshot, from any thread.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    pub(crate) fn set_schema(&self, schema: Arc<Schema>) {
        self.schema.store(schema);
    }

    /// Notes that a table's id was in use.
    pub(crate) fn note_dropped(&self, table: TableId) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).insert(table);
    }

    /// Whether no table can have had this id before: it was made since the process started, and not dropped again.
    pub(crate) fn is_new_id(&self, table: TableId) -> bool {
        let made_us = table.0.get_timestamp().map(|made| {
            let (seconds, nanoseconds) = made.to_unix();
            i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000)
                + i64::from(nanoseconds) / 1000
        });
        made_us.is_some_and(|made| (self.started_us..=time::now_micros()).contains(&made))
            && !self.dropped.lock().unwrap_or_else(PoisonError::into_inner).contains(&table)
    }

    /// A generation number that no file of the table has.
    pub(crate) fn next_generation(&self, table: TableId) -> u64 {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let last = generations.entry(table).or_insert(0);
        *last += 1;
        *last
    }

    /// Notes that a file of the table has this number.
    pub(crate) fn note_generation(&self, table: TableId, generation: u64) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let last = generations.entry(table).or_insert(0);
        *last = generation.max(*last);
    }
}
