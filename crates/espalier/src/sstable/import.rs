//! `espalier sstable import`: has a running node take SSTables in, by its admin API.

use std::fmt::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use espalier_runtime::net::TcpStream;

use super::ToolError;
use super::arguments::ImportArguments;
use super::output::print_line;

/// Where api_port is if nobody says otherwise.
const DEFAULT_PORT: u16 = 10_000;
/// The longest answer that is read.
const MAXIMUM_ANSWER_BYTES: usize = 1 << 20;

/// Asks the node, and prints what it says.
pub async fn import(arguments: &ImportArguments) -> Result<(), ToolError> {
    let directory = std::path::absolute(&arguments.directory)?;
    let (keyspace, table) = match &arguments.into {
        Some(name) => split_name(name)?,
        None => name_of_directory(&directory)?,
    };
    let mut path = String::from("/storage_service/sstables/");
    percent_encode(keyspace.as_bytes(), &mut path);
    path.push_str("?cf=");
    percent_encode(table.as_bytes(), &mut path);
    path.push_str("&path=");
    percent_encode(directory.as_os_str().as_encoded_bytes(), &mut path);
    let (status, body) = post(&arguments.node, &path).await.map_err(|error| {
        unusable(arguments, format!("{error}; is a node running there (its api_port)?"))
    })?;
    match status {
        200 => {
            let said: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            let number = |name: &str| said.get(name).and_then(|n| n.as_u64());
            let (Some(sstables), Some(partitions)) = (number("sstables"), number("partitions"))
            else {
                let reason = "what answers there is no admin API of a node (its api_port)";
                return Err(unusable(arguments, reason.to_owned()));
            };
            print_line(format_args!(
                "{keyspace}.{table}: {sstables} SSTables with {partitions} partitions imported"
            ))?;
            Ok(())
        }
        _ => {
            let said: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            let message = said.get("message").and_then(|message| message.as_str());
            Err(unusable(arguments, message.unwrap_or(&body).to_owned()))
        }
    }
}

fn unusable(arguments: &ImportArguments, reason: String) -> ToolError {
    ToolError::Node { node: arguments.node.name.clone(), reason }
}

/// `KEYSPACE.TABLE`; either may be in CQL's quotes. Without them a name is taken as it is, with its capitals.
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

/// The name that a text begins with, and what is behind it.
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

/// `.../KEYSPACE/TABLE-ID`, as all nodes lay their tables out, or what is below it for copies.
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
            "{} is not named like a table's directory: say --into KEYSPACE.TABLE",
            directory.display()
        ),
    })
}

fn percent_encode(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// Where a node's admin API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// As it was given, with the port.
    name: String,
    /// At least one; a host may have several, of which the node listens on some.
    addresses: Vec<SocketAddr>,
}

/// The first address that somebody listens on.
async fn connect(node: &NodeAddress) -> std::io::Result<TcpStream> {
    let mut outcome = Err(std::io::Error::other("this host has no address"));
    for address in &node.addresses {
        outcome = TcpStream::connect(*address).await;
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Status and body of the answer.
async fn post(node: &NodeAddress, path: &str) -> std::io::Result<(u16, String)> {
    let stream = connect(node).await?;
    let host = &node.name;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.into_bytes()).await.0?;
    let mut answer = BytesMut::new();
    loop {
        let mut piece = BytesMut::with_capacity(16 << 10);
        let read;
        (read, piece) = stream.read(piece).await;
        if read? == 0 || answer.len() > MAXIMUM_ANSWER_BYTES {
            break;
        }
        answer.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    match status {
        Some(status) => Ok((status, body.to_owned())),
        None => Err(std::io::Error::other("what answers there does not speak HTTP")),
    }
}

/// An IP address or the name of a host, and perhaps a port.
pub fn parse_node(text: &str) -> Result<NodeAddress, String> {
    let address = |ip| NodeAddress {
        name: SocketAddr::new(ip, DEFAULT_PORT).to_string(),
        addresses: vec![SocketAddr::new(ip, DEFAULT_PORT)],
    };
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(address(ip));
    }
    let wrong = |reason: String| {
        format!("'{text}' is not a host and a port, such as 127.0.0.1:{DEFAULT_PORT}: {reason}")
    };
    if text.is_empty() {
        return Err(wrong("nothing was given".to_owned()));
    }
    let name = match text.contains(':') {
        true => text.to_owned(),
        false => format!("{text}:{DEFAULT_PORT}"),
    };
    let found = name.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    let addresses: Vec<_> = found.collect();
    match addresses.is_empty() {
        true => Err(wrong("the host has no address".to_owned())),
        false => Ok(NodeAddress { name, addresses }),
    }
}

/// The directory of a table.
pub fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.is_dir() {
        true => Ok(path),
        false => Err(format!("'{text}' is not a directory")),
    }
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
        // A table may have such a name.
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

    #[test]
    fn a_node_is_an_address_or_a_name() {
        let ports = |text: &str| -> Vec<u16> {
            parse_node(text).unwrap().addresses.iter().map(SocketAddr::port).collect()
        };
        for (text, port) in [
            ("127.0.0.1:10001", 10_001),
            ("127.0.0.1", 10_000),
            ("::1", 10_000),
            ("[::1]", 10_000),
            ("[::1]:10001", 10_001),
            ("localhost", 10_000),
            ("localhost:10001", 10_001),
        ] {
            let found = ports(text);
            assert!(!found.is_empty() && found.iter().all(|found| *found == port), "{text}");
        }
        for wrong in ["", "localhost:", "localhost:x", "127.0.0.1:", "a:b:c"] {
            assert!(parse_node(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_are_encoded() {
        let mut out = String::new();
        percent_encode("/a b/é&".as_bytes(), &mut out);
        assert_eq!(out, "/a%20b/%C3%A9%26");
    }
}
