//! A node of several shards on a given file system.

use std::{future::Future, sync::Arc, time::Duration};

use espalier_cql::{PreparedCache, QueryProcessor};
use espalier_runtime::{ShardOptions, file::FileSystem, start_shards, submit_to, sync::Event};
use espalier_storage::{Node, SharedStorage, StorageConfiguration, StorageError};

thread_local! {
    static FINISHED: Event = Event::new();
}

/// Returns the settings of [`on_shards`].
pub fn configuration() -> StorageConfiguration {
    let mut configuration = StorageConfiguration::new("node");
    configuration.commit_log.segment_bytes = 1 << 20;
    // Long, because a build without optimisation serves crowds of statements slowly.
    configuration.timeouts.cas_contention = Duration::from_secs(600);
    // Small, so that builds of views record their progress.
    configuration.view_builds.page_rows = 2;
    configuration.view_builds.record_pages = 1;
    configuration
}

/// Opens a node on `count` shards and runs `body` on shard 0, while the others serve. Shuts the
/// node down and returns the result of `body`. A test that needs the image of a crash must take it
/// within `body`.
pub fn on_shards<F, R>(
    count: usize,
    file_system: &FileSystem,
    body: impl Fn(QueryProcessor) -> F + Clone + Send + 'static,
) -> R
where
    F: Future<Output = R> + 'static,
    R: Send + 'static,
{
    on_shards_with(count, file_system, configuration(), body)
}

/// Does what [`on_shards`] does, with other settings.
pub fn on_shards_with<F, R>(
    count: usize,
    file_system: &FileSystem,
    configuration: StorageConfiguration,
    body: impl Fn(QueryProcessor) -> F + Clone + Send + 'static,
) -> R
where
    F: Future<Output = R> + 'static,
    R: Send + 'static,
{
    let file_system = file_system.clone();
    let (configuration, shared) = (Arc::new(configuration), SharedStorage::new());
    let options = ShardOptions { count, ..ShardOptions::default() };
    let shards = start_shards(&options, move |context| {
        let (file_system, configuration) = (file_system.clone(), configuration.clone());
        let (shared, body) = (shared.clone(), body.clone());
        async move {
            let database = Node::open(context, file_system, configuration, shared).await?;
            if context.index > 0 {
                FINISHED.with(Event::clone).wait().await;
                return Ok::<_, StorageError>(None);
            }
            let statements = Arc::new(PreparedCache::default());
            let result = body(QueryProcessor::new(database.clone(), statements)).await;
            // A shutdown frees the memory. It fails if the body has switched the power off.
            let _ = database.shutdown().await;
            for index in 1..context.count {
                submit_to(index, || async { FINISHED.with(Event::set) }).await;
            }
            Ok(Some(result))
        }
    });
    let outcomes = shards.unwrap().join().unwrap();
    outcomes.into_iter().find_map(|outcome| outcome.unwrap()).unwrap()
}
