//! Lists the builds of views that run on a shard, for `system_views.sstable_tasks`.

use espalier_mutation::schema::TableId;
use espalier_runtime::random;
use uuid::Uuid;

use super::state::BuildProgress;
use crate::Node;
use crate::node::ViewBuilds;

/// A part of a view's build that runs on a shard.
#[derive(Clone, Debug)]
pub(in super::super) struct RunningBuild {
    pub(in super::super) id: Uuid,
    pub(in super::super) view: TableId,
    progress: BuildProgress,
}

impl RunningBuild {
    /// Returns the number of base rows that the build has read, and the part of the shard's tokens
    /// that is done.
    pub(in super::super) fn progress(&self) -> (u64, f64) {
        let BuildProgress { tokens: (first, end), last, keys } = self.progress;
        let distance = |token: i64| (i128::from(token) - i128::from(first)).max(0) as f64;
        (keys, (distance(last) / distance(end).max(1.0)).min(1.0))
    }
}

/// Keeps a build in the list until it is dropped.
pub(super) struct ListedBuild<'d> {
    node: &'d Node,
    id: Uuid,
}

impl<'d> ListedBuild<'d> {
    pub(super) fn new(node: &'d Node, view: TableId, progress: BuildProgress) -> Self {
        let id = random::timeuuid_now();
        node.inner.views.builds.borrow_mut().push(RunningBuild { id, view, progress });
        Self { node, id }
    }

    pub(super) fn set(&self, progress: BuildProgress) {
        let mut builds = self.node.inner.views.builds.borrow_mut();
        if let Some(build) = builds.iter_mut().find(|build| build.id == self.id) {
            build.progress = progress;
        }
    }
}

impl Drop for ListedBuild<'_> {
    fn drop(&mut self) {
        self.node.inner.views.builds.borrow_mut().retain(|build| build.id != self.id);
    }
}

impl ViewBuilds<'_> {
    /// Returns the running builds of views of all shards.
    pub(in super::super) async fn running(self) -> Vec<RunningBuild> {
        let builds =
            self.node.on_all_shards(|node| async move { node.inner.views.builds.borrow().clone() });
        builds.await.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_is_done_follows_from_the_tokens() {
        let part = |first, end, last| {
            let progress = BuildProgress { tokens: (first, end), last, keys: 7 };
            let view = TableId(Uuid::nil());
            RunningBuild { id: Uuid::nil(), view, progress }.progress()
        };
        assert_eq!(part(i64::MIN, i64::MAX, i64::MIN), (7, 0.0));
        assert_eq!(part(i64::MIN, i64::MAX, 0), (7, 0.5));
        assert_eq!(part(0, 100, 100), (7, 1.0));
        assert_eq!(part(5, 5, 5), (7, 0.0));
    }
}
