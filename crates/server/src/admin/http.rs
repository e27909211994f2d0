//! This module implements, without I/O, the part of HTTP/1.1 that an admin API needs: one request
//! after the other on a connection, bodies that are skipped, answers with a length.
//!
//! httparse splits the head. This module decides which heads and bodies it accepts.
//!
//! Memory: the caller buffers a request: at most [`MAX_HEAD`] bytes of head and [`MAX_BODY`] bytes
//! of body. Source: RFC 9112.

use std::borrow::Cow;

use espalier_storage::StorageError;
use httparse::Status;
use percent_encoding::percent_decode_str;
use serde::Serialize;

/// Maximum length of request line and headers together, in bytes. Arbitrary.
pub const MAX_HEAD: usize = 8 * 1024;

/// Maximum number of headers. Arbitrary.
const MAX_HEADERS: usize = 100;

/// Maximum length in bytes of a body, which this module skips. It refuses a longer one, and the
/// caller closes the connection. Arbitrary.
const MAX_BODY: usize = 64 * 1024;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, as sent.
    pub method: String,
    /// The segments of the path, percent-decoded.
    pub path: Vec<String>,
    /// The parameters of the query, percent-decoded, in the order in which they were sent.
    pub query: Vec<(String, String)>,
    /// The headers by which the API admits or refuses the request.
    pub source: Source,
    /// True if the connection stays open after the answer.
    pub keep_alive: bool,
    /// Bytes of head and body together; the caller consumes this many.
    pub length: usize,
}

