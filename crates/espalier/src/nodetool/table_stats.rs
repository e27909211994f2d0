//! `nodetool tablestats`: shows statistics of tables, grouped by keyspace.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::NodetoolError;
use super::arguments::TableStatsArguments;
use super::show::{all, number, size, text};
use crate::admin_client::{NodeAddress, Request, ask};

const RULE: &str = "----------------";

/// Selects tables by the arguments, each a keyspace or KEYSPACE.TABLE.
struct Filter<'a> {
    names: Vec<(&'a str, Option<&'a str>)>,
    /// Selects all tables except the named ones.
    is_inverted: bool,
}

/// Returns the text that `nodetool tablestats` prints.
///
/// # Errors
/// Fails if a request fails, or if a named keyspace or table does not exist.
pub async fn table_stats(
    node: &NodeAddress,
    arguments: &TableStatsArguments,
) -> Result<String, NodetoolError> {
    let filter = Filter::new(&arguments.tables, arguments.ignore);
    let keyspaces: Vec<String> = ask(node, &Request::get("/storage_service/keyspaces")).await?;
    let tables: Value = ask(node, &Request::get("/column_family/statistics")).await?;
    filter.check(&keyspaces, &tables).map_err(NodetoolError::Argument)?;
    Ok(show(&tables, &filter, arguments.human_readable))
}

impl<'a> Filter<'a> {
    fn new(names: &'a [String], is_inverted: bool) -> Self {
        let names = names.iter().map(|name| match name.split_once('.') {
            Some((keyspace, table)) => (keyspace, Some(table)),
            None => (name.as_str(), None),
        });
        Self { names: names.collect(), is_inverted }
    }

    fn has(&self, table: &Value) -> bool {
        let (keyspace, name) = (text(table, "ks"), text(table, "cf"));
        let is_it = |(its_keyspace, table): &(&str, Option<&str>)| {
            *its_keyspace == keyspace && table.is_none_or(|table| table == name)
        };
        self.names.is_empty() || self.names.iter().any(is_it) != self.is_inverted
    }

    /// Checks that all named keyspaces and tables exist.
    fn check(&self, keyspaces: &[String], tables: &Value) -> Result<(), String> {
        for (keyspace, table) in &self.names {
            if !keyspaces.iter().any(|known| known == keyspace) {
                return Err(format!("Unknown keyspace: {keyspace}"));
            }
            let Some(table) = table else { continue };
            let is_it =
                |known: &Value| text(known, "ks") == *keyspace && text(known, "cf") == *table;
            if !all(tables).any(is_it) {
                return Err(format!("Unknown table: {table} in keyspace: {keyspace}"));
            }
        }
        Ok(())
    }
}

/// Formats the lines of Cassandra's `tablestats` for which the node has a value. By table, the node
/// counts no reads, writes, latencies, cells of memtables and false positives of filters, and it
/// repairs nothing.
fn show(tables: &Value, filter: &Filter<'_>, is_human_readable: bool) -> String {
    let mut keyspaces = BTreeMap::<&str, Vec<&Value>>::new();
    for table in all(tables) {
        keyspaces.entry(text(table, "ks")).or_default().push(table);
    }
    let mut out = format!("Total number of tables: {}\n{RULE}\n", all(tables).count());
    for (keyspace, all_of_it) in keyspaces {
        let wanted: Vec<&&Value> = all_of_it.iter().filter(|table| filter.has(table)).collect();
        if wanted.is_empty() {
            continue;
        }
        let flushes: u64 = all_of_it.iter().map(|table| number(table, "pending_flushes")).sum();
        let _ = writeln!(out, "Keyspace : {keyspace}\n\tPending Flushes: {flushes}");
        for table in wanted {
            for (name, value) in lines(table, is_human_readable) {
                let _ = writeln!(out, "\t\t{name}: {value}");
            }
            out.push('\n');
        }
        let _ = writeln!(out, "{RULE}");
    }
    out.trim_end().to_owned()
}

