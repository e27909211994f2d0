//! Turns on rows of `ks.t (k bigint PRIMARY KEY, …)` that a test holds until it releases them.

use std::time::Duration;

use bytes::Bytes;
use espalier_cql::QueryProcessor;
use espalier_mutation::{Clustering, DecoratedKey};
use espalier_runtime::{spawn_local, sync::Event, time};
use espalier_storage::TurnRows;

thread_local! {
    static RELEASED: Event = Event::new();
}

/// Returns the lowest key, `least` or greater, that a shard owns.
pub fn key_of_shard(processor: &QueryProcessor, shard: usize, least: i64) -> i64 {
    let database = processor.database();
    let table = database.store().schema().table("ks", "t").unwrap().clone();
    let mut keys = least..;
    keys.find(|key| database.store().routing().shard_of(&table, &encode(*key)) == shard).unwrap()
}

fn encode(key: i64) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(&key.to_be_bytes()))
}

/// Holds the turn on a row of a shard until [`release`], but for at most 10 minutes.
pub async fn hold(processor: &QueryProcessor, shard: usize, key: i64) {
    let hold = processor.database().on_shard(shard, move |database| async move {
        let table = database.store().schema().table("ks", "t").unwrap().clone();
        let mut rows = TurnRows::new(&table, encode(key).borrowed());
        rows.add_row(&table, &Clustering::empty());
        let turn = database.store().turns().take(rows).await;
        spawn_local(async move {
            let released = RELEASED.with(Event::clone);
            let _ = time::timeout(Duration::from_secs(600), released.wait()).await;
            drop(turn);
        })
        .detach();
    });
    hold.await;
}

/// Releases the turns that are held on a shard. Turns that [`hold`] takes later are released at
/// once.
pub async fn release(processor: &QueryProcessor, shard: usize) {
    processor.database().on_shard(shard, |_| async { RELEASED.with(Event::set) }).await;
}
