//! Resolves the settings of a member of a Cassandra ring, by the names of cassandra.yaml.
//!
//! These settings have an effect only with `join_ring: true`. A node without `join_ring` is a
//! cluster of its own and ignores the others, so that a stock cassandra.yaml starts such a node.

mod encryption;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use espalier_internode::MessagingVersion;
use espalier_internode::ring::{Compression, RingSettings};
use espalier_mutation::Token;

use super::document::Value;
use super::error::{ConfigurationError, Origin};
use super::rack::place_of;

/// The setting that makes the node a member of a ring.
const JOIN: &str = "join_ring";
/// The setting that gives the node the place and the files of a Cassandra node.
const REPLACE: &str = "replace_in_place";
/// The keys of this module, besides those of TLS.
const OWN_KEYS: [&str; 11] = [
    JOIN,
    REPLACE,
    "seed_provider",
    "listen_address",
    "broadcast_address",
    "storage_port",
    "initial_token",
    "num_tokens",
    "auto_bootstrap",
    "endpoint_snitch",
    COMPRESSION,
];
/// The setting that says which connections between nodes are compressed.
const COMPRESSION: &str = "internode_compression";
const IGNORED: &str = "one node holds the whole ring, unless join_ring is true";
const DEFAULT_STORAGE_PORT: u16 = 7000;
/// Cassandra's default of `ring_delay_ms`.
const RING_DELAY: Duration = Duration::from_secs(30);

/// The given settings, by key.
#[derive(Debug, Default)]
pub(super) struct Given(BTreeMap<String, (Value, Origin)>);

/// Returns whether the key belongs to this module.
pub(super) fn is_key(key: &str) -> bool {
    keys().any(|known| known == key)
}

/// Returns all keys of this module.
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    OWN_KEYS.into_iter().chain(encryption::KEYS)
}

impl Given {
    /// Adds a key for which [`is_key`] is true.
    pub(super) fn take(&mut self, key: String, value: Value, origin: Origin) {
        if value != Value::Null {
            self.0.insert(key, (value, origin));
        }
    }

