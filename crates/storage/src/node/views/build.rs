//! The background task that builds views over the rows that their base tables have.
//!
//! 1. Each shard reads its rows of the base table, page by page. For each row it takes a turn,
//!    reads the row again, and writes the right content to the view's row. Writes continue
//!    meanwhile; they take turns on the same rows. A shard records the token that it has reached,
//!    and continues there after a restart.
//! 2. A view that was built before may hold rows without a base row, after an import, a restore, a
//!    loss of power, or a truncation that stopped half-way. Then each shard also reads its rows of
//!    the view, and deletes the rows that do not follow from their base rows.
//!
//! Shard 0 leads, and records the result (`state.rs`). Memory: a page of rows for each shard.

use std::{rc::Rc, sync::Arc, time::Duration};

use espalier_commitlog::EncodedMutation;
use espalier_mutation::{
    Clustering, DecoratedKey, KeyBound, KeyRange, Mutation, PartitionUpdate, Row, Token,
    schema::{TableId, TableMetadata},
};
use espalier_runtime::{maybe_yield, time};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::{
    change::{ViewChange, partition_values, timestamps_of, whole_view_rows},
    outcome::{view_repair, view_write},
    plan::{ViewPlan, ViewRow},
    progress::ListedBuild,
    state::{BuildProgress, CHECKING, STARTED, SUCCESS},
    write::{turn_rows_of, view_plans},
};
use crate::{Node, PartitionRows, ReadCommand, ReadLimits, ReadTarget, StorageError, TurnDeadline};

/// The interval at which the task looks for views that are not built. Arbitrary; CREATE
/// MATERIALIZED VIEW wakes the task.
const INTERVAL: Duration = Duration::from_secs(30);

/// The pause after the first failure. Each further failure doubles it, up to [`INTERVAL`].
const RETRY_PAUSE: Duration = Duration::from_secs(1);

const PAGE_BYTES: usize = 1 << 20;

/// The state of a view, as shard 0 knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct ViewState {
    is_built: bool,
    /// The number of times that the view became stale. A build counts only if this number has not
    /// changed since it began.
    generation: u64,
}

/// Builds views until the node closes. Runs on shard 0.
pub(crate) async fn run(node: Node) {
    let (mut pause, mut retry_pause) = (INTERVAL, RETRY_PAUSE);
    loop {
        let _ = time::timeout(pause, node.inner.views.build_wanted.notified()).await;
        let mut has_failed = false;
        let schema = node.store().schema();
        for view in schema.tables().filter(|table| table.is_view()) {
            if node.store().is_closing() {
                return;
            }
            if let Err(error) = node.view_builds().build_view_if_needed(view).await {
                if node.store().is_closing() {
                    return;
                }
                tracing::warn!(
                    %error,
                    keyspace = view.keyspace,
                    view = view.name,
                    "building a materialized view failed, retrying after a pause; the view lacks \
                     rows until then"
                );
                has_failed = true;
            }
        }
        (pause, retry_pause) = if has_failed {
            (retry_pause, (retry_pause * 2).min(INTERVAL))
        } else {
            (INTERVAL, RETRY_PAUSE)
        };
        if node.store().is_closing() {
            return;
        }
    }
}

/// The builds of materialized views.
#[derive(Clone, Copy)]
pub struct ViewBuilds<'n> {
    pub(in crate::node) node: &'n Node,
}

impl Node {
    /// Returns the builds of materialized views.
    pub fn view_builds(&self) -> ViewBuilds<'_> {
        ViewBuilds { node: self }
    }
}