/// Returns names and values of a table's lines.
fn lines(table: &Value, is_human_readable: bool) -> Vec<(&'static str, String)> {
    let count = |name: &str| number(table, name).to_string();
    let bytes =
        |name: &str| if is_human_readable { size(number(table, name)) } else { count(name) };
    let memory = number(table, "memtable_off_heap_size")
        + number(table, "bloom_filter_off_heap_memory_used");
    let ratio = table.get("compression_ratio").and_then(Value::as_f64).unwrap_or(-1.0);
    let mut lines = vec![
        ("Table", text(table, "cf").to_owned()),
        ("SSTable count", count("live_ss_table_count")),
        ("Old SSTable count", count("old_ss_table_count")),
    ];
    // The numbers are sums over the shards. Each shard has levels of its own, so a sum may exceed
    // the limit of a level.
    let levels = table.get("sstables_per_level").unwrap_or(&Value::Null);
    let levels: Vec<String> = all(levels).map(Value::to_string).collect();
    if !levels.is_empty() {
        lines.push(("SSTables in each level", format!("[{}]", levels.join(", "))));
    }
    lines.extend([
        ("Space used (live)", bytes("live_disk_space_used")),
        ("Space used (total)", bytes("total_disk_space_used")),
        ("Space used by snapshots (total)", bytes("snapshots_size")),
        (
            "Off heap memory used (total)",
            if is_human_readable { size(memory) } else { memory.to_string() },
        ),
        ("SSTable Compression Ratio", format!("{ratio:.5}")),
        ("Number of partitions (estimate)", count("estimated_row_count")),
        ("Memtable data size", bytes("memtable_live_data_size")),
        ("Memtable off heap memory used", bytes("memtable_off_heap_size")),
        ("Pending flushes", count("pending_flushes")),
        ("Bloom filter space used", bytes("bloom_filter_disk_space_used")),
        ("Bloom filter off heap memory used", bytes("bloom_filter_off_heap_memory_used")),
        ("Compacted partition minimum bytes", count("min_row_size")),
        ("Compacted partition maximum bytes", count("max_row_size")),
        ("Compacted partition mean bytes", count("mean_row_size")),
    ]);
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tables() -> Value {
        json!([
            {"ks": "a", "cf": "t", "live_ss_table_count": 2, "live_disk_space_used": 2048, "compression_ratio": 0.25,
             "memtable_off_heap_size": 100, "bloom_filter_off_heap_memory_used": 20, "pending_flushes": 1},
            {"ks": "a", "cf": "u", "sstables_per_level": [1, 0, 2]},
            {"ks": "b", "cf": "t", "compression_ratio": -1.0},
        ])
    }

    fn shown(names: &[&str], is_inverted: bool) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        show(&tables(), &Filter::new(&names, is_inverted), false)
    }

    /// The tables that are shown, with their keyspaces.
    fn found(shown: &str) -> Vec<&str> {
        shown.lines().filter_map(|line| line.trim().split_once(": ")).fold(
            Vec::new(),
            |mut found, (name, value)| {
                if ["Keyspace ", "Table"].contains(&name) {
                    found.push(value);
                }
                found
            },
        )
    }

    #[test]
    fn tables_are_shown_under_their_keyspaces() {
        let shown = shown(&["a"], false);
        let start = "Total number of tables: 3\n----------------\nKeyspace : a\n\tPending Flushes: 1\n\t\tTable: t\n\t\tSSTable count: 2\n";
        assert!(shown.starts_with(start), "{shown}");
        assert!(shown.ends_with("\n\n----------------"), "{shown}");
        for line in [
            "\t\tSpace used (live): 2048\n",
            "\t\tOff heap memory used (total): 120\n",
            "\t\tSSTable Compression Ratio: 0.25000\n",
            "\t\tSSTables in each level: [1, 0, 2]\n",
        ] {
            assert_eq!(shown.matches(line).count(), 1, "{line}{shown}");
        }
        let readable = show(&tables(), &Filter::new(&[], false), true);
        assert!(readable.contains("Space used (live): 2.00 KiB\n"), "{readable}");
    }

    #[test]
    fn keyspaces_and_tables_are_chosen_or_left_out() {
        for (names, is_inverted, expected) in [
            (vec![], false, vec!["a", "t", "u", "b", "t"]),
            (vec!["a.t"], false, vec!["a", "t"]),
            (vec!["a.u", "b"], false, vec!["a", "u", "b", "t"]),
            (vec!["a"], true, vec!["b", "t"]),
            (vec!["a.t"], true, vec!["a", "u", "b", "t"]),
        ] {
            assert_eq!(found(&shown(&names, is_inverted)), expected, "{names:?}");
        }
    }

    #[test]
    fn unknown_keyspaces_and_tables_are_errors() {
        let keyspaces = ["a", "b", "empty"].map(String::from);
        let check = |name: &str| {
            let names = [name.to_owned()];
            Filter::new(&names, false).check(&keyspaces, &tables())
        };
        assert_eq!(check("empty"), Ok(()));
        assert_eq!(check("b.t"), Ok(()));
        assert_eq!(check("c"), Err("Unknown keyspace: c".into()));
        assert_eq!(check("b.u"), Err("Unknown table: u in keyspace: b".into()));
    }
}
