//! A database on several shards.

use std::{future::Future, sync::Arc};

use espalier_runtime::{ShardOptions, file::FileSystem, start_shards};
use espalier_storage::{Node, SharedStorage, StorageConfiguration, StorageError};

/// Opens a database on `count` shards and runs `body` on shard 0. The other shards serve until
/// `body` is done. Returns the result of `body`, or the error of the first shard that could not
/// open the database.
pub fn on_shards<F, R>(
    count: usize,
    file_system: &FileSystem,
    configuration: StorageConfiguration,
    body: impl Fn(Node) -> F + Clone + Send + 'static,
) -> Result<R, StorageError>
where
    F: Future<Output = R> + 'static,
    R: Send + 'static,
{
    let (file_system, configuration) = (file_system.clone(), Arc::new(configuration));
    let shared = SharedStorage::new();
    let options = ShardOptions { count, ..ShardOptions::default() };
    let shards = start_shards(&options, move |context| {
        let (file_system, configuration) = (file_system.clone(), configuration.clone());
        let (shared, body) = (shared.clone(), body.clone());
        async move {
            let database = Node::open(context, file_system, configuration, shared).await?;
            match context.index {
                0 => {
                    let result = body(database.clone()).await;
                    Ok::<_, StorageError>((Some(result), Some(())))
                }
                // Kept, so that calls find the handle: a shard lives until the bodies of all shards
                // are done.
                _ => {
                    std::mem::forget(database);
                    Ok((None, None))
                }
            }
        }
    });
    let outcomes = shards.unwrap().join().unwrap();
    let mut result = None;
    for outcome in outcomes {
        if let (Some(value), _) = outcome? {
            result = Some(value);
        }
    }
    Ok(result.unwrap())
}
