//! A client of a node's admin API. Each request uses a connection of its own, on a helper thread.
//!
//! A request has no time limit: a compaction or a scrub may take hours.

use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use espalier_runtime::file::FileSystem;
use espalier_runtime::net::tls::provide_cryptography;
use espalier_runtime::spawn_blocking;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, RequestBuilder};

/// The port of an address without one. It is the default of `api_port`.
const DEFAULT_PORT: u16 = 10_000;
/// Maximum size of an answer in bytes. A longer one is an error. Arbitrary.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Characters of a name that are percent-encoded.
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Characters of a parameter's value that are percent-encoded. A value may be a path.
const IN_VALUE: &AsciiSet = &IN_NAME.remove(b'/');

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

/// The address of a node's admin API, and the token and certificate that requests show to the node.
#[derive(Clone)]
pub struct NodeAddress {
    /// The address as the user gave it, with the port. A host name may have several addresses; the
    /// client takes the first that accepts the connection.
    name: String,
    is_encrypted: bool,
    token: Option<String>,
    tls: Option<Arc<TlsConfig>>,
}

impl std::fmt::Debug for NodeAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAddress").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The arguments by which a command reaches the admin API of a node.
#[derive(Args, Clone, Debug)]
pub struct AdminArguments {
    /// Address of the node's admin API: its api_address and, unless it is 10000, its api_port;
    /// https:// before it if the node has api_encryption_options
    #[arg(
        long,
        global = true,
        value_name = "HOST[:PORT]",
        default_value = "127.0.0.1:10000",
        value_parser = parse_node
    )]
    pub node: NodeAddress,
    /// File with the node's api_token
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// PEM file with the certificates that may sign the node's, for https://
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// PEM file with the certificate to show to the node and its private key, for https://
    #[arg(long, global = true, value_name = "FILE")]
    pub certificate_file: Option<PathBuf>,
}

impl AdminArguments {
    /// Returns the address with the contents of the files.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is not PEM, if an `https://` address comes without a CA
    /// file, or if another address comes with a CA or certificate file.
    pub async fn address(&self) -> Result<NodeAddress, String> {
        let mut node = self.node.clone();
        if let Some(path) = &self.token_file {
            let token = String::from_utf8_lossy(&read(path).await?).trim().to_owned();
            node.token = Some(token);
        }
        let has_files = self.ca_file.is_some() || self.certificate_file.is_some();
        match &self.ca_file {
            Some(path) if node.is_encrypted => {
                let own = match &self.certificate_file {
                    Some(path) => Some(client_certificate(path, &read(path).await?)?),
                    None => None,
                };
                provide_cryptography();
                let roots = certificates(path, &read(path).await?)?;
                let tls = TlsConfig::builder().root_certs(RootCerts::from(roots));
                node.tls = Some(Arc::new(tls.client_cert(own).build()));
            }
            None if node.is_encrypted => {
                return Err("an https:// address needs --ca-file FILE, with the certificate that \
                            signed the node's"
                    .to_owned());
            }
            _ if has_files => {
                return Err("--ca-file and --certificate-file need an https:// address".to_owned());
            }
            _ => {}
        }
        Ok(node)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    FileSystem::real().read(path).await.map_err(|error| error.to_string())
}

fn certificates(path: &Path, content: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(content) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| not_pem(path, &error))? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(format!("{}: it has no certificate", path.display()));
    }
    Ok(found)
}

fn client_certificate(path: &Path, content: &[u8]) -> Result<ClientCert, String> {
    let key = PrivateKey::from_pem(content).map_err(|error| not_pem(path, &error))?;
    Ok(ClientCert::new_with_certs(&certificates(path, content)?, key))
}

fn not_pem(path: &Path, error: &ureq::Error) -> String {
    format!("{}: it is not PEM: {error}", path.display())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Post,
    Delete,
}

/// A request to the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    method: Method,
    target: String,
    has_parameters: bool,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self { method: Method::Get, target: path.to_owned(), has_parameters: false }
    }

    pub fn post(path: &str) -> Self {
        Self { method: Method::Post, ..Self::get(path) }
    }

    pub fn delete(path: &str) -> Self {
        Self { method: Method::Delete, ..Self::get(path) }
    }

    /// Appends a name, percent-encoded, to the path.
    pub fn below(mut self, name: &str) -> Self {
        self.target.push('/');
        self.target.extend(percent_encode(name.as_bytes(), IN_NAME));
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
        self.target.extend(percent_encode(value, IN_VALUE));
        self
    }
}

