//! Stops running compactions by their type.

use espalier_storage::{CompactionKind, Node};

use super::{
    compaction::{names, outcome},
    http::{Answer, HttpRequest, HttpResponse},
};

/// The types by which operators name compactions: Cassandra's names, and ScyllaDB's where they
/// differ.
const TYPES: [(&str, &[CompactionKind]); 8] = [
    // All compactions that merge files, and the splits that precede them.
    ("COMPACTION", &[CompactionKind::Compaction, CompactionKind::Major, CompactionKind::Split]),
    ("MAJOR_COMPACTION", &[CompactionKind::Major]),
    // This node never runs a cleanup, so there is none to stop.
    ("CLEANUP", &[]),
    ("SCRUB", &[CompactionKind::Scrub]),
    ("UPGRADE_SSTABLES", &[CompactionKind::Upgrade]),
    ("UPGRADE", &[CompactionKind::Upgrade]),
    ("RESHARD", &[CompactionKind::Split]),
    ("INDEX_BUILD", &[CompactionKind::IndexBuild]),
];

/// Answers `POST /compaction_manager/stop_compaction?type=TYPE`.
pub(super) async fn stop(database: &Node, request: &HttpRequest) -> Answer {
    database.compactions().stop(kinds(request.parameter("type"))?).await;
    Ok(HttpResponse::done())
}

/// Answers `POST /compaction_manager/stop_keyspace_compaction/KEYSPACE?type=TYPE&tables=TABLES`.
pub(super) async fn stop_in(database: &Node, keyspace: &str, request: &HttpRequest) -> Answer {
    let kinds = kinds(request.parameter("type"))?;
    let tables = names(request, "tables");
    outcome(database.compactions().stop_of(keyspace, &tables, kinds).await)
}

/// Returns the kinds of compactions of a type. The default is COMPACTION.
fn kinds(given: Option<&str>) -> Result<&'static [CompactionKind], String> {
    let name = given.unwrap_or("COMPACTION");
    let found = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, kinds)| *kinds).ok_or_else(|| {
        let known: Vec<&str> = TYPES.iter().map(|(known, _)| *known).collect();
        format!(
            "Unknown type of compactions '{}': use one of {}",
            name.escape_debug(),
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_type_of_its_own_name() {
        for kind in CompactionKind::ALL {
            let found = kinds(Some(kind.name())).unwrap();
            assert!(found.contains(&kind), "{kind:?}");
        }
        assert_eq!(kinds(Some("scrub")), Ok([CompactionKind::Scrub].as_slice()));
        assert_eq!(kinds(None), kinds(Some("COMPACTION")));
        assert_eq!(kinds(Some("CLEANUP")), Ok([].as_slice()));
    }

    #[test]
    fn an_unknown_type_is_refused_with_those_there_are() {
        for wrong in ["", "VALIDATION", "COMPACTIONS"] {
            let refused = kinds(Some(wrong)).unwrap_err();
            let reported =
                refused.contains(&format!("'{wrong}'")) && refused.contains("SCRUB, UPGRADE");
            assert!(reported, "{refused}");
        }
    }
}
