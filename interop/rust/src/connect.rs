//! Sessions as the environment asks for them: users, TLS and certificates.

use std::env::var;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::Outcome;

/// Returns a session with the node at `HOST:PORT`.
pub async fn connect(address: &str) -> Outcome<Session> {
    let mut builder =
        SessionBuilder::new().known_node(address).connection_timeout(Duration::from_secs(20));
    if let Ok(user) = var("CQL_USER") {
        builder = builder.user(user, var("CQL_PASSWORD")?);
    }
    if let Ok(authority) = var("CQL_AUTHORITY") {
        builder = builder.tls_context(Some(Arc::new(tls(&authority)?)));
    }
    Ok(builder.build().await?)
}

fn tls(authority: &str) -> Outcome<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let versions = match var("CQL_TLS").as_deref() {
        Ok("1.2") => vec![&TLS12],
        Ok("1.3") => vec![&TLS13],
        _ => vec![&TLS12, &TLS13],
    };
    let config =
        ClientConfig::builder_with_protocol_versions(&versions).with_root_certificates(roots);
    Ok(match var("CQL_CERTIFICATE") {
        Ok(own) => config.with_client_auth_cert(
            vec![CertificateDer::from_pem_file(&own)?],
            PrivateKeyDer::from_pem_file(&own)?,
        )?,
        Err(_) => config.with_no_client_auth(),
    })
}

/// Connects, and prints the node's version or the driver's error.
pub async fn login(address: &str) -> Outcome<()> {
    let session = match connect(address).await {
        Ok(session) => session,
        Err(error) => {
            println!("error: {}", format!("{error}; {error:?}").replace('\n', " "));
            return Ok(());
        }
    };
    let answer = session.query_unpaged("SELECT release_version FROM system.local", ()).await?;
    println!("ok: {}", answer.into_rows_result()?.single_row::<(String,)>()?.0);
    Ok(())
}
