//! `espalier sstable import`: adds SSTables to a table of a running node, through its admin API.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::ToolError;
use super::arguments::ImportArguments;
use super::output::print_line;
use crate::admin_client::{ask, import_request, imported};

/// Sends the request and prints the node's answer.
///
/// # Errors
/// Fails if the table's name is missing or malformed, if a file of the arguments cannot be used, if
/// the node refuses the import or cannot be reached, or if the output cannot be written.
pub async fn import(arguments: &ImportArguments) -> Result<(), ToolError> {
    let directory = std::path::absolute(&arguments.directory)?;
    let (keyspace, table) = match &arguments.into {
        Some(name) => split_name(name)?,
        None => name_of_directory(&directory)?,
    };
    let request = import_request(&keyspace, &table, &directory);
    let node = arguments.admin.address().await;
    let node = node.map_err(|reason| ToolError::Argument { name: "node", reason })?;
    let said: Value = ask(&node, &request).await?;
    print_line(format_args!("{}", imported(&node, &keyspace, &table, &said, "imported")?))?;
    Ok(())
}

/// Splits `KEYSPACE.TABLE`. Each name may have CQL's quotes. Capitals stay, even without quotes.
fn split_name(name: &str) -> Result<(String, String), ToolError> {
    let parts = first_name(name).and_then(|(keyspace, rest)| {
        let (table, rest) = first_name(rest.strip_prefix('.')?)?;
        rest.is_empty().then_some((keyspace, table))
    });
    parts.ok_or_else(|| ToolError::Argument {
        name: "into",
        reason: format!("'{name}' is not KEYSPACE.TABLE"),
    })
}

/// Splits a text after the name with which it begins.
fn first_name(text: &str) -> Option<(String, &str)> {
    let (name, rest) = match text.strip_prefix('"') {
        None => text.split_at(text.find('.').unwrap_or(text.len())),
        Some(quoted) => {
            let (name, rest) = quoted.split_once('"')?;
            (name, rest)
        }
    };
    (!name.is_empty() && !name.contains('"')).then(|| (name.to_owned(), rest))
}

/// Returns the names in `.../KEYSPACE/TABLE-ID`, the layout of Cassandra, ScyllaDB and Espalier.
/// `directory` may also be a snapshot, `backups` or `upload` below such a directory.
fn name_of_directory(directory: &Path) -> Result<(String, String), ToolError> {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).and_then(|name| name.to_str()).map(str::to_owned)
    };
    let table_of = |directory: &Path| {
        let directory_name = name(Some(directory))?;
        let (table, id) = directory_name.rsplit_once('-')?;
        uuid::Uuid::try_parse(id).ok()?;
        Some((name(directory.parent())?, table.to_owned()))
    };
    let above = |count| directory.ancestors().nth(count);
    let of_copy = || match (name(Some(directory)).as_deref(), name(above(1)).as_deref()) {
        (_, Some("snapshots")) => above(2).and_then(table_of),
        (Some("backups" | "upload"), _) => above(1).and_then(table_of),
        _ => None,
    };
    table_of(directory).or_else(of_copy).ok_or_else(|| ToolError::Argument {
        name: "into",
        reason: format!(
            "{} is not named like a table's directory; give --into KEYSPACE.TABLE",
            directory.display()
        ),
    })
}

/// Parses the path of an existing directory.
///
/// # Errors
/// Fails if the path is not a directory.
pub fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err(format!("'{text}' is not a directory")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_table_names_it() {
        let path = Path::new("/data/ks/my-table-1c6ace40fad111e7b9cf000000000002");
        assert_eq!(name_of_directory(path).unwrap(), ("ks".into(), "my-table".into()));
        let error = name_of_directory(Path::new("/data/ks/backup")).unwrap_err().to_string();
        assert!(error.contains("--into KEYSPACE.TABLE"), "{error}");
    }

    #[test]
    fn the_directory_of_a_copy_names_the_table_above_it() {
        let table = "/data/ks/t-1c6ace40fad111e7b9cf000000000002";
        for below in ["snapshots/now", "backups", "upload"] {
            let name = name_of_directory(&Path::new(table).join(below)).unwrap();
            assert_eq!(name, ("ks".into(), "t".into()), "{below}");
        }
        for other in ["snapshots", "snapshots/now/below", "other"] {
            assert!(name_of_directory(&Path::new(table).join(other)).is_err(), "{other}");
        }
        // A keyspace may have such a name.
        let named_so = Path::new("/data/snapshots/t-1c6ace40fad111e7b9cf000000000002");
        assert_eq!(name_of_directory(named_so).unwrap(), ("snapshots".into(), "t".into()));
    }

    #[test]
    fn names_may_be_in_quotes() {
        for (text, keyspace, table) in [
            ("ks.t", "ks", "t"),
            ("KeySpace.Table", "KeySpace", "Table"),
            ("\"KeySpace\".\"Table\"", "KeySpace", "Table"),
            ("ks.\"Table\"", "ks", "Table"),
            ("\"a\".t", "a", "t"),
        ] {
            assert_eq!(split_name(text).unwrap(), (keyspace.into(), table.into()), "{text}");
        }
        for wrong in ["ks", ".t", "ks.", "a.b.c", "\"a.t", "\"\".t", "\"a\"t", "a\".t", ""] {
            assert!(split_name(wrong).is_err(), "{wrong}");
        }
    }
}
