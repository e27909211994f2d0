//! `nodetool enableautocompaction`, `disableautocompaction` and `statusautocompaction`.

use super::{NodetoolError, arguments::Tables, show::columns};
use crate::admin_client::{NodeAddress, Request, ask};

/// Returns the request that enables automatic compaction of a keyspace.
pub fn enable(keyspace: &str) -> Request {
    Request::post("/storage_service/auto_compaction").below(keyspace)
}

/// Returns the request that disables automatic compaction of a keyspace.
pub fn disable(keyspace: &str) -> Request {
    Request::delete("/storage_service/auto_compaction").below(keyspace)
}

/// Returns the text that says which tables are compacted automatically.
///
/// # Errors
/// Fails if a request fails, or if the keyspace does not exist.
pub async fn status(
    node: &NodeAddress,
    tables: &Tables,
    shows_all: bool,
) -> Result<String, NodetoolError> {
    let mut keyspaces: Vec<String> = ask(node, &Request::get("/storage_service/keyspaces")).await?;
    if let Some(meant) = &tables.keyspace {
        keyspaces.retain(|keyspace| keyspace == meant);
        if keyspaces.is_empty() {
            return Err(NodetoolError::Argument(format!("Keyspace {meant} does not exist")));
        }
    }
    let known: Vec<String> = ask(node, &Request::get("/column_family/name")).await?;
    let mut found = Vec::new();
    for keyspace in keyspaces {
        let of_keyspace =
            known.iter().filter_map(|name| name.strip_prefix(&format!("{keyspace}:")));
        let all: Vec<String> = of_keyspace.map(str::to_owned).collect();
        // The node refuses tables that do not exist.
        let meant = if tables.tables.is_empty() { &all } else { &tables.tables };
        for table in meant {
            let name = format!("{keyspace}:{table}");
            let request = Request::get("/column_family/autocompaction").below(&name);
            found.push((keyspace.clone(), table.clone(), ask(node, &request).await?));
        }
    }
    Ok(show(found, shows_all))
}

/// Formats the status like Cassandra: one word for all tables, or a line for each table.
fn show(found: Vec<(String, String, bool)>, shows_all: bool) -> String {
    let word = |is_enabled| if is_enabled { "running" } else { "not running" };
    if !shows_all {
        let is_enabled = |(_, _, is_enabled): &(String, String, bool)| *is_enabled;
        let all = found.iter().all(is_enabled);
        let is_one_word = all || !found.iter().any(is_enabled);
        return if is_one_word { word(all).to_owned() } else { "partially running".to_owned() };
    }
    let lines = found.into_iter();
    let lines: Vec<_> =
        lines.map(|(keyspace, table, on)| vec![keyspace, table, word(on).to_owned()]).collect();
    columns(&["Keyspace", "Table", "Status"], &lines, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(enabled: &[bool]) -> Vec<(String, String, bool)> {
        enabled.iter().map(|on| ("ks".to_owned(), "t".to_owned(), *on)).collect()
    }

    #[test]
    fn one_status_summarises_all_tables() {
        assert_eq!(show(of(&[true, true]), false), "running");
        assert_eq!(show(of(&[false]), false), "not running");
        assert_eq!(show(of(&[]), false), "running");
        assert_eq!(show(of(&[true, false]), false), "partially running");
    }

    #[test]
    fn each_table_has_a_line() {
        let shown = show(of(&[true, false]), true);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            ["Keyspace Table Status", "ks       t     running", "ks       t     not running"]
        );
    }
}