    /// Returns the settings of a member. Without `join_ring`, returns `None` and adds the given
    /// keys to `ignored`. `rack_file` is the content of the file of GossipingPropertyFileSnitch.
    pub(super) fn resolve(
        &self,
        cluster_name: &str,
        version: MessagingVersion,
        rack_file: Option<&[u8]>,
        ignored: &mut Vec<(String, &'static str)>,
    ) -> Result<Option<RingSettings>, ConfigurationError> {
        if !self.is_true(JOIN)? {
            let given = self.0.keys().filter(|key| *key != JOIN);
            ignored.extend(given.map(|key| (key.clone(), IGNORED)));
            return Ok(None);
        }
        let port = self.port()?;
        let listen = self.address("listen_address", port)?;
        let listen = listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], port)));
        if listen.ip().is_unspecified() {
            let reason = "peers cannot connect to this address; give the one of an interface";
            return Err(self.bad("listen_address", reason));
        }
        let broadcast = self.address("broadcast_address", port)?.unwrap_or(listen);
        if broadcast.ip().is_unspecified() {
            return Err(self.bad("broadcast_address", "peers cannot connect to this address"));
        }
        let replaces = self.replaces()?;
        if !replaces {
            self.check_bootstrap()?;
        }
        let (data_center, rack) = place_of(self.0.get("endpoint_snitch"), rack_file)?;
        Ok(Some(RingSettings {
            cluster_name: cluster_name.to_owned(),
            listen,
            broadcast,
            seeds: self.seeds(port)?,
            tokens: self.tokens(replaces)?,
            data_center,
            rack,
            compression: self.compression()?,
            encryption: self.encryption()?,
            version,
            ring_delay: RING_DELAY,
        }))
    }

    /// Returns whether the node replaces a Cassandra node.
    pub(super) fn replaces(&self) -> Result<bool, ConfigurationError> {
        Ok(self.is_true(JOIN)? && self.is_true(REPLACE)?)
    }

    fn is_true(&self, key: &'static str) -> Result<bool, ConfigurationError> {
        match self.text(key)? {
            None => Ok(false),
            Some(text) if text == "1" || text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text == "0" || text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.bad(key, "expected true or false")),
        }
    }

    fn text(&self, key: &'static str) -> Result<Option<&str>, ConfigurationError> {
        match self.0.get(key) {
            None => Ok(None),
            Some((Value::Scalar(text), _)) => Ok(Some(text)),
            Some(_) => Err(self.bad(key, "expected one value")),
        }
    }

    fn bad(&self, key: &str, reason: impl Into<String>) -> ConfigurationError {
        let (value, origin) = match self.0.get(key) {
            Some((value, origin)) => (value.to_string(), origin.clone()),
            None => ("nothing".to_owned(), Origin::Set),
        };
        ConfigurationError::BadValue { origin, key: key.to_owned(), value, reason: reason.into() }
    }

    fn port(&self) -> Result<u16, ConfigurationError> {
        let key = "storage_port";
        let Some(text) = self.text(key)? else { return Ok(DEFAULT_STORAGE_PORT) };
        let port = text.parse().ok().filter(|port| *port > 0);
        port.ok_or_else(|| self.bad(key, "expected a port, from 1 to 65535"))
    }

    fn address(
        &self,
        key: &'static str,
        port: u16,
    ) -> Result<Option<SocketAddr>, ConfigurationError> {
        let Some(name) = self.text(key)? else { return Ok(None) };
        let found = host_and_port(name, port).and_then(|name| resolved(&name));
        found.map(Some).map_err(|reason| self.bad(key, reason))
    }

    /// Reads the tokens: one, or several with commas between them. A node that replaces a Cassandra
    /// node needs no `initial_token`, because the Cassandra node's files have the tokens.
    fn tokens(&self, replaces: bool) -> Result<Vec<Token>, ConfigurationError> {
        let key = "initial_token";
        let Some(text) = self.text(key)? else {
            if replaces {
                return Ok(Vec::new());
            }
            return Err(self.bad(key, "a node joins a ring with given tokens"));
        };
        let parse = |token: &str| token.trim().parse().map(Token).ok();
        let tokens = text.split(',').map(parse).collect::<Option<Vec<_>>>();
        let tokens = tokens.ok_or_else(|| self.bad(key, "expected 64-bit numbers with commas"))?;
        if tokens.iter().collect::<BTreeSet<_>>().len() < tokens.len() {
            return Err(self.bad(key, "a token is given twice"));
        }
        let number = self.text("num_tokens")?.map(str::to_owned);
        if number.is_some_and(|number| number.parse() != Ok(tokens.len())) {
            let reason = format!("initial_token has {} tokens", tokens.len());
            return Err(self.bad("num_tokens", reason));
        }
        Ok(tokens)
    }

    fn compression(&self) -> Result<Compression, ConfigurationError> {
        match self.text(COMPRESSION)? {
            None | Some("none") => Ok(Compression::None),
            Some("dc") => Ok(Compression::BetweenDataCenters),
            Some("all") => Ok(Compression::All),
            Some(_) => Err(self.bad(COMPRESSION, "expected all, dc or none")),
        }
    }

    fn check_bootstrap(&self) -> Result<(), ConfigurationError> {
        match self.text("auto_bootstrap")? {
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(()),
            _ => Err(self
                .bad("auto_bootstrap", "this node cannot stream data from others yet; give false")),
        }
    }

    /// Reads the seeds: `[{class_name: SimpleSeedProvider, parameters: [{seeds: "a, b:7000"}]}]`.
    fn seeds(&self, port: u16) -> Result<Vec<SocketAddr>, ConfigurationError> {
        let key = "seed_provider";
        let shape = "expected [{class_name: SimpleSeedProvider, parameters: [{seeds: ADDRESSES}]}]";
        let text = self.0.get(key).and_then(|(value, _)| seeds_of(value));
        let text = text.ok_or_else(|| self.bad(key, shape))?;
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let (mut seeds, mut reasons) = (Vec::new(), Vec::new());
        for name in names {
            let name = host_and_port(name, port).map_err(|reason| self.bad(key, reason))?;
            match resolved(&name) {
                Ok(seed) => seeds.push(seed),
                Err(reason) => {
                    tracing::warn!(seed = name.0, reason, "left out a seed without an address");
                    reasons.push(reason);
                }
            }
        }
        if seeds.is_empty() {
            let reason = reasons.pop().unwrap_or_else(|| "there is no seed".into());
            return Err(self.bad(key, reason));
        }
        Ok(seeds)
    }
}

