//! A reader beside all other work: one command, in pages, each with limits of its own, through the
//! cache or around it.

use std::{cell::RefCell, rc::Rc};

use espalier_runtime::{preempt, random::Generator};
use espalier_storage::{Node, ReadCommand, ReadLimits};

use super::states::{Page, States};
use crate::{model::forget_liveness, support::*};

/// Maximum pages of a read. Arbitrary: a long partition in pages of some bytes would take most of
/// the time.
pub(super) const MAX_PAGES: usize = 20;

/// Sets limits on rows and bytes, or none; the limit for one partition stays.
pub(super) fn limit(command: &mut ReadCommand, random: &mut Generator) {
    let rows_per_partition = command.limits.rows_per_partition;
    command.limits = ReadLimits { rows_per_partition, ..ReadLimits::NONE };
    if random.below(3) > 0 {
        command.limits.rows = 1 + random.below(6) as usize;
    }
    if random.below(3) == 0 {
        command.limits.bytes = 1 + random.below(300) as usize;
    }
}

/// Reads the pages of a command, some with a limit of tombstones. Some readers also limit the total
/// rows, as `LIMIT` does.
pub(super) async fn walk(
    database: Node,
    states: Rc<RefCell<States>>,
    mut command: ReadCommand,
    seed: u64,
) -> Vec<Page> {
    let mut random = Generator::from_seed(seed);
    let mut left = if random.below(2) == 0 { 1 + random.below(12) as usize } else { usize::MAX };
    let mut pages = Vec::new();
    for _ in 0..MAX_PAGES {
        limit(&mut command, &mut random);
        command.limits.rows = command.limits.rows.min(left);
        command.limits.tombstones = [usize::MAX, usize::MAX, 1, 3, 10][random.below(5) as usize];
        command.bypass_cache = random.below(4) == 0;
        let begin = states.borrow().begin_page();
        let mut result = database.read(command.clone()).await.unwrap();
        forget_liveness(&mut result.partitions);
        left -= result.partitions.iter().map(|found| found.rows.len().max(1)).sum::<usize>();
        let next = result.next.clone();
        let now = table(&database, &command.table.name);
        pages.push(states.borrow().end_page(begin, command.clone(), result, &now));
        match next {
            Some(next) if left > 0 => command.resume = Some(next),
            _ => break,
        }
        for _ in 0..random.below(4) {
            preempt::yield_now().await;
        }
    }
    pages
}