/// Builds the request to import the SSTables of a directory.
pub fn import_request(keyspace: &str, table: &str, directory: &Path) -> Request {
    let request = Request::post("/storage_service/sstables").below(keyspace).with("cf", table);
    request.with_path("path", directory)
}

/// Describes the node's answer to an import or to a restore in words. `done` is the last word.
///
/// # Errors
/// Fails if the answer lacks the numbers, because it is not from a node's admin API then.
pub fn imported(
    node: &NodeAddress,
    keyspace: &str,
    table: &str,
    said: &Value,
    done: &str,
) -> Result<String, NodeError> {
    let number = |name: &str| said.get(name).and_then(|number| number.as_u64());
    let (Some(sstables), Some(partitions)) = (number("sstables"), number("partitions")) else {
        return Err(no_admin_api(node));
    };
    Ok(format!("{keyspace}.{table}: {sstables} SSTables with {partitions} partitions {done}"))
}

fn no_admin_api(node: &NodeAddress) -> NodeError {
    let reason =
        "the answer is not from a node's admin API; check host and port (its api_port)".to_owned();
    NodeError { node: node.name.clone(), status: None, reason }
}

/// Sends a request and returns the parsed answer. An empty answer is parsed as `null`.
///
/// # Errors
/// Fails if the node cannot be reached, if the status is not 200, or if the answer is no `T` in
/// JSON.
pub async fn ask<T: DeserializeOwned>(
    node: &NodeAddress,
    request: &Request,
) -> Result<T, NodeError> {
    let error = |status, reason| NodeError { node: node.name.clone(), status, reason };
    let scheme = if node.is_encrypted { "https" } else { "http" };
    let url = format!("{scheme}://{}{}", node.name, request.target);
    let (method, node_of_request) = (request.method, node.clone());
    let answer = spawn_blocking(move || exchange(method, &url, &node_of_request)).await;
    let (status, body) = answer.map_err(|why| {
        error(None, format!("{}; is a node running there (its api_port)?", reason(&why)))
    })?;
    if status != 200 {
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = said.get("message").and_then(|message| message.as_str());
        let body = String::from_utf8_lossy(&body);
        return Err(error(Some(status), message.unwrap_or(&body).to_owned()));
    }
    let text = if body.trim_ascii().is_empty() { b"null" } else { body.as_slice() };
    serde_json::from_slice(text).map_err(|_| no_admin_api(node))
}

/// Sends a request and returns status and body of the answer. Blocks.
fn exchange(method: Method, url: &str, node: &NodeAddress) -> Result<(u16, Vec<u8>), ureq::Error> {
    let mut configuration = Agent::config_builder();
    if let Some(tls) = &node.tls {
        configuration = configuration.tls_config(TlsConfig::clone(tls));
    }
    let agent = configuration
        .http_status_as_error(false)
        .max_redirects(0)
        // The environment may name a proxy, which does not reach a loopback address.
        .proxy(None)
        .timeout_global(None)
        .build()
        .new_agent();
    let token = node.token.as_ref().map(|token| format!("Bearer {token}"));
    let authorization = token.iter().map(|token| ("authorization", token));
    let mut answer = match method {
        Method::Get => with_headers(agent.get(url), authorization).call(),
        Method::Post => with_headers(agent.post(url), authorization).send_empty(),
        Method::Delete => with_headers(agent.delete(url), authorization).call(),
    }?;
    let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
    Ok((answer.status().as_u16(), body))
}

fn with_headers<'h, B>(
    request: RequestBuilder<B>,
    headers: impl Iterator<Item = (&'h str, &'h String)>,
) -> RequestBuilder<B> {
    headers.fold(request, |request, (name, value)| request.header(name, value))
}

/// Says for people why there was no answer.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            "the connection closed before an answer arrived".to_owned()
        }
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            "the answer is not HTTP".to_owned()
        }
        ureq::Error::BodyExceedsLimit(bytes) => format!("the answer is longer than {bytes} bytes"),
        other => other.to_string(),
    }
}

