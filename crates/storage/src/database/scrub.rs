//! Scrubs: files that may be damaged, one after another.

use std::rc::{Rc, Weak};

use espalier_mutation::schema::TableId;
use espalier_runtime::time;

use super::{
    Database, SnapshotTable, compaction::StopRequests, first_failure::FirstFailure, one_file::Taken,
};
use crate::{
    StorageError,
    compaction::{CompactionKind, Job, Scrub, ScrubMode, ScrubReport, perform, validate},
    table::{SNAPSHOTS, SSTable, Table},
};

impl Database {
    /// Looks through all files of tables on all shards, and writes them anew, by the mode. `with_snapshot`: before anything is left
    /// out, all there is of the tables is kept as a snapshot `pre-scrub-<ms>`.
    ///
    /// Files that several shards have a part of are split where they are written. What is left out is told in the report and in the log. After the first failure there are, by `Abort`, no more files; by the other modes the failure is told at the end.
    pub async fn scrub(
        &self,
        tables: Vec<SnapshotTable>,
        mode: ScrubMode,
        with_snapshot: bool,
    ) -> Result<ScrubReport, StorageError> {
        let ids: Vec<TableId> = tables.iter().map(|table| table.id).collect();
        if mode == ScrubMode::Skip {
            let schema = self.schema();
            for table in ids.iter().filter_map(|id| schema.table_by_id(*id)) {
                let what = "a scrub that leaves out what cannot be read";
                StorageError::unless_needed_for_start(what, &table.keyspace)?;
            }
        }
        if mode == ScrubMode::Skip && with_snapshot && !tables.is_empty() {
            let tag = self.snapshot_tag(&ids).await?;
            tracing::info!(tag, "a snapshot is taken before a scrub");
            self.take_snapshot(tag, tables, true).await?;
        }
        let seen = self.stop_requests().await;
        let reports = self.on_all_shards(move |database| {
            let (ids, seen) = (ids.clone(), seen.clone());
            async move {
                let (mut report, mut failure) = (ScrubReport::default(), FirstFailure::none());
                for id in ids {
                    // Not here: dropped meanwhile, or of another shard alone.
                    let Ok(table) = database.table(id) else { continue };
                    match database.scrub_all_of(&table, mode, &seen).await {
                        Ok(more) => report.add(more),
                        Err(error) if mode == ScrubMode::Abort => return Err(error),
                        Err(error) => failure.keep(Err(error))?,
                    }
                    if report.is_stopped {
                        return Ok(report);
                    }
                }
                failure.told().map(|()| report)
            }
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
        // Who stopped it hears of that, whatever failed before.
        if report.is_stopped {
            return Ok(report);
        }
        kept?;
        failure.told().map(|()| report)
    }

    /// The name of a snapshot that none of the tables has.
    async fn snapshot_tag(&self, ids: &[TableId]) -> Result<String, StorageError> {
        let mut milliseconds = time::now_millis();
        let mut tag = format!("pre-scrub-{milliseconds}");
        for id in ids {
            let snapshots = self.table(*id)?.directory.join(SNAPSHOTS);
            while self.file_system().exists(snapshots.join(&tag)).await? {
                milliseconds += 1;
                tag = format!("pre-scrub-{milliseconds}");
            }
        }
        Ok(tag)
    }

    async fn scrub_all_of(
        &self,
        table: &Rc<Table>,
        mode: ScrubMode,
        seen: &StopRequests,
    ) -> Result<ScrubReport, StorageError> {
        // Those that are there now; what is written meanwhile is right. What is compacted before its turn is let go of, or its blocks would stay taken.
        let sstables: Vec<Weak<SSTable>> =
            table.view().sstables.iter().map(Rc::downgrade).collect();
        let (mut report, mut failure) = (ScrubReport::default(), FirstFailure::none());
        for sstable in sstables {
            let Some(sstable) = sstable.upgrade() else { continue };
            match self.scrub_one(table, &sstable, mode, seen).await {
                Ok(more) => report.add(more),
                Err(error) if mode == ScrubMode::Abort => return Err(error),
                Err(error) => failure.keep(Err(error))?,
            }
            if report.is_stopped {
                return Ok(report);
            }
        }
        failure.told().map(|()| report)
    }

    async fn scrub_one(
        &self,
        table: &Rc<Table>,
        sstable: &Rc<SSTable>,
        mode: ScrubMode,
        seen: &StopRequests,
    ) -> Result<ScrubReport, StorageError> {
        let stopped = |report| ScrubReport { is_stopped: true, ..report };
        let taken = self.take_one(table, sstable, CompactionKind::Scrub, seen).await?;
        let (guard, (level, split)) = match taken {
            Taken::All(guard, plan) => (guard, plan),
            Taken::Stopped => return Ok(stopped(ScrubReport::default())),
            Taken::Nothing => return Ok(ScrubReport::default()),
        };
        let metadata = table.metadata();
        let name = format!("{}.{}", metadata.keyspace, metadata.name);
        let scrub = Rc::new(Scrub::new(mode, name));
        let done = match mode {
            ScrubMode::Validate => {
                guard.running.writes_nothing();
                validate(self, &guard.running, &scrub).await
            }
            ScrubMode::Abort | ScrubMode::Skip => {
                match self.check_room(table, &guard.running).await {
                    Err(error) => Err(error),
                    Ok(()) => {
                        let job = Job { guard, level, split, scrub: Some(scrub.clone()) };
                        perform(self, table, job).await
                    }
                }
            }
        };
        self.compaction_wanted().notify_one();
        let report = scrub.report();
        match done? {
            true => Ok(report),
            false => {
                tracing::info!("scrub: {} is left as it is: stopped", sstable.descriptor());
                Ok(ScrubReport { sstables: 0, left_out_partitions: 0, ..stopped(report) })
            }
        }
    }
}
