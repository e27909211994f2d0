//! Resolves `server_encryption_options`: TLS between nodes, by the names of cassandra.yaml.

use std::path::PathBuf;

use espalier_internode::ring::RingEncryption;
use espalier_runtime::net::tls::Handshake;

use super::super::client_encryption;
use super::super::document::Value;
use super::super::error::ConfigurationError;
use super::super::settings::EncryptionDraft;
use super::Given;

const SECTION: &str = "server_encryption_options";
/// The setting that says which connections between nodes have TLS.
const ENCRYPTION: &str = "server_encryption_options.internode_encryption";
const OPTIONAL: &str = "server_encryption_options.optional";
const REQUIRE_CLIENT_AUTH: &str = "server_encryption_options.require_client_auth";
const VERIFICATION: &str = "server_encryption_options.require_endpoint_verification";
const KEYSTORE: &str = "server_encryption_options.keystore";
const TRUSTSTORE: &str = "server_encryption_options.truststore";
const CERTIFICATE: &str = "server_encryption_options.certificate";
const KEYFILE: &str = "server_encryption_options.keyfile";
const PROTOCOL: &str = "server_encryption_options.protocol";
const PROTOCOLS: &str = "server_encryption_options.accepted_protocols";
const CIPHER_SUITES: &str = "server_encryption_options.cipher_suites";
/// All keys of this module.
pub(super) const KEYS: [&str; 11] = [
    ENCRYPTION,
    OPTIONAL,
    REQUIRE_CLIENT_AUTH,
    VERIFICATION,
    KEYSTORE,
    TRUSTSTORE,
    CERTIFICATE,
    KEYFILE,
    PROTOCOL,
    PROTOCOLS,
    CIPHER_SUITES,
];

impl Given {
    /// Returns the TLS between nodes; `None` if their connections are plain.
    pub(super) fn encryption(&self) -> Result<Option<RingEncryption>, ConfigurationError> {
        match self.text(ENCRYPTION)? {
            None | Some("none") => return Ok(None),
            Some("all") => {}
            Some(_) => return Err(self.bad(ENCRYPTION, "expected all or none")),
        }
        let require_client_auth = self.text(REQUIRE_CLIENT_AUTH)?.map(str::to_ascii_lowercase);
        let is_choice = |text: &String| ["false", "true", "optional"].contains(&text.as_str());
        if !require_client_auth.as_ref().is_none_or(is_choice) {
            return Err(self.bad(REQUIRE_CLIENT_AUTH, "expected true, false or optional"));
        }
        let path = |key| self.text(key).map(|text| text.map(PathBuf::from));
        let draft = EncryptionDraft {
            enabled: Some(true),
            optional: None,
            require_client_auth,
            keystore: path(KEYSTORE)?,
            truststore: path(TRUSTSTORE)?,
            certificate: path(CERTIFICATE)?,
            keyfile: path(KEYFILE)?,
            protocol: self.text(PROTOCOL)?.map(str::to_owned),
            accepted_protocols: self.texts(PROTOCOLS)?,
            cipher_suites: self.texts(CIPHER_SUITES)?,
        };
        let options = client_encryption::options(SECTION, &draft)?;
        if options.truststore.is_none() {
            let reason = "a PEM file with the certificates that may sign those of nodes is needed";
            return Err(self.bad(TRUSTSTORE, reason));
        }
        let is_optional = self.is_true(OPTIONAL)?;
        Ok(Some(RingEncryption {
            options,
            handshake: if is_optional { Handshake::Optional } else { Handshake::Required },
            verifies_addresses: self.is_true(VERIFICATION)?,
        }))
    }

    /// Reads a list, or one text with commas.
    fn texts(&self, key: &'static str) -> Result<Option<Vec<String>>, ConfigurationError> {
        let texts = match self.0.get(key) {
            None => return Ok(None),
            Some((Value::Scalar(text), _)) => {
                Some(text.split(',').map(|text| text.trim().to_owned()).collect())
            }
            Some((Value::List(items), _)) => items
                .iter()
                .map(|item| match item {
                    Value::Scalar(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
            Some(_) => None,
        };
        texts.map(Some).ok_or_else(|| self.bad(key, "expected a list"))
    }
}
