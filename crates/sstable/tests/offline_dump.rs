//! The offline writer's files hold what Cassandra's `sstabledump` printed of them: partitions, rows, markers and cells in
//! number and by name. (Values are compared by the other tests, which have them in bytes.)
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use support::{block_on, dump, fixtures_root, normalise, offline_cases, open, read_text};

/// Kind of each thing, and names of its cells; collections count once for each name and element.
fn outline_of_sstabledump(text: &str) -> Vec<(String, Vec<String>)> {
    let mut outline = Vec::new();
    let partitions: Vec<Value> = serde_json::from_str(text).unwrap();
    for partition in partitions {
        outline.push(("partition".to_string(), Vec::new()));
        for row in partition["rows"].as_array().into_iter().flatten() {
            let kind = match row["type"].as_str().unwrap() {
                "static_block" => "static",
                "row" => "row",
                other => other,
            };
            if kind.starts_with("range_tombstone") {
                outline.push(("marker".into(), Vec::new()));
                continue;
            }
            let cells = row["cells"].as_array().into_iter().flatten();
            let names = cells.map(|cell| cell["name"].as_str().unwrap().to_string()).collect();
            outline.push((kind.into(), names));
        }
    }
    outline
}

fn outline_of_ours(lines: &[String]) -> Vec<(String, Vec<String>)> {
    lines
        .iter()
        .map(|line| {
            let line = normalise(line, true);
            let names = line.cells.into_iter().flatten().map(|cell| cell.n).collect();
            (line.kind, names)
        })
        .collect()
}

#[test]
fn outlines_are_equal() {
    let mut compared = 0;
    for case in offline_cases() {
        let root = fixtures_root().join("cassandra-5.0.9-offline/expected-sstabledump");
        let Some(text) = read_text(&root.join(format!("{}.json", case.name))) else { continue };
        let lines = block_on(async { dump(&open(&case.sstables[0]).await?).await }).unwrap();
        assert_eq!(outline_of_ours(&lines), outline_of_sstabledump(&text), "{}", case.name);
        compared += 1;
    }
    println!("{compared} compared with sstabledump");
}
