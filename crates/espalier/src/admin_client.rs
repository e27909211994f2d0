//! A client of a node's admin API. Each request uses a connection of its own.

use std::fmt::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use bytes::BytesMut;
use espalier_runtime::net::TcpStream;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The port of the admin API unless `api_port` says otherwise.
const DEFAULT_PORT: u16 = 10_000;
/// Maximum size of an answer in bytes; the client stops reading after it.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// The error of a request: the node refused it, failed, or could not be reached.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{node}: {reason}")]
pub struct NodeError {
    /// Address of the node's admin API.
    pub node: String,
    /// HTTP status of the answer, if there was an answer.
    pub status: Option<u16>,
    /// The reason, for people.
    pub reason: String,
}

/// The address of a node's admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// The address as the user gave it, with the port.
    name: String,
    /// At least one. A host name may have several, and the node may listen on only some of them.
    addresses: Vec<SocketAddr>,
}

/// A request to the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    method: &'static str,
    target: String,
    has_parameters: bool,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self { method: "GET", target: path.to_owned(), has_parameters: false }
    }

    pub fn post(path: &str) -> Self {
        Self { method: "POST", ..Self::get(path) }
    }

    pub fn delete(path: &str) -> Self {
        Self { method: "DELETE", ..Self::get(path) }
    }

    /// Appends a name, percent-encoded, to the path.
    pub fn below(mut self, name: &str) -> Self {
        self.target.push('/');
        percent_encode(name.as_bytes(), false, &mut self.target);
        self
    }

    pub fn with(self, name: &str, value: &str) -> Self {
        self.with_bytes(name, value.as_bytes())
    }

    pub fn with_path(self, name: &str, path: &Path) -> Self {
        self.with_bytes(name, path.as_os_str().as_encoded_bytes())
    }

    /// Adds a comma-separated list as a parameter, unless the list is empty.
    pub fn with_list(self, name: &str, values: &[String]) -> Self {
        if values.is_empty() { self } else { self.with(name, &values.join(",")) }
    }

    fn with_bytes(mut self, name: &str, value: &[u8]) -> Self {
        self.target.push(if self.has_parameters { '&' } else { '?' });
        self.has_parameters = true;
        self.target.push_str(name);
        self.target.push('=');
        percent_encode(value, true, &mut self.target);
        self
    }
}

/// Builds the request to import the SSTables of a directory.
pub fn import_request(keyspace: &str, table: &str, directory: &Path) -> Request {
    let request = Request::post("/storage_service/sstables").below(keyspace).with("cf", table);
    request.with_path("path", directory)
}

/// Describes the node's answer to an import or to a restore in words.
///
/// # Errors
/// Fails if the answer lacks the numbers, so that it is not from a node's admin API.
pub fn imported(
    node: &NodeAddress,
    keyspace: &str,
    table: &str,
    said: &Value,
) -> Result<String, NodeError> {
    let number = |name: &str| said.get(name).and_then(|number| number.as_u64());
    let (Some(sstables), Some(partitions)) = (number("sstables"), number("partitions")) else {
        return Err(no_admin_api(node));
    };
    Ok(format!("{keyspace}.{table}: {sstables} SSTables with {partitions} partitions imported"))
}

fn no_admin_api(node: &NodeAddress) -> NodeError {
    let reason =
        "the answer is not from a node's admin API; check host and port (its api_port)".to_owned();
    NodeError { node: node.name.clone(), status: None, reason }
}

/// Sends a request and returns the parsed answer. An empty answer is parsed as `null`.
///
/// # Errors
/// Fails if the node cannot be reached, answers with another status than 200, or with other JSON.
pub async fn ask<T: DeserializeOwned>(
    node: &NodeAddress,
    request: &Request,
) -> Result<T, NodeError> {
    let error = |status, reason| NodeError { node: node.name.clone(), status, reason };
    let (status, body) = exchange(node, request)
        .await
        .map_err(|why| error(None, format!("{why}; is a node running there (its api_port)?")))?;
    if status != 200 {
        let said: Value = serde_json::from_str(&body).unwrap_or_default();
        let message = said.get("message").and_then(|message| message.as_str());
        return Err(error(Some(status), message.unwrap_or(&body).to_owned()));
    }
    let text = if body.trim().is_empty() { "null" } else { &body };
    serde_json::from_str(text).map_err(|_| no_admin_api(node))
}

fn percent_encode(bytes: &[u8], keep_slashes: bool, out: &mut String) {
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if keep_slashes => out.push('/'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// Connects to the first address that accepts the connection.
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

/// Sends a request and returns status and body of the answer.
async fn exchange(node: &NodeAddress, request: &Request) -> std::io::Result<(u16, String)> {
    let stream = connect(node).await?;
    let (Request { method, target, .. }, host) = (request, &node.name);
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.into_bytes()).await.0?;
    let mut answer = BytesMut::new();
    loop {
        let mut piece = BytesMut::with_capacity(16 << 10);
        let read;
        (read, piece) = stream.read(piece).await;
        if read? == 0 || answer.len() > MAX_ANSWER_BYTES {
            break;
        }
        answer.extend_from_slice(&piece);
    }
    if answer.is_empty() {
        return Err(std::io::Error::other("the connection closed before an answer arrived"));
    }
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    match status {
        Some(status) => Ok((status, body.to_owned())),
        None => Err(std::io::Error::other("the answer is not HTTP")),
    }
}

/// Parses an IP address or a host name, with an optional port.
///
/// # Errors
/// Fails if the text is neither, or if the host name has no address.
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
        return Err(wrong("it is empty".to_owned()));
    }
    let name = if text.contains(':') { text.to_owned() } else { format!("{text}:{DEFAULT_PORT}") };
    let found = name.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() {
        Err(wrong("the host has no address".to_owned()))
    } else {
        Ok(NodeAddress { name, addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn names_and_values_are_encoded() {
        let request = import_request("a/b", "t&c", Path::new("/a b/é"));
        assert_eq!(request.target, "/storage_service/sstables/a%2Fb?cf=t%26c&path=/a%20b/%C3%A9");
        let request =
            Request::get("/x").with_list("cf", &[]).with_list("cf", &["a".into(), "b".into()]);
        assert_eq!(request.target, "/x?cf=a%2Cb");
    }
}
