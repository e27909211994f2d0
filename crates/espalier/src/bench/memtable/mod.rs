//! `espalier bench memtable`.

use bytes::Bytes;
use espalier_cql::Value;
use espalier_runtime::{block_on, maybe_yield, random::Generator};

use super::BenchError;
use super::arguments::MemtableArguments;
use super::node::InProcessNode;
use super::watch::{Lap, Watch};

pub fn run(arguments: &MemtableArguments) -> Result<(), BenchError> {
    block_on(measure(arguments))
}

/// As `key` of SimpleQuery.
fn key(number: u64) -> Bytes {
    let mut hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^= hash >> 29;
    Bytes::copy_from_slice(&hash.to_be_bytes())
}

fn show(what: &str, count: u64, lap: Lap) {
    println!(
        "{what:<30} {:>10.0}/s  on the core {:>6.0} ns each, {:>10.0}/s",
        count as f64 / lap.seconds,
        lap.core_seconds * 1e9 / count as f64,
        count as f64 / lap.core_seconds,
    );
}

async fn measure(arguments: &MemtableArguments) -> Result<(), BenchError> {
    let mut node = InProcessNode::open(&arguments.workdir, 16 << 30).await?;
    node.query("CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND durable_writes = false").await?;
    node.query("CREATE TABLE b.t (key blob PRIMARY KEY, col blob)").await?;
    let insert = node.prepare("INSERT INTO b.t (key, col) VALUES (?, ?)")?;
    let select = node.prepare("SELECT * FROM b.t WHERE key = ?")?;
    let count = arguments.partitions;
    let watch = Watch::start();
    let value = Bytes::copy_from_slice(&[0; 8]);
    for number in 0..count {
        node.execute(&insert, &[Value::Bytes(key(number)), Value::Bytes(value.clone())]).await?;
        maybe_yield().await;
    }
    show("INSERT", count, watch.lap());
    let metrics = node.database().metrics();
    println!("{metrics:?}");
    let mut random = Generator::from_seed(1);
    for round in 0..3 {
        let watch = Watch::start();
        let mut hits = 0;
        for _ in 0..arguments.reads {
            let number = random.below(count);
            hits += node.execute(&select, &[Value::Bytes(key(number))]).await? as u64;
            maybe_yield().await;
        }
        show(&format!("SELECT {round}"), arguments.reads, watch.lap());
        if hits != arguments.reads {
            return Err(BenchError::Wrong(format!("{hits} hits")));
        }
    }
    let watch = Watch::start();
    let mut hits = 0;
    for _ in 0..arguments.reads {
        let number = count + random.below(count);
        hits += node.execute(&select, &[Value::Bytes(key(number))]).await?;
        maybe_yield().await;
    }
    show("SELECT absent", arguments.reads, watch.lap());
    if hits != 0 {
        return Err(BenchError::Wrong(format!("{hits} hits")));
    }
    node.close().await
}