impl ViewBuilds<'_> {
    fn view_state(self, view: TableId) -> ViewState {
        self.node.inner.views.states.borrow().get(&view).copied().unwrap_or_default()
    }

    async fn build_view_if_needed(self, view: &Arc<TableMetadata>) -> Result<(), StorageError> {
        let state = self.view_state(view.id);
        if state.is_built {
            return Ok(());
        }
        if !self.is_recorded_view(view).await? {
            self.build_view(view, state.generation).await?;
        }
        let mut states = self.node.inner.views.states.borrow_mut();
        let now = states.entry(view.id).or_default();
        if now.generation == state.generation {
            now.is_built = true;
        } else {
            self.node.inner.views.build_wanted.notify_one();
        }
        Ok(())
    }

    async fn build_view(
        self,
        view: &Arc<TableMetadata>,
        generation: u64,
    ) -> Result<(), StorageError> {
        let status = self.status_of(&view.keyspace, &view.name).await?;
        let checks = status.as_deref() == Some(CHECKING);
        if !self.is_current_build(view.id, generation) {
            return Ok(());
        }
        if status.is_none() {
            self.record_status(view, STARTED).await?;
        }
        let (keyspace, name) = (&view.keyspace, &view.name);
        tracing::info!(keyspace, view = name, "building a materialized view");
        // A write that began before the view existed may store no view row, so the scan must see
        // its base row. Such a write holds a turn.
        let ended =
            self.node.on_all_shards(|node| async move { node.store().turns.wait_for_all().await });
        ended.await;
        let id = view.id;
        let built = self.node.on_all_shards(move |node| async move {
            Box::pin(node.view_builds().build_view_here(id, generation)).await
        });
        let keys: u64 = built.await.into_iter().sum::<Result<u64, StorageError>>()?;
        if checks {
            let checked = self.node.on_all_shards(move |node| async move {
                Box::pin(node.view_builds().check_view_here(id)).await
            });
            checked.await.into_iter().collect::<Result<(), StorageError>>()?;
        }
        if self.is_current_build(view.id, generation) {
            self.record_status(view, SUCCESS).await?;
            tracing::info!(keyspace, view = name, keys, "materialized view built");
        }
        Ok(())
    }

    /// Returns whether a build may record its progress: the view exists, and has not become stale
    /// since the build began. Runs on shard 0.
    fn is_current_build(self, view: TableId, generation: u64) -> bool {
        let is_current = self.view_state(view).generation == generation;
        is_current && self.node.store().shared.schema().table_by_id(view).is_some()
    }

    pub(super) fn mark_stale(self, view: TableId) {
        let mut states = self.node.inner.views.states.borrow_mut();
        let state = states.entry(view).or_default();
        *state = ViewState { is_built: false, generation: state.generation + 1 };
    }

    /// Records that views may have rows that do not follow from their base tables, so that the task
    /// checks them. Runs on shard 0.
    pub(in super::super) async fn mark_views_stale(
        self,
        views: &[Arc<TableMetadata>],
    ) -> Result<(), StorageError> {
        for view in views {
            self.mark_stale(view.id);
            let recorded = self.record_status(view, CHECKING).await;
            // The task may have found the view built before the record was written.
            self.mark_stale(view.id);
            recorded?;
        }
        Ok(())
    }

    /// Marks views as stale that an unclean end may have left behind their base tables, or ahead of
    /// them: all views if `are_marked`, otherwise those of keyspaces that do not use the log. This
    /// also holds for a view whose build was under way: the recorded progress of the build may be
    /// newer than the view rows that survived.
    pub(in super::super) async fn mark_unsynced_views_stale(
        self,
        are_marked: bool,
    ) -> Result<(), StorageError> {
        let schema = self.node.store().schema();
        let is_logged = |view: &TableMetadata| {
            schema.keyspace(&view.keyspace).is_none_or(|keyspace| keyspace.durable_writes)
        };
        for view in schema.tables().filter(|table| table.is_view()) {
            if are_marked || !is_logged(view) {
                self.mark_views_stale(std::slice::from_ref(view)).await?;
            }
        }
        Ok(())
    }

    /// Wakes the task that builds views. Runs on shard 0.
    pub(in super::super) fn build_views(self) {
        self.node.inner.views.build_wanted.notify_one();
    }

    /// Returns the views that depend on a table: its views, or the table itself if it is a view.
    pub(in super::super) fn dependent_views(
        self,
        table: &TableMetadata,
    ) -> Vec<Arc<TableMetadata>> {
        let schema = self.node.store().schema();
        let names = table.views.iter().chain(table.view.is_some().then_some(&table.name));
        names.filter_map(|name| schema.table(&table.keyspace, name).cloned()).collect()
    }

    fn plan_of(self, view: TableId) -> Option<Rc<ViewPlan>> {
        let base = self.node.store().schema().table_by_id(view)?.view.as_ref()?.base;
        view_plans(self.node, base).iter().find(|plan| plan.view.id == view).cloned()
    }

    /// Records the progress of this shard's part of a build. Returns false if the build must stop,
    /// because the view was dropped or became stale.
    async fn record_if_current(
        self,
        plan: &ViewPlan,
        generation: u64,
        progress: BuildProgress,
    ) -> Result<bool, StorageError> {
        let view = plan.view.clone();
        let record = move |node: Node| async move {
            if !node.view_builds().is_current_build(view.id, generation) {
                return Ok(false);
            }
            Box::pin(node.view_builds().record_progress(&view, progress)).await.map(|()| true)
        };
        self.node.on_shard(0, record).await
    }

    /// Writes to a view the rows that follow from the base rows of this shard. Returns the number
    /// of base rows.
    async fn build_view_here(self, view: TableId, generation: u64) -> Result<u64, StorageError> {
        let Some(plan) = self.plan_of(view) else { return Ok(0) };
        let tokens = self.node.store().routing.own_tokens();
        let mut range = self.node.store().routing.own_range(&plan.base);
        let mut progress = BuildProgress { tokens, last: tokens.0, keys: 0 };
        if let Some(recorded) = self.recorded_progress(&plan.view, tokens).await? {
            progress = recorded;
            range.start = KeyBound::AfterToken(Token(progress.last));
        }
        let listed = ListedBuild::new(self.node, view, progress);
        let mut pages = Pages::new(self.node, &plan.base, range);
        let configuration = &self.node.store().configuration;
        let page_rows = configuration.view_builds.page_rows;
        let mut count = 0;
        while let Some(partitions) = pages.next().await? {
            if self.plan_of(view).is_none() {
                break;
            }
            progress.keys += partitions.iter().map(|found| found.rows.len() as u64).sum::<u64>();
            let builds = partitions.into_iter().map(|found| self.build_rows(view, found));
            stream::iter(builds).buffer_unordered(page_rows).try_collect::<()>().await?;
            count += 1;
            let Some(next) = pages.reached() else { continue };
            // A restart reads the last partition again, because a part of it may be missing.
            progress.last = next.0.saturating_sub(1);
            listed.set(progress);
            if count % configuration.view_builds.record_pages == 0
                && !self.record_if_current(&plan, generation, progress).await?
            {
                break;
            }
        }
        Ok(progress.keys)
    }

    /// Writes to a view the rows that follow from base rows of one partition.
    async fn build_rows(self, view: TableId, found: PartitionRows) -> Result<(), StorageError> {
        let Some(plan) = self.plan_of(view) else { return Ok(()) };
        let mut rows = PartitionUpdate::new(plan.base.id, found.key);
        rows.rows.extend(found.rows.into_iter().map(|row| Row::empty(row.clustering)));
        if rows.rows.is_empty() {
            return Ok(());
        }
        let _turn = self.node.store().turns.take(turn_rows_of(&plan.base, &rows)).await;
        // The table may have been altered during the wait.
        let Some(plan) = self.plan_of(view) else { return Ok(()) };
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let (mut mutation, mut bytes) = (Mutation::default(), 0);
        let mut encoder = EncodedMutation::default();
        for wanted in whole_view_rows(self.node, &plan, &rows, now_s).await? {
            maybe_yield().await;
            let (shard, table) =
                (self.node.store().routing.shard_of(&plan.view, &wanted.key), plan.view.clone());
            let moves = plan.moves();
            let repair = move |node: Node| async move {
                Box::pin(view_repair(&node, &table, moves, wanted, now_s)).await
            };
            let Some(update) = self.node.on_shard(shard, repair).await? else { continue };
            let one = Mutation { updates: vec![update] };
            let log = &self.node.store().configuration.commit_log;
            encoder.encode(&one, log.maximum_record_bytes(), |_| 0)?;
            bytes += encoder.body.len();
            mutation.updates.extend(one.updates);
            // A quarter of the largest record.
            if bytes > log.maximum_record_bytes() / 4 {
                self.node.apply_complete(std::mem::take(&mut mutation)).await?;
                bytes = 0;
            }
        }
        if mutation.updates.is_empty() {
            return Ok(());
        }
        self.node.apply_complete(mutation).await
    }

    /// Deletes the view's rows of this shard that do not follow from their base rows.
    async fn check_view_here(self, view: TableId) -> Result<(), StorageError> {
        let Some(plan) = self.plan_of(view) else { return Ok(()) };
        let range = self.node.store().routing.own_range(&plan.view);
        let mut pages = Pages::new(self.node, &plan.view, range);
        while let Some(partitions) = pages.next().await? {
            if self.plan_of(view).is_none() {
                break;
            }
            let mut checks = Vec::new();
            for found in partitions {
                let rows = PartitionUpdate::new(plan.view.id, found.key.clone());
                let partition = partition_values(&plan.view, &rows)?;
                for row in found.rows {
                    let Some((key, clustering)) = plan.base_place(&partition, &row) else {
                        continue;
                    };
                    let row = ViewRow { key: found.key.clone(), row };
                    checks.push(self.check_row(&plan, key, clustering, row));
                }
            }
            let page_rows = self.node.store().configuration.view_builds.page_rows;
            stream::iter(checks).buffer_unordered(page_rows).try_collect::<()>().await?;
        }
        Ok(())
    }

    async fn check_row(
        self,
        plan: &Rc<ViewPlan>,
        key: DecoratedKey,
        clustering: Clustering,
        row: ViewRow,
    ) -> Result<(), StorageError> {
        let shard = self.node.store().routing.shard_of(&plan.base, &key);
        let view = plan.view.id;
        let check = move |node: Node| async move {
            Box::pin(node.view_builds().check_row_here(view, key, clustering, row)).await
        };
        self.node.call_in_turn(shard, TurnDeadline::never(), check).await?
    }

    /// Deletes a row of a view, if it does not follow from its base row, which this shard owns.
    async fn check_row_here(
        self,
        view: TableId,
        key: DecoratedKey,
        clustering: Clustering,
        row: ViewRow,
    ) -> Result<(), StorageError> {
        let Some(plan) = self.plan_of(view) else { return Ok(()) };
        let mut rows = PartitionUpdate::new(plan.base.id, key);
        rows.rows.push(Row::empty(clustering));
        let _turn = self.node.store().turns.take(turn_rows_of(&plan.base, &rows)).await;
        // The table may have been altered during the wait.
        let Some(plan) = self.plan_of(view) else { return Ok(()) };
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let comparator = plan.view.comparator();
        let is_same = |wanted: &ViewRow| {
            let (wanted_at, at) = (wanted.row.clustering.position(), row.row.clustering.position());
            wanted.key == row.key && comparator.compare(wanted_at, at).is_eq()
        };
        if whole_view_rows(self.node, &plan, &rows, now_s).await?.iter().any(is_same) {
            return Ok(());
        }
        let newest = timestamps_of(&row.row).max().unwrap_or(i64::MIN);
        let (shard, table) =
            (self.node.store().routing.shard_of(&plan.view, &row.key), plan.view.clone());
        let moves = plan.moves();
        let delete = move |node: Node| async move {
            let change = ViewChange::Delete { row, newest };
            Box::pin(view_write(&node, &table, moves, change, now_s)).await
        };
        match self.node.on_shard(shard, delete).await? {
            Some(update) => self.node.apply_complete(Mutation { updates: vec![update] }).await,
            // The view was dropped.
            None => Ok(()),
        }
    }
}

/// The visible rows of this shard in a range of a table, page by page.
struct Pages<'d> {
    node: &'d Node,
    command: Option<ReadCommand>,
}

impl<'d> Pages<'d> {
    fn new(node: &'d Node, table: &Arc<TableMetadata>, range: KeyRange) -> Self {
        let rows = node.store().configuration.view_builds.page_rows;
        let limits = ReadLimits { rows, bytes: PAGE_BYTES, ..ReadLimits::NONE };
        let command = ReadCommand::of_all(table.clone(), ReadTarget::Range(range), 0);
        Self { node, command: Some(ReadCommand { limits, bypass_cache: true, ..command }) }
    }

    async fn next(&mut self) -> Result<Option<Vec<PartitionRows>>, StorageError> {
        let Some(command) = &mut self.command else { return Ok(None) };
        if self.node.store().is_closing() {
            return Err(StorageError::ShuttingDown);
        }
        command.now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let result = self.node.store().read(command).await?;
        command.resume = result.next;
        if command.resume.is_none() {
            self.command = None;
        }
        Ok(Some(result.partitions))
    }

    /// Returns the token at which the next page begins.
    fn reached(&self) -> Option<Token> {
        self.command.as_ref()?.resume.as_ref().map(|position| position.key.token)
    }
}
