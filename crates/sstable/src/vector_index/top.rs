//! Keeps the most similar items of a search.

use std::cmp::Ordering;

use espalier_runtime::maybe_yield;

/// Maximum number of items that [`Top::finish_in_steps`] sorts between two chances to yield
/// (arbitrary).
const SORTED_AT_ONCE: usize = 4096;

/// Keeps the items with the greatest similarities. Memory: twice as many items as it returns.
#[derive(Debug)]
pub struct Top<T> {
    most: usize,
    kept: Vec<(f32, T)>,
    /// Items below this similarity are not among the greatest.
    threshold: f32,
    is_cut: bool,
}

impl<T> Top<T> {
    /// Makes an empty collection that returns at most `most` items.
    pub fn new(most: usize) -> Self {
        Self { most, kept: Vec::new(), threshold: f32::NEG_INFINITY, is_cut: false }
    }

    /// Adds an item. Drops it if its similarity is NaN.
    #[inline]
    pub fn push(&mut self, similarity: f32, item: T) {
        self.push_with(similarity, || item);
    }

    /// Adds an item, which `make` makes unless it is dropped at once. Returns whether kept items
    /// were dropped.
    #[inline]
    pub fn push_with(&mut self, similarity: f32, make: impl FnOnce() -> T) -> bool {
        if similarity.is_nan() {
            return false;
        }
        if similarity < self.threshold || self.most == 0 {
            self.is_cut = true;
            return false;
        }
        self.kept.push((similarity, make()));
        self.kept.len() >= self.most * 2 && self.shrink()
    }

    /// Drops the items that will not be returned. Returns whether it dropped any.
    pub fn shrink(&mut self) -> bool {
        let is_longer = self.kept.len() > self.most && self.most > 0;
        if is_longer {
            let order = |left: &(f32, T), right: &(f32, T)| right.0.total_cmp(&left.0);
            let (_, last, _) = self.kept.select_nth_unstable_by(self.most - 1, order);
            self.threshold = last.0;
            self.kept.truncate(self.most);
            self.is_cut = true;
        }
        is_longer
    }

    /// Returns the items that are kept, in any order.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().map(|(_, item)| item)
    }

    /// Records that the search left out items. [`Self::finish`] assumes that none of them is
    /// greater than a returned item.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Returns the least similarity among the items to return, if the collection is full.
    pub fn least_of_full(&mut self) -> Option<f32> {
        self.shrink();
        let least = self.kept.iter().map(|(similarity, _)| *similarity).reduce(f32::min);
        least.filter(|_| self.kept.len() >= self.most)
    }

    /// Returns the items by descending similarity, and equal ones in the order of `order`. Also
    /// returns the greatest possible similarity of a dropped item; `None` if none was dropped.
    ///
    /// Sorts all items at once. Use [`Self::finish_in_steps`] if they may be many.
    pub fn finish(mut self, order: impl Fn(&T, &T) -> Ordering) -> (Vec<(f32, T)>, Option<f32>) {
        let bound = self.shrink_to_bound();
        self.kept.sort_unstable_by(descending(order));
        (self.kept, bound)
    }

    /// Returns what [`Self::finish`] returns, and yields meanwhile.
    pub async fn finish_in_steps(
        mut self,
        order: impl Fn(&T, &T) -> Ordering,
    ) -> (Vec<(f32, T)>, Option<f32>) {
        let bound = self.shrink_to_bound();
        maybe_yield().await;
        sort_in_steps(&mut self.kept, descending(order)).await;
        (self.kept, bound)
    }

    /// Drops the items that will not be returned. Returns the greatest possible similarity of a
    /// dropped item.
    fn shrink_to_bound(&mut self) -> Option<f32> {
        self.shrink();
        let least = self.kept.iter().map(|(similarity, _)| *similarity).reduce(f32::min);
        self.is_cut.then(|| least.unwrap_or(f32::INFINITY))
    }
}

/// Returns the order by descending similarity. Equal similarities have the order of `order`.
fn descending<T>(order: impl Fn(&T, &T) -> Ordering) -> impl Fn(&(f32, T), &(f32, T)) -> Ordering {
    move |left, right| right.0.total_cmp(&left.0).then_with(|| order(&left.1, &right.1))
}

/// Sorts items, and yields meanwhile: splits them into lesser and greater halves until a part is
/// short. Equal items come in any order.
async fn sort_in_steps<T>(items: &mut [T], order: impl Fn(&T, &T) -> Ordering) {
    let mut parts = vec![items];
    while let Some(part) = parts.pop() {
        if part.len() > SORTED_AT_ONCE {
            let middle = part.len() / 2;
            let (lesser, _, greater) = part.select_nth_unstable_by(middle, &order);
            parts.extend([lesser, greater]);
        } else {
            part.sort_unstable_by(&order);
        }
        maybe_yield().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use espalier_runtime::{block_on, preempt::force_every_yield};

    use super::*;

    #[test]
    fn a_sort_of_many_items_yields() {
        const COUNT: u32 = 10 * SORTED_AT_ONCE as u32;
        let top = || {
            let mut top = Top::new(COUNT as usize);
            // Each similarity occurs several times.
            (0..COUNT).for_each(|i| top.push((i * 37 % 10_007) as f32, i));
            top
        };
        let mut yields = 0;
        let found = block_on(async {
            let mut sort = pin!(top().finish_in_steps(u32::cmp));
            force_every_yield(true);
            let found = poll_fn(|context| {
                let poll = sort.as_mut().poll(context);
                yields += u32::from(poll.is_pending());
                poll
            });
            let found = found.await;
            force_every_yield(false);
            found
        });
        assert_eq!(found, top().finish(u32::cmp));
        assert!(yields >= 10, "{yields}");
    }

    #[test]
    fn the_greatest_are_kept_in_order() {
        for count in [0_u32, 1, 3, 4, 9, 100] {
            let mut top = Top::new(4);
            for i in 0..count {
                top.push((i * 37 % 101) as f32, i);
            }
            top.push(f32::NAN, 7);
            let mut expected: Vec<f32> = (0..count).map(|i| (i * 37 % 101) as f32).collect();
            expected.sort_by(|left, right| right.total_cmp(left));
            let bound = (count > 4).then(|| expected[3]);
            expected.truncate(4);
            let (found, found_bound) = top.finish(u32::cmp);
            assert_eq!(found.iter().map(|(value, _)| *value).collect::<Vec<_>>(), expected);
            assert_eq!(found_bound, bound);
        }
    }
}
