//! Shows the progress of compactions while the client waits for the node.

use std::pin::pin;
use std::time::Duration;

use espalier_runtime::time;
use futures_util::future::{Either, select};
use serde_json::Value;

use super::Done;
use crate::admin_client::{NodeAddress, Request, ask};
use crate::sstable::Progress;

const PERIOD: Duration = Duration::from_millis(500);

/// Waits for work that compacts files. While it waits, a line shows the progress of all running
/// compactions of the node.
///
/// # Errors
/// Fails if the work fails. An error of the progress requests is ignored.
pub async fn watched(node: &NodeAddress, work: impl Future<Output = Done>) -> Done {
    let mut progress = Progress::new("compacting", 0);
    let mut work = pin!(work);
    loop {
        let pause = pin!(time::sleep(PERIOD));
        match select(work, pause).await {
            Either::Left((done, _)) => {
                progress.finish();
                return done;
            }
            Either::Right(((), rest)) => work = rest,
        }
        let request = Request::get("/compaction_manager/compactions");
        let Ok(running) = ask::<Vec<Value>>(node, &request).await else { continue };
        let sum = |name: &str| {
            running.iter().filter_map(|one| one.get(name).and_then(Value::as_u64)).sum::<u64>()
        };
        if !running.is_empty() {
            progress.of(sum("total"));
            progress.at(sum("completed"));
        }
    }
}
