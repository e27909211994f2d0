//! `espalier nodetool`: commands for operators of a running node, by the names of Cassandra's
//! nodetool. Each command sends some requests to the node's admin API.

pub mod absent;
pub mod arguments;
mod audit_log;
mod auto_compaction;
mod compaction_history;
mod guardrails;
mod info;
mod show;
mod status;
mod stop_type;
mod table_stats;
mod throughput;
mod view_build_status;
mod watch;

use std::io::ErrorKind;

use espalier_runtime::{block_on, time};
use espalier_storage::system::is_needed_for_start;
use serde_json::Value;

use crate::admin_client::{NodeAddress, NodeError, Request, ask, import_request, imported};
use crate::sstable::print_line;
use arguments::{
    ClearSnapshotArguments, CompactArguments, ImportArguments, NodetoolArguments, NodetoolCommand,
    OrphansArguments, RestoreArguments, ScrubArguments, ScrubMode, SnapshotArguments, Tables,
    UpgradeArguments,
};
use watch::watched;

/// The error of a command, for people.
#[derive(Debug, thiserror::Error)]
pub enum NodetoolError {
    /// The node refused the request, or could not be reached.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Some files are damaged. The node's log has the details.
    #[error("{0}: some files are damaged; the node's log names each file and its damage")]
    Damaged(String),
    /// An operator stopped the work.
    #[error("{0}: stopped")]
    Stopped(String),
    /// Several keyspaces failed; one line for each.
    #[error("{}", .0.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n"))]
    Several(Vec<NodetoolError>),
    /// An argument cannot be used.
    #[error("{0}")]
    Argument(String),
    /// The output cannot be written, because its reader is gone or the disk is full.
    #[error("the output cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

type Done = Result<(), NodetoolError>;

/// Runs the command and prints its result to stdout.
///
/// # Errors
/// Fails if an argument cannot be used, if the node refuses, stops or cannot be reached, if it
/// reports damaged files, or if the output cannot be written. A closed pipe is not an error.
pub fn run(arguments: &NodetoolArguments) -> Done {
    let done = block_on(async {
        let node = &arguments.admin.address().await.map_err(NodetoolError::Argument)?;
        match &arguments.command {
            NodetoolCommand::Status { keyspace } => {
                print(&status::status(node, keyspace.as_deref()).await?)
            }
            // The admin API reports one token, which is printed without the flag too.
            NodetoolCommand::Info { tokens: _ } => print(&info::info(node).await?),
            NodetoolCommand::TableStats(arguments) => {
                print(&table_stats::table_stats(node, arguments).await?)
            }
            NodetoolCommand::Flush(tables) => each(node, tables, flush).await,
            NodetoolCommand::Compact(compact) => watched(node, compacted(node, compact)).await,
            NodetoolCommand::CompactionStats => compaction_stats(node).await,
            NodetoolCommand::CompactionHistory => show_compaction_history(node).await,
            NodetoolCommand::ViewBuildStatus { keyspace, view } => {
                print(&view_build_status::show(node, keyspace, view).await?)
            }
            NodetoolCommand::Stop { compaction_type } => stop(node, compaction_type.name()).await,
            NodetoolCommand::EnableAutoCompaction(tables) => {
                each(node, tables, auto_compaction::enable).await
            }
            NodetoolCommand::DisableAutoCompaction(tables) => {
                each(node, tables, auto_compaction::disable).await
            }
            NodetoolCommand::StatusAutoCompaction { tables, shows_all } => {
                print(&auto_compaction::status(node, tables, *shows_all).await?)
            }
            NodetoolCommand::GetCompactionThroughput { is_exact } => {
                show_throughput(node, *is_exact).await
            }
            NodetoolCommand::SetCompactionThroughput { mebibytes_per_second } => {
                Ok(ask(node, &throughput::set(*mebibytes_per_second)).await?)
            }
            NodetoolCommand::GetGuardrailsConfig { name } => {
                print(&guardrails::show(node, name.as_deref()).await?)
            }
            NodetoolCommand::SetGuardrailsConfig { name, values } => {
                Ok(ask(node, &guardrails::set(name, values)).await?)
            }
            NodetoolCommand::EnableAuditLog(options) => audit_log::enable(node, options).await,
            NodetoolCommand::DisableAuditLog => Ok(ask(node, &audit_log::disable()).await?),
            NodetoolCommand::GetAuditLog => print(&audit_log::show(node).await?),
            NodetoolCommand::ReloadSsl => reload_certificates(node).await,
            NodetoolCommand::UpgradeSstables(upgrade) => {
                watched(node, upgraded(node, upgrade)).await
            }
            NodetoolCommand::Scrub(scrub) => watched(node, scrubbed(node, scrub)).await,
            NodetoolCommand::Snapshot(snapshot) => take_snapshot(node, snapshot).await,
            NodetoolCommand::ListSnapshots => list_snapshots(node).await,
            NodetoolCommand::ClearSnapshot(clear) => clear_snapshots(node, clear).await,
            NodetoolCommand::Restore(restore) => restored(node, restore).await,
            NodetoolCommand::Import(import) => import_directory(node, import).await,
            NodetoolCommand::Cleanup(tables) => each(node, tables, cleanup).await,
            NodetoolCommand::Orphans(orphans) => show_orphans(node, orphans).await,
            NodetoolCommand::GetTraceProbability => show_trace_probability(node).await,
            NodetoolCommand::SetTraceProbability { probability } => {
                set_trace_probability(node, &probability.to_string()).await
            }
            NodetoolCommand::Version => show_version(node).await,
        }
    });
    match done {
        // The reader of a pipe, such as `head`, needs no more output.
        Err(NodetoolError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn print(text: &str) -> Done {
    match text {
        "" => Ok(()),
        text => Ok(print_line(format_args!("{text}"))?),
    }
}

/// Returns the selected keyspaces.
async fn keyspaces(node: &NodeAddress, tables: &Tables) -> Result<Vec<String>, NodeError> {
    match &tables.keyspace {
        Some(keyspace) => Ok(vec![keyspace.clone()]),
        None => ask(node, &Request::get("/storage_service/keyspaces")).await,
    }
}

/// The reaction of a command to the failure of one keyspace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// The command continues with the next keyspace, unless an operator stopped the work or the
    /// node is unreachable.
    GoOn,
    /// The command ends.
    End,
}

/// Sends a request for each keyspace. A successful answer is empty or, as ScyllaDB sends for some
/// requests, a number.
async fn each(node: &NodeAddress, tables: &Tables, request: impl Fn(&str) -> Request) -> Done {
    let keyspaces = keyspaces(node, tables).await?;
    each_of(node, keyspaces, tables, Behind::GoOn, request, |_, _| Ok(())).await
}

async fn each_of(
    node: &NodeAddress,
    keyspaces: Vec<String>,
    tables: &Tables,
    behind: Behind,
    request: impl Fn(&str) -> Request,
    show: impl Fn(&str, &Value) -> Done,
) -> Done {
    let mut failures = Vec::new();
    for keyspace in keyspaces {
        let request = request(&keyspace).with_list("cf", &tables.tables);
        let said = ask::<Value>(node, &request).await;
        if let Ok(said) = &said {
            show(&keyspace, said)?;
        }
        let status = |said: Value| said.get("status").unwrap_or(&said).as_u64();
        let failure = match said.map(status) {
            Ok(Some(1)) => NodetoolError::Stopped(keyspace),
            Ok(Some(3)) => NodetoolError::Damaged(keyspace),
            Ok(_) => continue,
            Err(error) => NodetoolError::Node(error),
        };
        let ends_all = match &failure {
            NodetoolError::Stopped(_) => true,
            // The node is not reachable (no status), or an operator stopped the work (409).
            NodetoolError::Node(error) => matches!(error.status, None | Some(409)),
            _ => false,
        };
        failures.push(failure);
        if ends_all || behind == Behind::End {
            break;
        }
    }
    match failures.len() {
        0 | 1 => failures.pop().map_or(Ok(()), Err),
        _ => Err(NodetoolError::Several(failures)),
    }
}

fn flush(keyspace: &str) -> Request {
    Request::post("/storage_service/keyspace_flush").below(keyspace)
}

fn cleanup(keyspace: &str) -> Request {
    Request::post("/storage_service/keyspace_cleanup").below(keyspace)
}

async fn compacted(node: &NodeAddress, compact: &CompactArguments) -> Done {
    let CompactArguments { tables, start_token, end_token, user_defined } = compact;
    if *user_defined {
        let files: Vec<String> = tables.keyspace.iter().chain(&tables.tables).cloned().collect();
        if files.is_empty() {
            let reason = "--user-defined needs files: names such as da-1-bti-Data.db, or paths";
            return Err(NodetoolError::Argument(reason.into()));
        }
        let request = Request::post("/compaction_manager/force_user_defined_compaction");
        return Ok(ask(node, &request.with_list("data_files", &files)).await?);
    }
    each(node, tables, |keyspace| {
        let mut request = Request::post("/storage_service/keyspace_compaction").below(keyspace);
        for (name, token) in [("startToken", start_token), ("endToken", end_token)] {
            if let Some(token) = token {
                request = request.with(name, &token.to_string());
            }
        }
        request
    })
    .await
}

async fn upgraded(node: &NodeAddress, upgrade: &UpgradeArguments) -> Done {
    let only_others = if upgrade.include_all { "false" } else { "true" };
    each(node, &upgrade.tables, |keyspace| {
        let request = Request::get("/storage_service/keyspace_upgrade_sstables").below(keyspace);
        request.with("exclude_current_version", only_others)
    })
    .await
}

async fn scrubbed(node: &NodeAddress, scrub: &ScrubArguments) -> Done {
    let no_snapshot = if scrub.no_snapshot { "true" } else { "false" };
    let mut keyspaces = keyspaces(node, &scrub.tables).await?;
    if scrub.mode == ScrubMode::Skip && scrub.tables.keyspace.is_none() {
        // In this mode, the node refuses keyspaces that it needs for its start.
        keyspaces.retain(|keyspace| !is_needed_for_start(keyspace));
    }
    let behind = if scrub.mode == ScrubMode::Abort { Behind::End } else { Behind::GoOn };
    let request = |keyspace: &str| {
        let request = Request::get("/storage_service/keyspace_scrub").below(keyspace);
        let request = request.with("scrub_mode", scrub.mode.name());
        request.with("disable_snapshot", no_snapshot).with("counts", "true")
    };
    let show = |keyspace: &str, said: &Value| match scrub.mode {
        ScrubMode::Skip => print(&left_out(keyspace, said)),
        ScrubMode::Abort | ScrubMode::Validate => Ok(()),
    };
    each_of(node, keyspaces, &scrub.tables, behind, request, show).await
}

/// Formats the number of partitions of a keyspace that a scrub left out.
fn left_out(keyspace: &str, said: &Value) -> String {
    let number = |name| said.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (left_out, all) = (number("left_out_partitions"), number("partitions"));
    let log = match left_out {
        0 => "",
        _ => "; the node's log names them, at most 100 for each file",
    };
    format!("{keyspace}: {left_out} of {all} partitions left out{log}")
}

async fn compaction_stats(node: &NodeAddress) -> Done {
    let pending = Request::get("/compaction_manager/metrics/pending_tasks_by_table");
    let pending: Value = ask(node, &pending).await?;
    let running: Value = ask(node, &Request::get("/compaction_manager/compactions")).await?;
    print(&show::compactions(&pending, &running))
}

async fn show_compaction_history(node: &NodeAddress) -> Done {
    let request = Request::get("/compaction_manager/compaction_history");
    print(&compaction_history::show(&ask(node, &request).await?))
}

async fn stop(node: &NodeAddress, compaction_type: &str) -> Done {
    let request = Request::post("/compaction_manager/stop_compaction");
    Ok(ask(node, &request.with("type", compaction_type)).await?)
}

async fn reload_certificates(node: &NodeAddress) -> Done {
    let changed = ask(node, &Request::post("/storage_service/reload_ssl_certificates")).await?;
    print(if changed {
        "new certificates are used from now on"
    } else {
        "the certificates have not changed"
    })
}

async fn show_throughput(node: &NodeAddress, is_exact: bool) -> Done {
    let mebibytes = ask(node, &throughput::get()).await?;
    let shown = throughput::show(mebibytes, is_exact);
    print(&shown.map_err(NodetoolError::Argument)?)
}

async fn take_snapshot(node: &NodeAddress, snapshot: &SnapshotArguments) -> Done {
    let tag = snapshot.tag.clone().unwrap_or_else(|| time::now_millis().to_string());
    let request = Request::post("/storage_service/snapshots").with("tag", &tag);
    let request = request
        .with("sf", if snapshot.skip_flush { "true" } else { "false" })
        .with_list("kn", &snapshot.keyspaces)
        .with_list("cf", &snapshot.tables);
    let (): () = ask(node, &request).await?;
    print(&format!("Snapshot directory: {tag}"))
}

async fn list_snapshots(node: &NodeAddress) -> Done {
    let found: Value = ask(node, &Request::get("/storage_service/snapshots")).await?;
    print(&show::snapshots(&found))
}

async fn clear_snapshots(node: &NodeAddress, clear: &ClearSnapshotArguments) -> Done {
    let mut request = Request::delete("/storage_service/snapshots");
    if let Some(tag) = &clear.tag {
        request = request.with("tag", tag);
    }
    Ok(ask(node, &request.with_list("kn", &clear.keyspaces)).await?)
}

async fn restored(node: &NodeAddress, restore: &RestoreArguments) -> Done {
    let RestoreArguments { keyspace, table, tag } = restore;
    let request = Request::post("/storage_service/restore")
        .with("keyspace", keyspace)
        .with("table", table)
        .with("snapshot", tag);
    let said = ask(node, &request).await?;
    print(&imported(node, keyspace, table, &said, "restored")?)
}

async fn import_directory(node: &NodeAddress, import: &ImportArguments) -> Done {
    let (keyspace, table) = (&import.keyspace, &import.table);
    let directory = std::path::absolute(&import.directory)?;
    let said = ask(node, &import_request(keyspace, table, &directory)).await?;
    print(&imported(node, keyspace, table, &said, "imported")?)
}

async fn show_trace_probability(node: &NodeAddress) -> Done {
    let said: Value = ask(node, &Request::get("/storage_service/trace_probability")).await?;
    print(&format!("Current trace probability: {said}"))
}

async fn set_trace_probability(node: &NodeAddress, probability: &str) -> Done {
    let request = Request::post("/storage_service/trace_probability");
    Ok(ask(node, &request.with("probability", probability)).await?)
}

async fn show_version(node: &NodeAddress) -> Done {
    let said: String = ask(node, &Request::get("/storage_service/release_version")).await?;
    print(&format!("ReleaseVersion: {said}"))
}

async fn show_orphans(node: &NodeAddress, orphans: &OrphansArguments) -> Done {
    let path = "/storage_service/orphans";
    if orphans.remove.is_empty() {
        let found: Value = ask(node, &Request::get(path)).await?;
        return print(&show::orphans(&found));
    }
    for directory in &orphans.remove {
        let removed: Value = ask(node, &Request::delete(path).with("path", directory)).await?;
        print(&format!("removed: {}", show::orphan(&removed)))?;
    }
    Ok(())
}
