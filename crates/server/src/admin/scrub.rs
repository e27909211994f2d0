//! Answers requests for scrubs, which check or rewrite files that may be damaged.

use espalier_storage::{Node, ScrubMode, ScrubReport};
use serde::Serialize;

use super::{
    compaction::{flag, names},
    http::{Answer, HttpRequest, HttpResponse},
    snapshots::tables_wanted,
};

/// The statuses with which ScyllaDB answers.
const DONE: u32 = 0;
const STOPPED: u32 = 1;
const VALIDATION_ERRORS: u32 = 3;

/// The answer to a request with `counts=true`, which ScyllaDB does not have.
#[derive(Serialize)]
struct Counts {
    status: u32,
    partitions: u64,
    left_out_partitions: u64,
}

/// Answers `GET` and `POST /storage_service/keyspace_scrub/KEYSPACE`.
pub(super) async fn scrub(database: &Node, keyspace: &str, request: &HttpRequest) -> Answer {
    let mode = mode(request)?;
    check_quarantine(request)?;
    let schema = database.store().schema();
    let tables = tables_wanted(&schema, &[keyspace], &names(request, "cf"))?;
    let with_snapshot = !flag(request, "disable_snapshot", false);
    let report = database.compactions().scrub(tables, mode, with_snapshot).await?;
    let status = status(mode, &report);
    if !flag(request, "counts", false) {
        return Ok(HttpResponse::json(&status));
    }
    let ScrubReport { partitions, left_out_partitions, .. } = report;
    Ok(HttpResponse::json(&Counts { status, partitions, left_out_partitions }))
}

fn mode(request: &HttpRequest) -> Result<ScrubMode, String> {
    let mode = request.parameter("scrub_mode");
    // The older parameter for the mode.
    let otherwise = if flag(request, "skip_corrupted", false) { "SKIP" } else { "ABORT" };
    match mode.unwrap_or(otherwise).to_ascii_uppercase().as_str() {
        "ABORT" => Ok(ScrubMode::Abort),
        "SKIP" => Ok(ScrubMode::Skip),
        "VALIDATE" => Ok(ScrubMode::Validate),
        "SEGREGATE" => Err(
            "scrub_mode SEGREGATE is not supported. SKIP is: it drops unreadable partitions and keeps a snapshot"
                .into(),
        ),
        other => Err(format!(
            "There is no scrub_mode '{}': there are ABORT, SKIP and VALIDATE",
            other.escape_debug()
        )),
    }
}

/// Checks the parameter `quarantine_mode`. This node has no quarantine: a scrub moves no file.
fn check_quarantine(request: &HttpRequest) -> Result<(), String> {
    let mode = request.parameter("quarantine_mode").unwrap_or_default().to_ascii_uppercase();
    match mode.as_str() {
        "" | "INCLUDE" | "EXCLUDE" => Ok(()),
        "ONLY" => {
            Err("quarantine_mode ONLY is not supported: this node puts no file into quarantine"
                .into())
        }
        other => Err(format!("There is no quarantine_mode '{}'", other.escape_debug())),
    }
}

fn status(mode: ScrubMode, report: &ScrubReport) -> u32 {
    match mode {
        _ if report.is_stopped => STOPPED,
        ScrubMode::Validate if report.damaged_sstables > 0 => VALIDATION_ERRORS,
        _ => DONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(query: &str) -> HttpRequest {
        HttpRequest::of(&format!("GET /keyspace_scrub/ks?{query} HTTP/1.1\r\n\r\n"))
    }

    #[test]
    fn modes_are_those_of_scylladb() {
        for (query, expected) in [
            ("cf=t", ScrubMode::Abort),
            ("skip_corrupted=true", ScrubMode::Skip),
            ("scrub_mode=SKIP", ScrubMode::Skip),
            ("scrub_mode=validate&skip_corrupted=true", ScrubMode::Validate),
        ] {
            assert_eq!(mode(&request(query)), Ok(expected), "{query}");
        }
        let segregate = mode(&request("scrub_mode=SEGREGATE")).unwrap_err();
        assert!(segregate.contains("not supported") && segregate.contains("SKIP"), "{segregate}");
        assert!(mode(&request("scrub_mode=fix")).is_err());
        assert!(check_quarantine(&request("quarantine_mode=INCLUDE")).is_ok());
        assert!(check_quarantine(&request("quarantine_mode=ONLY")).is_err());
    }

    #[test]
    fn statuses_are_those_of_scylladb() {
        let damaged = ScrubReport { damaged_sstables: 1, ..ScrubReport::default() };
        let stopped = ScrubReport { is_stopped: true, ..damaged.clone() };
        assert_eq!(status(ScrubMode::Validate, &damaged), 3);
        assert_eq!(status(ScrubMode::Skip, &damaged), 0);
        assert_eq!(status(ScrubMode::Validate, &stopped), 1);
        assert_eq!(status(ScrubMode::Validate, &ScrubReport::default()), 0);
    }
}