fn seeds_of(provider: &Value) -> Option<&str> {
    let Value::Scalar(class) = field(provider, "class_name")? else { return None };
    if class.rsplit('.').next() != Some("SimpleSeedProvider") {
        return None;
    }
    match field(field(provider, "parameters")?, "seeds")? {
        Value::Scalar(seeds) => Some(seeds),
        _ => None,
    }
}

/// Returns a field of the first item of a list of maps.
fn field<'v>(list: &'v Value, name: &str) -> Option<&'v Value> {
    let Value::List(items) = list else { return None };
    let Value::Map(fields) = items.first()? else { return None };
    fields.iter().find(|(key, ..)| key == name).map(|(_, _, value)| value)
}

/// Parses an address or a name, with or without a port.
fn host_and_port(name: &str, port: u16) -> Result<(String, u16), String> {
    if let Ok(address) = name.parse::<SocketAddr>() {
        return Ok((address.ip().to_string(), address.port()));
    }
    match name.rsplit_once(':') {
        Some((host, given)) if !host.contains(':') => {
            let port = given.parse().map_err(|_| format!("{given} is no port"))?;
            Ok((host.to_owned(), port))
        }
        _ => Ok((name.to_owned(), port)),
    }
}

fn resolved((host, port): &(String, u16)) -> Result<SocketAddr, String> {
    let found = (host.as_str(), *port).to_socket_addrs();
    let mut found = found.map_err(|error| format!("{host}: {error}"))?;
    found.next().ok_or_else(|| format!("{host} has no address"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use espalier_runtime::net::tls::{ClientCertificates, Handshake, TlsVersion};

    use super::super::document::parse_file;
    use super::*;

    fn resolve(file: &str) -> Result<Option<RingSettings>, String> {
        let mut given = Given::default();
        let entries = parse_file(std::path::Path::new("c.yaml"), file.as_bytes()).unwrap();
        for entry in entries {
            given.take(entry.key, entry.value, entry.origin);
        }
        let resolved = given.resolve("a ring", MessagingVersion::V12, None, &mut Vec::new());
        resolved.map_err(|error| error.to_string())
    }

    const MEMBER: &str = "
join_ring: true
auto_bootstrap: false
initial_token: -5, 7
listen_address: 127.0.0.2
storage_port: 7070
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: 127.0.0.1, 127.0.0.3:7001
";

    #[test]
    fn a_ring_member_takes_address_tokens_and_seeds_from_the_file() {
        let ring = resolve(MEMBER).unwrap().unwrap();
        assert_eq!(ring.listen, "127.0.0.2:7070".parse().unwrap());
        assert_eq!(ring.broadcast, ring.listen);
        assert_eq!(ring.tokens, [Token(-5), Token(7)]);
        let seeds = ["127.0.0.1:7070", "127.0.0.3:7001"].map(|seed| seed.parse().unwrap());
        assert_eq!(ring.seeds, seeds);
    }

    #[test]
    fn a_seed_without_an_address_is_left_out_if_another_has_one() {
        let unknown = MEMBER.replace("127.0.0.1,", "not a name,");
        let seeds = ["127.0.0.3:7001".parse().unwrap()];
        assert_eq!(resolve(&unknown).unwrap().unwrap().seeds, seeds);
        let none = unknown.replace("127.0.0.3:7001", "nor this");
        assert!(resolve(&none).unwrap_err().contains("nor this"));
        let port = MEMBER.replace("7001", "x");
        assert!(resolve(&port).unwrap_err().contains("x is no port"));
    }

    #[test]
    fn server_encryption_options_set_encryption_between_nodes() {
        assert_eq!(resolve(MEMBER).unwrap().unwrap().encryption, None);
        let file = format!(
            "{MEMBER}server_encryption_options:\n  internode_encryption: all\n  keystore: n.pem\n  \
             truststore: t.pem\n  require_client_auth: true\n  \
             require_endpoint_verification: true\n  accepted_protocols: [TLSv1.3]\n"
        );
        let encryption = resolve(&file).unwrap().unwrap().encryption.unwrap();
        assert!(encryption.verifies_addresses);
        assert_eq!(encryption.handshake, Handshake::Required);
        assert_eq!(encryption.options.client_certificates, ClientCertificates::Required);
        assert_eq!(encryption.options.versions, [TlsVersion::V1_3]);
        assert_eq!(encryption.options.key, Path::new("n.pem"));
        let optional = resolve(&format!("{file}  optional: true\n")).unwrap().unwrap();
        assert_eq!(optional.encryption.unwrap().handshake, Handshake::Optional);
        let plain = file.replace("internode_encryption: all", "internode_encryption: none");
        assert_eq!(resolve(&plain).unwrap().unwrap().encryption, None);
        let first = resolve(&format!("{plain}  optional: true\n")).unwrap().unwrap();
        let first = first.encryption.unwrap();
        assert_eq!((first.is_opened, first.handshake), (false, Handshake::Optional));
        assert!(encryption.is_opened);
    }

    #[test]
    fn a_node_of_its_own_ignores_all() {
        assert_eq!(resolve(&MEMBER.replace("true", "false")), Ok(None));
        assert_eq!(resolve("seed_provider: nonsense\n"), Ok(None));
    }

    #[test]
    fn a_node_that_replaces_another_finds_its_tokens_in_the_files() {
        let file = MEMBER.replace("auto_bootstrap: false\ninitial_token: -5, 7", "num_tokens: 16");
        let ring = resolve(&format!("{file}replace_in_place: true\n")).unwrap().unwrap();
        assert_eq!(ring.tokens, []);
        assert!(resolve(&file).is_err());
    }

    #[test]
    fn settings_that_a_ring_member_does_not_support_are_refused() {
        for (given, instead, reason) in [
            ("auto_bootstrap: false", "auto_bootstrap: true", "cannot stream data"),
            ("initial_token: -5, 7", "initial_token: x", "expected 64-bit numbers"),
            ("initial_token: -5, 7", "num_tokens: 16", "given tokens"),
            ("join_ring: true", "join_ring: true\nnum_tokens: 1", "initial_token has 2 tokens"),
            ("SimpleSeedProvider", "K8SeedProvider", "expected [{class_name"),
            ("join_ring: true", "join_ring: true\nendpoint_snitch: Ec2Snitch", "SimpleSnitch"),
            ("127.0.0.2", "0.0.0.0", "peers cannot connect"),
            ("join_ring: true", "join_ring: true\nbroadcast_address: 0.0.0.0", "peers cannot"),
            ("join_ring: true", "join_ring: maybe", "expected true or false"),
            (
                "join_ring: true",
                "join_ring: true\nserver_encryption_options: {internode_encryption: rack}",
                "expected all or none",
            ),
            (
                "join_ring: true",
                "join_ring: true\nserver_encryption_options: {internode_encryption: all}",
                "needs a keystore",
            ),
            (
                "join_ring: true",
                "join_ring: true\nserver_encryption_options: {internode_encryption: all, \
                 keystore: n.pem}",
                "that may sign those of nodes",
            ),
            (
                "join_ring: true",
                "join_ring: true\nserver_encryption_options: {internode_encryption: all, \
                 keystore: n.pem, truststore: t.pem, require_endpoint_verification: true}",
                "give require_client_auth: true",
            ),
            ("join_ring: true", "join_ring: true\ninternode_compression: some", "all, dc or none"),
            ("initial_token: -5, 7", "initial_token: 7, 7", "a token is given twice"),
        ] {
            let error = resolve(&MEMBER.replace(given, instead)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
