//! Tests that an acceptor and a connector of two nodes accept each other by the authority of their
//! certificates.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use espalier_runtime::net::tls::{
    ClientCertificates, Handshake, TlsAcceptor, TlsConnector, TlsOptions, TlsVersion,
};
use espalier_runtime::net::{ListenOptions, TcpListener, TcpStream};
use espalier_runtime::{block_on, spawn_local};

use crate::tls::{Authority, options};

/// Returns whether a byte comes back from an acceptor over a connection of the connector.
async fn meets(acceptor: &Arc<TlsAcceptor>, connector: &TlsConnector) -> bool {
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = TcpListener::bind(local, ListenOptions::default()).unwrap();
    let address = listener.local_address().unwrap();
    let acceptor = Arc::clone(acceptor);
    let accepting = spawn_local(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(stream) = acceptor.accept(stream, Handshake::Required).await else { return };
        let (count, buffer) = stream.read(BytesMut::with_capacity(8)).await;
        if count.is_ok_and(|count| count > 0) {
            let _ = stream.write_all(buffer.freeze()).await;
        }
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let is_met = match connector.connect(stream, address.ip()).await {
        Err(_) => false,
        Ok(stream) => {
            assert!(stream.tls().is_some());
            let written = stream.write_all(Bytes::from_static(b"x")).await.0;
            let (count, buffer) = stream.read(BytesMut::with_capacity(8)).await;
            written.is_ok() && count.is_ok_and(|count| count == 1) && buffer == "x"
        }
    };
    accepting.await;
    is_met
}

#[test]
fn nodes_of_one_authority_meet_and_others_do_not() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (ours, foreign) = (Authority::new(one.path()), Authority::new(two.path()));
    let with = |signer: &Authority, trusted: &Path, version| TlsOptions {
        truststore: Some(trusted.join("authority.pem")),
        client_certificates: ClientCertificates::Required,
        versions: vec![version],
        ..options(signer.sign("node.pem"))
    };
    block_on(async {
        for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
            let acceptor = TlsAcceptor::load(with(&ours, one.path(), version)).await.unwrap();
            let pem = ours.sign_for("127.0.0.1", "address.pem");
            let own = with(&ours, one.path(), version);
            let named = TlsOptions { certificate: pem.clone(), key: pem, ..own.clone() };
            let named = TlsAcceptor::load(named).await.unwrap();
            let connector = TlsConnector::load(own, true).await.unwrap();
            assert!(meets(&named, &connector).await, "{version:?} with the address");
            // The certificate names localhost, and not the address.
            for (signer, trusted, verifies_addresses, expected) in [
                (&ours, one.path(), false, true),
                (&ours, one.path(), true, false),
                (&foreign, one.path(), false, false),
                (&ours, two.path(), false, false),
            ] {
                let options = with(signer, trusted, version);
                let connector = TlsConnector::load(options, verifies_addresses).await.unwrap();
                let found = meets(&acceptor, &connector).await;
                assert_eq!(found, expected, "{version:?} {verifies_addresses}");
            }
        }
        let without = TlsOptions { truststore: None, ..with(&ours, one.path(), TlsVersion::V1_3) };
        assert!(TlsConnector::load(without, false).await.is_err());
    });
}
