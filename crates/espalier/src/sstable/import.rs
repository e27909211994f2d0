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

fn split_name(name: &str) -> Result<(String, String), ToolError> {
    match name.split_once('.') {
        Some((keyspace, table)) if !keyspace.is_empty() && !table.is_empty() => {
            Ok((keyspace.to_owned(), table.to_owned()))
        }
        _ => Err(ToolError::Argument {
            name: "into",
            reason: format!("'{name}' is not KEYSPACE.TABLE"),
        }),
    }
}

/// `.../KEYSPACE/TABLE-ID`, as all nodes lay their tables out.
fn name_of_directory(directory: &Path) -> Result<(String, String), ToolError> {
    let part = |path: Option<&Path>| {
        path.and_then(Path::file_name).and_then(|name| name.to_str()).map(str::to_owned)
    };
    let table = part(Some(directory)).and_then(|name| {
        let (table, id) = name.rsplit_once('-')?;
        uuid::Uuid::try_parse(id).ok().map(|_| table.to_owned())
    });
    match (part(directory.parent()), table) {
        (Some(keyspace), Some(table)) => Ok((keyspace, table)),
        _ => Err(ToolError::Argument {
            name: "into",
            reason: format!(
                "{} is not named like a table's directory: say --into KEYSPACE.TABLE",
                directory.display()
            ),
        }),
    }
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
        assert!(split_name("ks").is_err() && split_name(".t").is_err());
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