/// The headers by which the API admits or refuses a request; `None` if a header is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// `Host`: the name by which the client knows the node.
    pub host: Option<String>,
    /// `Origin`: the web page that sent the request.
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`: the relation of the sending page to the node, as the browser reports it.
    pub fetch_site: Option<String>,
    /// `Authorization`.
    pub authorization: Option<String>,
}

impl HttpRequest {
    /// Parses a request, for tests.
    #[cfg(test)]
    pub fn of(text: &str) -> Self {
        match parse(text.as_bytes()) {
            Parsed::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the first value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The result of parsing the bytes received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The bytes are the start of a request.
    Incomplete,
    /// The bytes begin with a whole request.
    Request(HttpRequest),
    /// The bytes are no request that this module accepts. The caller sends this answer and closes
    /// the connection.
    Refused(HttpResponse),
}

/// Parses the request at the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let window = &bytes[..bytes.len().min(MAX_HEAD)];
    let head_length = match head.parse(window) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() < MAX_HEAD => return Parsed::Incomplete,
        Ok(Status::Partial) => return refuse(431, "the head of the request is too long"),
        Err(httparse::Error::TooManyHeaders) => {
            return refuse(431, "the request has too many headers");
        }
        Err(httparse::Error::Version) => return refuse(505, "only HTTP/1.1 is supported"),
        Err(reason) => return refuse(400, &format!("the request is not HTTP: {reason}")),
    };
    let mut keep_alive = head.version != Some(0);
    let mut body_length = 0;
    let mut source = Source::default();
    for header in head.headers.iter() {
        let value = header.value.trim_ascii();
        if let Some(slot) = source.slot(header.name) {
            let value = String::from_utf8_lossy(value).into_owned();
            if slot.replace(value).is_some() {
                return refuse(400, "a header that may come once comes twice");
            }
        }
        if header.name.eq_ignore_ascii_case("connection") {
            keep_alive = !value.eq_ignore_ascii_case(b"close");
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return refuse(501, "a body must have a content-length");
        } else if header.name.eq_ignore_ascii_case("content-length") {
            match str::from_utf8(value).ok().and_then(|value| value.parse().ok()) {
                Some(length) if length <= MAX_BODY => body_length = length,
                _ => return refuse(413, "the body is too long"),
            }
        }
    }
    let length = head_length + body_length;
    if bytes.len() < length {
        return Parsed::Incomplete;
    }
    let (method, target) = (head.method.unwrap_or_default(), head.path.unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
    });
    Parsed::Request(HttpRequest {
        method: method.to_owned(),
        path: path.split('/').filter(|part| !part.is_empty()).map(decode).collect(),
        query: pairs.collect(),
        source,
        keep_alive,
        length,
    })
}

impl Source {
    fn slot(&mut self, header: &str) -> Option<&mut Option<String>> {
        Some(match header.to_ascii_lowercase().as_str() {
            "host" => &mut self.host,
            "origin" => &mut self.origin,
            "sec-fetch-site" => &mut self.fetch_site,
            "authorization" => &mut self.authorization,
            _ => return None,
        })
    }
}

/// Decodes `%20` and the like; a percent sign without two digits stays.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn refuse(status: u16, message: &str) -> Parsed {
    Parsed::Refused(HttpResponse::error(status, message))
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// The result of a handler: its answer, or the answer that reports an error.
pub type Answer = Result<HttpResponse, HttpResponse>;

/// Makes the answer that refuses a request for this reason.
impl From<String> for HttpResponse {
    fn from(reason: String) -> Self {
        Self::error(400, &reason)
    }
}

impl From<&str> for HttpResponse {
    fn from(reason: &str) -> Self {
        Self::error(400, reason)
    }
}

impl From<StorageError> for HttpResponse {
    fn from(error: StorageError) -> Self {
        Self::error(status_of(&error), &error.to_string())
    }
}

/// Returns the status code of an answer with this error.
pub(super) fn status_of(error: &StorageError) -> u16 {
    match error {
        StorageError::UnknownTableName { .. }
        | StorageError::UnknownKeyspace(_)
        | StorageError::UnknownOrphan(_)
        | StorageError::UnknownSSTable(_)
        | StorageError::AmbiguousSSTable(_)
        | StorageError::NotImportable(_)
        | StorageError::NothingToImport(_)
        | StorageError::IncompleteSSTable(_)
        | StorageError::NeededForStart { .. }
        | StorageError::Snapshot(_) => 400,
        StorageError::BusySSTable(_) | StorageError::CompactionStopped(_) => 409,
        _ => 500,
    }
}

/// The body of an error.
#[derive(Serialize)]
struct ErrorBody<'a> {
    message: &'a str,
    code: u16,
}

const JSON: &str = "application/json";

impl HttpResponse {
    /// Creates an answer with status 200 and `value` as JSON.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        Self::written(serde_json::to_vec(value))
    }

    /// Creates an answer with status 200 and written JSON, or an error if writing failed.
    pub fn written(json: serde_json::Result<Vec<u8>>) -> Self {
        match json {
            Ok(body) => Self { status: 200, content_type: JSON, body },
            Err(error) => Self::error(500, &format!("the answer is not written as JSON: {error}")),
        }
    }

    /// Creates an answer with status 200 and no body, ScyllaDB's answer to a request without a
    /// result.
    pub fn done() -> Self {
        Self { status: 200, content_type: JSON, body: Vec::new() }
    }

    /// Creates an answer with status 200 and plain text in Prometheus's format.
    pub fn text(body: String) -> Self {
        let content_type = "text/plain; version=0.0.4; charset=utf-8";
        Self { status: 200, content_type, body: body.into() }
    }

    /// Creates an error in the form of ScyllaDB's API.
    pub fn error(code: u16, message: &str) -> Self {
        let body = serde_json::to_vec(&ErrorBody { message, code }).unwrap_or_default();
        Self { status: code, content_type: JSON, body }
    }

    /// Returns the body if the node failed (status 500); `None` if the request succeeded or was
    /// refused.
    pub fn failure(&self) -> Option<Cow<'_, str>> {
        (self.status == 500).then(|| String::from_utf8_lossy(&self.body))
    }

    /// Appends the encoded answer to `out`.
    pub fn encode(&self, keep_alive: bool, out: &mut Vec<u8>) {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            409 => "Conflict",
            413 => "Content Too Large",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            505 => "HTTP Version Not Supported",
            _ => "Internal Server Error",
        };
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let challenge = if self.status == 401 { "WWW-Authenticate: Bearer\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\n{challenge}Content-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len(),
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_query() {
        let text = "POST /storage_service/keyspace_flush/my%20ks?cf=a%2Cb&x=1+2&flag HTTP/1.1\r\nHost: x\r\n\r\n";
        let request = HttpRequest::of(text);
        assert_eq!(request.method, "POST");
        assert_eq!(request.path, ["storage_service", "keyspace_flush", "my ks"]);
        assert_eq!(request.parameter("cf"), Some("a,b"));
        assert_eq!(request.parameter("x"), Some("1 2"));
        assert_eq!(request.parameter("flag"), Some(""));
        assert_eq!(request.parameter("none"), None);
        assert!(request.keep_alive);
        assert_eq!(request.length, text.len());
    }

    #[test]
    fn a_body_is_part_of_the_length() {
        let text = "POST / HTTP/1.1\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
        assert_eq!(parse(&text.as_bytes()[..text.len() - 1]), Parsed::Incomplete);
        let request = HttpRequest::of(&format!("{text}GET"));
        assert_eq!(request.length, text.len());
        assert!(!request.keep_alive);
    }

    #[test]
    fn headers_may_have_bytes_that_are_not_utf8() {
        let parsed = parse(b"GET / HTTP/1.1\r\nX-Name: \xe4\r\n\r\n");
        assert!(matches!(parsed, Parsed::Request(_)), "{parsed:?}");
    }

    #[test]
    fn every_prefix_is_incomplete() {
        let text = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for length in 0..text.len() {
            assert_eq!(parse(&text[..length]), Parsed::Incomplete);
        }
    }

    #[test]
    fn malformed_http_requests_are_refused_with_their_status() {
        let status = |text: &str| match parse(text.as_bytes()) {
            Parsed::Refused(response) => response.status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status("GET\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
        assert_eq!(status("GET / SPDY/9\r\n\r\n"), 505);
        assert_eq!(status("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 501);
        assert_eq!(status("PUT / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"), 413);
        assert_eq!(status("PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n"), 413);
        assert_eq!(status(&"x".repeat(MAX_HEAD)), 431);
        let headers = |count| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert_eq!(status(&headers(MAX_HEADERS + 1)), 431);
        assert!(matches!(parse(headers(MAX_HEADERS).as_bytes()), Parsed::Request(_)));
    }

    #[test]
    fn invalid_percent_escapes_are_kept() {
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%4"), "%zz%4");
        assert_eq!(decode("%C3%A4"), "\u{e4}");
    }

    #[test]
    fn an_error_is_an_object() {
        let error = HttpResponse::error(400, "no \"x\"");
        assert_eq!(error.body, br#"{"message":"no \"x\"","code":400}"#);
        assert_eq!(error.failure(), None);
        assert!(HttpResponse::error(500, "full").failure().is_some());
    }
}
