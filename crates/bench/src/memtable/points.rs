//! Measures one entry at a time: prepared INSERTs of all entries, prepared SELECTs of random
//! entries, present and absent.
//!
//! Blocks are prepared outside the measured time. The cost of the loop itself is measured
//! separately.

use std::hint::black_box;

use espalier_cql::Value;
use espalier_runtime::{maybe_yield, random::Generator};

use super::block::{BLOCK, Data};
use super::tables::Table;
use crate::node::{Found, InProcessNode};
use crate::watch::{Round, Watch};
use crate::{BenchError, progress::Step};

/// Writes all entries.
pub async fn write(
    node: &InProcessNode,
    table: &Table,
    data: &Data,
    step: &mut Step<'_>,
) -> Result<Round, BenchError> {
    let mut round = Round::default();
    for start in (0..data.count).step_by(BLOCK as usize) {
        let indices = start..data.count.min(start + BLOCK);
        let numbers = indices.map(|index| data.population.number_at(index, data.count));
        let block = data.block(numbers, false);
        let watch = Watch::start();
        for values in block.writes() {
            node.write(&table.insert, values).await?;
            maybe_yield().await;
        }
        round.add(block.writes().len() as u64, &watch);
        step.at(start);
    }
    Ok(round)
}

/// Reads `reads` random entries; if `absent`, entries with similar keys that were not written.
pub async fn read(
    node: &InProcessNode,
    table: &Table,
    data: &Data,
    reads: u64,
    absent: bool,
    random: &mut Generator,
    step: &mut Step<'_>,
) -> Result<Round, BenchError> {
    let expected = if absent { Found::Nothing } else { Found::Expected };
    let mut round = Round::default();
    while round.operations < reads {
        let count = BLOCK.min(reads - round.operations);
        let block = data.block((0..count).map(|_| random.below(data.count)), absent);
        let mut right = 0;
        let watch = Watch::start();
        for (values, row) in block.reads() {
            right += u64::from(node.read(&table.select, values, row).await? == expected);
            maybe_yield().await;
        }
        round.add(count, &watch);
        if right != count {
            let wrong = count - right;
            return Err(BenchError::Wrong(format!(
                "{wrong} of {count} reads of {} keys did not give {expected:?}",
                if absent { "absent" } else { "present" }
            )));
        }
        step.at(round.operations);
    }
    Ok(round)
}

/// Runs the loop alone: the time of `read` without the node.
pub async fn idle(data: &Data, reads: u64, random: &mut Generator) -> Round {
    let mut round = Round::default();
    while round.operations < reads {
        let count = BLOCK.min(reads - round.operations);
        let block = data.block((0..count).map(|_| random.below(data.count)), false);
        let mut bytes = 0;
        let watch = Watch::start();
        for (values, row) in block.reads() {
            bytes += look_at(black_box(values)) + usize::from(black_box(row) == b"nothing");
            maybe_yield().await;
        }
        round.add(count, &watch);
        black_box(bytes);
    }
    round
}

fn look_at(values: &[Value]) -> usize {
    match values.first() {
        Some(Value::Bytes(bytes)) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::keys::{KeyShape, Population};
    use crate::memtable::{scans, tables};
    use crate::progress::Progress;
    use espalier_runtime::block_on;

    #[test]
    fn reads_and_scans_detect_data_other_than_expected() {
        let directory = tempfile::tempdir().unwrap();
        block_on(async {
            let node = InProcessNode::open(&directory.path().join("node"), 1 << 30).await.unwrap();
            tables::create_keyspace(&node).await.unwrap();
            let mut progress = Progress::new();
            let mut step = progress.step("test", 1);
            let mut random = Generator::from_seed(1);
            for (at, shape) in [KeyShape::Random, KeyShape::Wide].into_iter().enumerate() {
                let population = Population::Shape { shape, rows: 1000 };
                let name = format!("t{at}");
                let table = Table::create(&node, &name, "trie", population).await.unwrap();
                let data = Data { population, count: 1000, value_bytes: 8 };
                write(&node, &table, &data, &mut step).await.unwrap();
                let right = read(&node, &table, &data, 500, false, &mut random, &mut step).await;
                assert_eq!(right.unwrap().operations, 500);
                assert_eq!(
                    scans::scan(&node, &table, &data, &mut step).await.unwrap().1.len(),
                    1000
                );

                // Other values, more entries than written, and absent keys that are present are all
                // errors.
                let others = Data { value_bytes: 9, ..data };
                let found = read(&node, &table, &others, 500, false, &mut random, &mut step).await;
                let text = found.unwrap_err().to_string();
                assert_eq!(text, "500 of 500 reads of present keys did not give Expected");
                assert!(scans::scan(&node, &table, &others, &mut step).await.is_err());
                let more = Data { count: 1001, ..data };
                let text = scans::scan(&node, &table, &more, &mut step).await.unwrap_err();
                assert_eq!(text.to_string(), "a scan gave 1000 of 1001 rows");
                if shape == KeyShape::Random {
                    let fewer = Data { count: 400, ..data };
                    let found =
                        read(&node, &table, &fewer, 500, true, &mut random, &mut step).await;
                    let text = found.unwrap_err().to_string();
                    assert_eq!(text, "500 of 500 reads of absent keys did not give Nothing");
                }
            }
            node.close().await.unwrap();
        });
    }
}
