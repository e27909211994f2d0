//! The conditions under which the admin API serves a request.
//!
//! - With a token, each request must have it: `Authorization: Bearer TOKEN`.
//! - The API refuses a request whose `Origin` or `Sec-Fetch-Site` shows another origin, because any
//!   web page can make a browser on this machine send requests. For links and images, the browser
//!   sends only `Sec-Fetch-Site`.
//! - If the API has neither a token nor TLS, a `Host` header, if present, must name a loopback
//!   address or `localhost`. The node then listens on loopback only. The browser counts a page
//!   under a DNS-rebound name, or from `0.0.0.0`, as same-origin, but sends its name as `Host`.

use std::net::IpAddr;
use std::sync::Arc;

use espalier_runtime::net::tls::TlsAcceptor;

use super::http::{HttpRequest, HttpResponse};

/// The secret of the admin API's clients. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

impl AdminToken {
    /// Creates a token.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Compares in a time that depends only on the length of `given`, and so hides the token.
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let mut difference = own.len() ^ given.len();
        for (index, byte) in given.iter().enumerate() {
            difference |= usize::from(own.get(index % own.len().max(1)).unwrap_or(&0) ^ byte);
        }
        difference == 0
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken")
    }
}

/// The conditions of access to the admin API: token and TLS. The default suits a node that listens
/// on loopback.
#[derive(Clone, Debug, Default)]
pub struct AdminAccess {
    /// `api_token`: requests must have it.
    pub token: Option<AdminToken>,
    /// `api_encryption_options`: encrypts the connections.
    pub acceptor: Option<Arc<TlsAcceptor>>,
}

impl AdminAccess {
    /// Returns the error response if the API refuses the request.
    pub(super) fn refusal(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let source = &request.source;
        let host = source.host.as_deref().unwrap_or_default();
        let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
        let is_foreign = source.origin.as_deref().is_some_and(|origin| !is_own(origin))
            || matches!(source.fetch_site.as_deref(), Some("cross-site" | "same-site"));
        if is_foreign {
            let message = "Refused: a web page of another origin sent this request";
            return Some(HttpResponse::error(403, message));
        }
        if let Some(token) = &self.token {
            let given = source.authorization.as_deref().unwrap_or_default();
            let given =
                given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let has_token = given.is_some_and(|(_, given)| token.is(given.trim()));
            let message = "Missing or wrong token: send 'Authorization: Bearer TOKEN' with the \
                           value of api_token, or use nodetool --token-file FILE";
            return (!has_token).then(|| HttpResponse::error(401, message));
        }
        let may_have_any_name = self.acceptor.is_some() || source.host.is_none();
        if may_have_any_name || is_loopback(host) {
            return None;
        }
        let message = format!(
            "Host '{}' refused: use 127.0.0.1, [::1] or localhost, or set api_token",
            host.escape_debug()
        );
        Some(HttpResponse::error(403, &message))
    }
}

/// Returns whether a Host is a loopback address or `localhost`, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    inside.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || inside.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::super::http::{Parsed, parse};
    use super::*;

    fn status(access: &AdminAccess, headers: &str) -> u16 {
        let request = HttpRequest::of(&format!("GET /metrics HTTP/1.1\r\n{headers}\r\n"));
        access.refusal(&request).map_or(200, |response| response.status)
    }

    #[test]
    fn pages_of_other_origins_and_rebound_names_are_refused() {
        let access = AdminAccess::default();
        for (headers, expected) in [
            ("Host: 127.0.0.1:10000\r\n", 200),
            ("Host: localhost:10000\r\n", 200),
            ("Host: [::1]:10000\r\n", 200),
            ("Host: [::1]\r\n", 200),
            ("", 200),
            ("Host: 127.1.2.3:10000\r\n", 200),
            ("Host: 0.0.0.0:10000\r\n", 403),
            ("Host: 0.0.0.0:10000\r\nOrigin: http://0.0.0.0:10000\r\n", 403),
            ("Host: [::]:10000\r\n", 403),
            ("Host: 10.0.0.3:10000\r\n", 403),
            ("Host: evil.example:10000\r\n", 403),
            ("Host: 127.0.0.1.evil.example\r\n", 403),
            ("Host: localhost.evil.example\r\n", 403),
            ("Host: \r\n", 403),
            ("Host: 127.0.0.1:10000\r\nOrigin: http://127.0.0.1:10000\r\n", 200),
            ("Host: 127.0.0.1:10000\r\nOrigin: http://127.0.0.1:8080\r\n", 403),
            ("Host: 127.0.0.1:10000\r\nOrigin: http://evil.example\r\n", 403),
            ("Host: 127.0.0.1:10000\r\nOrigin: null\r\n", 403),
            ("Host: 127.0.0.1:10000\r\nSec-Fetch-Site: cross-site\r\n", 403),
            ("Host: 127.0.0.1:10000\r\nSec-Fetch-Site: none\r\n", 200),
        ] {
            assert_eq!(status(&access, headers), expected, "{headers}");
        }
    }

    #[test]
    fn a_token_is_asked_for_and_lets_any_name_of_the_node_pass() {
        let token = Some(AdminToken::new("secret"));
        let access = AdminAccess { token, acceptor: None };
        assert!(!format!("{access:?}").contains("secret"));
        for (headers, expected) in [
            ("Host: node7:10000\r\nAuthorization: Bearer secret\r\n", 200),
            ("Host: node7:10000\r\nauthorization: bearer  secret\r\n", 200),
            ("Host: 127.0.0.1\r\n", 401),
            ("Host: 127.0.0.1\r\nAuthorization: Bearer secre\r\n", 401),
            ("Host: 127.0.0.1\r\nAuthorization: Bearer secretsecret\r\n", 401),
            ("Host: 127.0.0.1\r\nAuthorization: Bearer \r\n", 401),
            ("Host: 127.0.0.1\r\nAuthorization: Basic secret\r\n", 401),
            ("Host: node7\r\nAuthorization: Bearer secret\r\nOrigin: http://evil\r\n", 403),
        ] {
            assert_eq!(status(&access, headers), expected, "{headers}");
        }
    }

    #[test]
    fn a_header_that_comes_twice_is_refused() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
        assert!(
            matches!(parse(text.as_bytes()), Parsed::Refused(response) if response.status == 400)
        );
    }
}
