//! Resolves `client_encryption_options` and `api_encryption_options`: TLS for CQL clients and for
//! the admin API. The names below these sections are those of cassandra.yaml and scylla.yaml.
//!
//! Cassandra's `keystore` is here a PEM file with key and certificates, as for its
//! `PEMBasedSslContextFactory`; ScyllaDB's `certificate` and `keyfile` are two files.

use std::path::PathBuf;

use espalier_runtime::net::tls::{ClientCertificates, Handshake, TlsOptions, TlsVersion};

use super::error::ConfigurationError;
use super::settings::{Draft, EncryptionDraft};

/// The settings of encrypted CQL connections. They fit together; their files are not yet read.
#[derive(Clone, Debug)]
pub struct ClientEncryptionSettings {
    /// Files and choices of TLS.
    pub options: TlsOptions,
    /// Says if clients must use TLS on the encrypted ports.
    pub handshake: Handshake,
    /// `native_transport_port_ssl`, if it differs from `native_transport_port`.
    pub port: Option<u16>,
    /// `native_shard_aware_transport_port_ssl`.
    pub shard_aware_port: Option<u16>,
}

/// Returns the settings; `None` if neither `enabled` nor `optional` is true.
pub(super) fn resolve(
    draft: &Draft,
    plain_port: u16,
) -> Result<Option<ClientEncryptionSettings>, ConfigurationError> {
    let encryption = &draft.client_encryption;
    let is_optional = encryption.optional.unwrap_or(false);
    if !encryption.enabled.unwrap_or(false) && !is_optional {
        let port = draft.native_transport_port_ssl.or(draft.native_shard_aware_port_ssl);
        return match port {
            None => Ok(None),
            Some(_) => Err(inconsistent(
                "native_transport_port_ssl needs client_encryption_options.enabled: true",
            )),
        };
    }
    let handshake = if is_optional { Handshake::Optional } else { Handshake::Required };
    let options = options("client_encryption_options", encryption)?;
    Ok(Some(ClientEncryptionSettings {
        options,
        handshake,
        port: draft.native_transport_port_ssl.filter(|port| *port != plain_port),
        shard_aware_port: draft.native_shard_aware_port_ssl,
    }))
}

/// Returns the options of the admin API's TLS; `None` if it is plain.
pub(super) fn resolve_api(draft: &Draft) -> Result<Option<TlsOptions>, ConfigurationError> {
    let encryption = &draft.api_encryption;
    let is_enabled = encryption.enabled.unwrap_or(false);
    is_enabled.then(|| options("api_encryption_options", encryption)).transpose()
}

/// Returns the options of a section of settings. Errors show the section's `name`.
pub(super) fn options(
    name: &str,
    encryption: &EncryptionDraft,
) -> Result<TlsOptions, ConfigurationError> {
    let [certificate, key] = files(name, encryption)?;
    let client_certificates = match encryption.require_client_auth.as_deref() {
        Some("true") => ClientCertificates::Required,
        Some("optional") => ClientCertificates::Asked,
        _ => ClientCertificates::NotAsked,
    };
    if client_certificates != ClientCertificates::NotAsked && encryption.truststore.is_none() {
        return Err(inconsistent(&format!(
            "{name}.require_client_auth needs a truststore: a PEM file with the certificates that \
             may sign those of clients"
        )));
    }
    Ok(TlsOptions {
        certificate,
        key,
        truststore: encryption.truststore.clone(),
        client_certificates,
        versions: versions(name, encryption)?,
        cipher_suites: encryption.cipher_suites.clone().unwrap_or_default(),
    })
}

/// Returns the files of certificate and key.
fn files(name: &str, encryption: &EncryptionDraft) -> Result<[PathBuf; 2], ConfigurationError> {
    let given = (&encryption.keystore, &encryption.certificate, &encryption.keyfile);
    match given {
        (Some(both), None, None) => Ok([both.clone(), both.clone()]),
        (None, Some(certificate), Some(key)) => Ok([certificate.clone(), key.clone()]),
        _ => Err(inconsistent(&format!(
            "{name} needs a keystore (a PEM file with key and certificates), or both certificate \
             and keyfile"
        ))),
    }
}

/// Returns the versions of `accepted_protocols`, or of `protocol`. If neither is given, returns TLS
/// 1.2 and 1.3.
fn versions(
    name: &str,
    encryption: &EncryptionDraft,
) -> Result<Vec<TlsVersion>, ConfigurationError> {
    let names = match (&encryption.accepted_protocols, &encryption.protocol) {
        (Some(names), _) => names.clone(),
        (None, Some(name)) => vec![name.clone()],
        (None, None) => vec!["TLS".to_owned()],
    };
    let mut versions = Vec::new();
    for version in &names {
        match version.as_str() {
            "TLS" => versions.extend([TlsVersion::V1_2, TlsVersion::V1_3]),
            "TLSv1.2" => versions.push(TlsVersion::V1_2),
            "TLSv1.3" => versions.push(TlsVersion::V1_3),
            version => {
                return Err(inconsistent(&format!(
                    "{name}: {version} is not supported here, only TLSv1.2 and TLSv1.3"
                )));
            }
        }
    }
    if versions.is_empty() {
        return Err(inconsistent(&format!(
            "{name}.accepted_protocols is empty; give TLSv1.2, TLSv1.3 or both"
        )));
    }
    Ok(versions)
}

fn inconsistent(message: &str) -> ConfigurationError {
    ConfigurationError::Inconsistent(message.to_owned())
}