/// Parses an IP address or a host name, with an optional port, and with `http://` or `https://`
/// before it.
///
/// # Errors
/// Fails if the text is neither, or if the host name has no address.
pub fn parse_node(text: &str) -> Result<NodeAddress, String> {
    let (text, is_encrypted) = match text.strip_prefix("https://") {
        Some(rest) => (rest, true),
        None => (text.strip_prefix("http://").unwrap_or(text), false),
    };
    let named = |name| NodeAddress { name, is_encrypted, token: None, tls: None };
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(named(SocketAddr::new(ip, DEFAULT_PORT).to_string()));
    }
    let wrong = |reason: String| {
        format!("'{text}' is not a host and a port, such as 127.0.0.1:{DEFAULT_PORT}: {reason}")
    };
    if text.is_empty() {
        return Err(wrong("it is empty".to_owned()));
    }
    let name = if text.contains(':') { text.to_owned() } else { format!("{text}:{DEFAULT_PORT}") };
    let mut found = name.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    if found.next().is_none() {
        return Err(wrong("the host has no address".to_owned()));
    }
    Ok(named(name))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use espalier_runtime::net::{ListenOptions, TcpListener};
    use espalier_runtime::{block_on, spawn_local};

    use super::*;

    /// Sends `request` to a node that sends `answer` and closes the connection. Returns the bytes
    /// that the node received, and the outcome.
    fn asked(request: &Request, answer: &'static str) -> (String, Result<Value, NodeError>) {
        block_on(async {
            let any_port = "127.0.0.1:0".parse().unwrap();
            let listener = TcpListener::bind(any_port, ListenOptions::default()).unwrap();
            let node = parse_node(&listener.local_address().unwrap().to_string()).unwrap();
            let serving = spawn_local(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let (read, sent) = stream.read(BytesMut::with_capacity(4096)).await;
                read.unwrap();
                stream.write_all(answer.as_bytes().to_vec()).await.0.unwrap();
                String::from_utf8(sent.to_vec()).unwrap()
            });
            let result = ask(&node, request).await;
            (serving.await, result)
        })
    }

    #[test]
    fn the_answer_is_json_or_empty() {
        let request = Request::post("/storage_service/keyspace_flush").below("my ks");
        let (sent, answer) = asked(&request, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]");
        let line = "POST /storage_service/keyspace_flush/my%20ks HTTP/1.1\r\n";
        assert!(sent.starts_with(line) && sent.contains("content-length: 0\r\n"), "{sent}");
        assert_eq!(answer.unwrap(), serde_json::json!([1]));
        for request in [Request::get("/x"), Request::delete("/x")] {
            let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            let (sent, answer) = asked(&request, empty);
            assert!(!sent.contains("transfer-encoding"), "{sent}");
            assert_eq!(answer.unwrap(), Value::Null);
        }
    }

    #[test]
    fn admin_client_errors_say_how_to_proceed() {
        let get = Request::get("/x");
        for (answer, status, reason) in [
            (
                "HTTP/1.1 409 Conflict\r\nContent-Length: 21\r\n\r\n{\"message\":\"is busy\"}",
                Some(409),
                "is busy",
            ),
            ("HTTP/1.1 500 X\r\nContent-Length: 5\r\n\r\nwords", Some(500), "words"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwords", None, "check host and port"),
            ("", None, "closed before an answer arrived; is a node running there (its api_port)?"),
            ("\u{4}\0\0\0\0\0", None, "the answer is not HTTP; is a node running there"),
        ] {
            let error = asked(&get, answer).1.unwrap_err();
            assert_eq!(error.status, status, "{answer}: {error}");
            assert!(error.reason.contains(reason), "{answer}: {error}");
        }
        let unused = parse_node("127.0.0.1:1").unwrap();
        let error = block_on(ask::<Value>(&unused, &get)).unwrap_err().to_string();
        assert_eq!(
            error,
            "127.0.0.1:1: Connection refused (os error 111); is a node running there (its api_port)?"
        );
    }

    #[test]
    fn a_node_is_an_address_or_a_name() {
        for (text, name) in [
            ("127.0.0.1:10001", "127.0.0.1:10001"),
            ("127.0.0.1", "127.0.0.1:10000"),
            ("::1", "[::1]:10000"),
            ("[::1]", "[::1]:10000"),
            ("[::1]:10001", "[::1]:10001"),
            ("localhost", "localhost:10000"),
            ("localhost:10001", "localhost:10001"),
            ("https://localhost", "localhost:10000"),
        ] {
            assert_eq!(parse_node(text).unwrap().name, name, "{text}");
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
