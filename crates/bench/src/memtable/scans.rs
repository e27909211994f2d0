//! Measures many entries at a time: all of them in order, and slices of a hundred up and down.

use bytes::Bytes;
use espalier_cql::Value;
use espalier_runtime::{maybe_yield, random::Generator};

use super::block::Data;
use super::tables::{SLICE_ROWS, Table};
use super::verify::RowCheck;
use crate::node::InProcessNode;
use crate::watch::{Round, Watch};
use crate::{BenchError, progress::Step};

/// Rows of a page: the drivers' default.
pub const PAGE_ROWS: i32 = 5000;

/// Number of slices that are prepared at a time.
const SLICES: u64 = 64;

/// Reads all rows by pages and checks that they are exactly the entries, in order. Returns the
/// entries' numbers in that order.
pub async fn scan(
    node: &InProcessNode,
    table: &Table,
    data: &Data,
    step: &mut Step<'_>,
) -> Result<(Round, Vec<u32>), BenchError> {
    let mut round = Round::default();
    let mut check = RowCheck::new(data);
    let mut order = Vec::with_capacity(data.count as usize);
    let mut state: Option<Bytes> = None;
    loop {
        let watch = Watch::start();
        let page = node.page(&table.scan, &[], PAGE_ROWS, state.as_deref()).await?;
        round.add(page.row_count as u64, &watch);
        let rows = check.page(&page.content, |number| order.push(number as u32))?;
        if rows != page.row_count as u64 {
            return Err(BenchError::Wrong(format!("{rows} rows of {} in a page", page.row_count)));
        }
        step.at(order.len() as u64);
        maybe_yield().await;
        match page.paging_state {
            Some(more) => state = Some(more),
            None => break,
        }
    }
    // Rows ascend and each is an entry, so the count shows whether a row is missing.
    if round.operations != data.count {
        let rows = round.operations;
        return Err(BenchError::Wrong(format!("a scan gave {rows} of {} rows", data.count)));
    }
    Ok((round, order))
}

/// Reads slices from random places on. `order` is the order of a scan.
pub async fn slices(
    node: &InProcessNode,
    table: &Table,
    data: &Data,
    order: &[u32],
    count: u64,
    down: bool,
    random: &mut Generator,
    step: &mut Step<'_>,
) -> Result<Round, BenchError> {
    let prepared = match &table.slice_down {
        Some(prepared) if down => prepared,
        _ => &table.slice,
    };
    let mut round = Round::default();
    let mut pages = Vec::new();
    while round.operations < count {
        let some = SLICES.min(count - round.operations);
        let slices: Vec<_> =
            (0..some).map(|_| slice(data, order, random.below(data.count), down)).collect();
        pages.clear();
        let watch = Watch::start();
        for (values, _) in &slices {
            pages.push(node.page(prepared, values, PAGE_ROWS, None).await?);
            maybe_yield().await;
        }
        round.add(some, &watch);
        for (page, (_, expected)) in pages.iter().zip(&slices) {
            if page.content != *expected {
                let rows = page.row_count;
                return Err(BenchError::Wrong(format!("a slice has {rows} rows that are others")));
            }
        }
        step.at(round.operations);
    }
    Ok(round)
}

/// Returns the values of a slice that begins at a random place, and the rows that it must return.
fn slice(data: &Data, order: &[u32], start: u64, down: bool) -> (Vec<Value>, Vec<u8>) {
    let numbers: Vec<u64> = if data.population.has_rows() {
        let partition = |number: u64| data.population.partition_of(number);
        let near = |number: &u64| *number < data.count && partition(*number) == partition(start);
        if !down {
            (start..).take(SLICE_ROWS).take_while(near).collect()
        } else {
            (0..=start).rev().take(SLICE_ROWS).take_while(near).collect()
        }
    } else {
        let behind = order.iter().skip(start as usize + 1).take(SLICE_ROWS);
        behind.map(|number| u64::from(*number)).collect()
    };
    let values = if data.population.has_rows() {
        data.block([start], false).reads().flat_map(|(values, _)| values.to_vec()).collect()
    } else {
        let bound = order.get(start as usize).map_or(0, |number| u64::from(*number));
        let token = data.population.token(bound, data.count);
        vec![Value::Bytes(Bytes::copy_from_slice(&token.0.to_be_bytes()))]
    };
    let mut rows = Vec::new();
    for number in numbers {
        data.put_row(number, false, &mut rows, |_| {});
    }
    (values, rows)
}
