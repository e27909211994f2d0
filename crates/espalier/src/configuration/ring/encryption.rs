//! Resolves `server_encryption_options`: TLS between nodes, by the names of cassandra.yaml.

use std::path::PathBuf;

use espalier_internode::ring::RingEncryption;
use espalier_runtime::net::tls::{ClientCertificates, Handshake};

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
    /// Returns the TLS between nodes; `None` if their connections are plain. With `optional`, the
    /// node accepts connections with and without TLS, even if it opens plain ones.
    pub(super) fn encryption(&self) -> Result<Option<RingEncryption>, ConfigurationError> {
        let is_opened = match self.text(ENCRYPTION)? {
            None | Some("none") => false,
            Some("all") => true,
            Some(_) => return Err(self.bad(ENCRYPTION, "expected all or none")),
        };
        let is_optional = self.is_true(OPTIONAL)?;
        if !is_opened && !is_optional {
            return Ok(None);
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
        if is_opened && options.truststore.is_none() {
            let reason = "a PEM file with the certificates that may sign those of nodes is needed";
            return Err(self.bad(TRUSTSTORE, reason));
        }
        let verifies_addresses = self.is_true(VERIFICATION)?;
        if verifies_addresses && options.client_certificates != ClientCertificates::Required {
            let reason = "a peer that connects shows no certificate: give require_client_auth: \
                          true, too";
            return Err(self.bad(VERIFICATION, reason));
        }
        Ok(Some(RingEncryption {
            options,
            is_opened,
            handshake: if is_optional { Handshake::Optional } else { Handshake::Required },
            verifies_addresses,
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
