//! Scrubs: checks or rewrites files that may be damaged, one after another.

use espalier_compaction::{ScrubMode, ScrubReport};
use espalier_mutation::schema::TableId;
use espalier_runtime::time;
use futures_util::future::LocalBoxFuture;

use super::{Compactions, SnapshotTable};
use crate::{FirstFailure, StorageError, table::SNAPSHOTS};

impl<'n> Compactions<'n> {
    /// Checks or rewrites all files of tables on all shards, according to the mode. With
    /// `with_snapshot`, a scrub that may leave out data first takes a snapshot `pre-scrub-<ms>` of
    /// the tables.
    ///
    /// A rewrite splits files that several shards share. The report and the log list the data that
    /// a scrub left out.
    ///
    /// # Errors
    ///
    /// Fails if the scrub may leave out data and a table is needed for a start, if the snapshot
    /// fails, or with the first failure of a file. With `Abort`, a shard ends at its first failure;
    /// with the other modes, it returns the failure at the end.
    pub fn scrub(
        self,
        tables: Vec<SnapshotTable>,
        mode: ScrubMode,
        with_snapshot: bool,
    ) -> LocalBoxFuture<'n, Result<ScrubReport, StorageError>> {
        Box::pin(async move {
            let ids: Vec<TableId> = tables.iter().map(|table| table.id).collect();
            if mode == ScrubMode::Skip {
                let schema = self.node.store().schema();
                for table in ids.iter().filter_map(|id| schema.table_by_id(*id)) {
                    let what = "a scrub that leaves out what cannot be read";
                    StorageError::unless_needed_for_start(what, &table.keyspace)?;
                }
            }
            if mode == ScrubMode::Skip && with_snapshot && !tables.is_empty() {
                let tag = self.snapshot_tag(&ids).await?;
                tracing::info!(tag, "scrub takes a snapshot first");
                self.node.snapshots().take(tag, tables, true).await?;
            }
            let seen = self.stop_requests().await;
            let reports = self.node.on_all_shards(move |node| async move {
                let (mut report, mut failure) = (ScrubReport::default(), FirstFailure::none());
                for id in ids {
                    // Skip a table that was dropped meanwhile or that only another shard has.
                    let Ok(table) = node.store().tables.get(id) else { continue };
                    match seen.requests(&node, &table).scrub_all(mode).await {
                        Ok(more) => report.add(more),
                        Err(error) if mode == ScrubMode::Abort => return Err(error),
                        Err(error) => failure.keep(Err(error))?,
                    }
                    if report.is_stopped {
                        return Ok(report);
                    }
                }
                failure.into_result().map(|()| report)
            });
            let (mut report, mut failures) = (ScrubReport::default(), Vec::new());
            for of_shard in reports.await {
                match of_shard {
                    Ok(more) => report.add(more),
                    Err(error) => failures.push(Err(error)),
                }
            }
            let mut failure = FirstFailure::none();
            let kept = failure.keep(FirstFailure::of_shards(failures));
            // A stop request is reported to its caller, whatever failed before.
            if report.is_stopped {
                return Ok(report);
            }
            kept?;
            failure.into_result().map(|()| report)
        })
    }

    /// Returns the name of a snapshot that none of the tables has.
    async fn snapshot_tag(self, ids: &[TableId]) -> Result<String, StorageError> {
        let mut milliseconds = time::now_millis();
        let mut tag = format!("pre-scrub-{milliseconds}");
        for id in ids {
            let snapshots = self.node.store().tables.get(*id)?.home.directory.join(SNAPSHOTS);
            while self.node.store().file_system().exists(snapshots.join(&tag)).await? {
                milliseconds += 1;
                tag = format!("pre-scrub-{milliseconds}");
            }
        }
        Ok(tag)
    }
}
