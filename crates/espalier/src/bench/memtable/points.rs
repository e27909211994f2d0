//! One entry at a time: prepared INSERTs of all of them, prepared SELECTs of random ones, of those that are there and of others.
//!
//! Blocks are made while no watch runs. What the loop itself costs is a measure of its own.

use std::hint::black_box;

use espalier_cql::Value;
use espalier_runtime::{maybe_yield, random::Generator};

use super::block::{BLOCK, Data};
use super::tables::Table;
use crate::bench::node::{Found, InProcessNode};
use crate::bench::watch::{Round, Watch};
use crate::bench::{BenchError, progress::Step};

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

/// Reads `reads` random entries; of others, with keys like theirs, if they are to be `absent`.
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

/// The loop alone: what `read` would cost if the node cost nothing.
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
