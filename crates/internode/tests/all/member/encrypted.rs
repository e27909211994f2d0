//! Tests a member whose connections have TLS: it joins, stores a batch, refuses strangers, verifies
//! addresses, and reads new certificates. A flood of connections without a handshake keeps no peer
//! out.
#![allow(clippy::disallowed_methods, reason = "certificates are written before anything runs")]

use std::path::Path;

use espalier_runtime::net::tls::{ClientCertificates, TlsOptions, TlsVersion};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;

/// Makes an authority and three certificates in a directory, the last without an address, and
/// returns the options of TLS with each of them.
fn certificates(directory: &Path) -> [TlsOptions; 3] {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let truststore = directory.join("authority.pem");
    std::fs::write(&truststore, issuer.pem()).unwrap();
    [("one.pem", "127.0.0.1"), ("two.pem", "127.0.0.1"), ("three.pem", "node")].map(|names| {
        let (key, path) = (KeyPair::generate().unwrap(), directory.join(names.0));
        let parameters = CertificateParams::new(vec![names.1.into()]).unwrap();
        let signed = parameters.signed_by(&key, &issuer).unwrap();
        std::fs::write(&path, format!("{}{}", key.serialize_pem(), signed.pem())).unwrap();
        TlsOptions {
            certificate: path.clone(),
            key: path,
            truststore: Some(truststore.clone()),
            client_certificates: ClientCertificates::Required,
            versions: vec![TlsVersion::V1_2, TlsVersion::V1_3],
            cipher_suites: Vec::new(),
        }
    })
}

async fn both_sides(options: TlsOptions) -> Tls {
    let acceptor = TlsAcceptor::load(options.clone()).await.unwrap();
    Tls(acceptor, TlsConnector::load(options, false).await.unwrap())
}

/// Returns true if the member accepts the handshake of the messaging protocol.
async fn is_taken(stream: &TcpStream, from: SocketAddr) -> bool {
    let (kind, framing) = (ConnectionKind::Small, Framing::Crc);
    let mut bytes = Vec::new();
    Initiate { min_version: 12, max_version: 13, kind, framing, from }.encode(&mut bytes);
    stream.write_all(bytes).await.0.is_ok() && {
        let mut buffer = BytesMut::new();
        // An alert of TLS is no answer.
        read_some(stream, &mut buffer).await > 0
            && Accept::decode(&Bytes::copy_from_slice(&buffer)).is_ok_and(|found| found.is_some())
    }
}

fn encryption(options: &TlsOptions) -> RingEncryption {
    RingEncryption {
        options: options.clone(),
        is_opened: true,
        handshake: Handshake::Required,
        verifies_addresses: false,
    }
}

/// Opens a connection with TLS, and returns true if the member accepts its handshakes.
async fn is_taken_with(options: &TlsOptions, own: SocketAddr, from: SocketAddr) -> bool {
    let Tls(_, connector) = both_sides(options.clone()).await;
    let stream = TcpStream::connect(own).await.unwrap();
    match connector.connect(stream, own.ip()).await {
        Ok(stream) => is_taken(&stream, from).await,
        Err(_) => false,
    }
}

#[test]
fn a_member_with_tls_takes_writes_of_its_ring_alone() {
    let [ours, foreign] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let ([one, two, _], [stranger, ..]) = (certificates(ours.path()), certificates(foreign.path()));
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let tls = (Some(both_sides(two).await), Some(encryption(&one)));
        let (peer, own, member) = ring_over(&node, false, None, tls).await;
        let batch = Payload::BatchStore(recorded_batch());
        peer.send(own, 7, Verb::BATCH_STORE_REQ, batch).await;
        until("the answer", || peer.count(Verb::BATCH_STORE_RSP) == 1).await;
        assert_eq!(node.0.batches.borrow().len(), 1);
        let plain = TcpStream::connect(own).await.unwrap();
        assert!(!is_taken(&plain, peer.address).await);
        let trusted = TlsOptions { truststore: one.truststore, ..stranger };
        let Tls(_, connector) = both_sides(trusted).await;
        let stream = TcpStream::connect(own).await.unwrap();
        // With TLS 1.3, the client learns with its first read that its certificate is refused.
        if let Ok(stream) = connector.connect(stream, own.ip()).await {
            assert!(!is_taken(&stream, peer.address).await);
        }
        member.stop().await;
    });
}

#[test]
fn a_member_that_verifies_addresses_does_so_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let [one, two, without_address] = certificates(directory.path());
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let verifying = RingEncryption { verifies_addresses: true, ..encryption(&one) };
        let tls = (Some(both_sides(two.clone()).await), Some(verifying));
        // To join, the member has opened a connection, and the peer's certificate has the peer's
        // address.
        let (peer, own, member) = ring_over(&node, false, None, tls).await;
        assert!(is_taken_with(&two, own, peer.address).await);
        assert!(!is_taken_with(&without_address, own, peer.address).await);
        member.stop().await;
    });
}

#[test]
fn a_member_reads_new_certificates() {
    let [ours, later] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let ([one, two, _], [new, new_peer, _]) =
        (certificates(ours.path()), certificates(later.path()));
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let tls = (Some(both_sides(two).await), Some(encryption(&one)));
        let (peer, own, member) = ring_over(&node, false, None, tls).await;
        assert!(!member.reload_certificates().await.unwrap());
        assert!(!is_taken_with(&new_peer, own, peer.address).await);
        std::fs::copy(new.certificate, &one.certificate).unwrap();
        std::fs::copy(new.truststore.unwrap(), one.truststore.unwrap()).unwrap();
        assert!(member.reload_certificates().await.unwrap());
        assert!(is_taken_with(&new_peer, own, peer.address).await);
        std::fs::write(&one.certificate, "damaged").unwrap();
        assert!(member.reload_certificates().await.is_err());
        assert!(is_taken_with(&new_peer, own, peer.address).await);
        member.stop().await;
    });
}

/// The first step of a change to TLS: `internode_encryption: none` with `optional: true`.
#[test]
fn a_member_takes_tls_and_opens_plain_connections() {
    let directory = tempfile::tempdir().unwrap();
    let [one, two, _] = certificates(directory.path());
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let handshake = Handshake::Optional;
        let optional = RingEncryption { is_opened: false, handshake, ..encryption(&one) };
        let (peer, own, member) = ring_over(&node, false, None, (None, Some(optional))).await;
        assert!(is_taken_with(&two, own, peer.address).await);
        assert!(is_taken(&TcpStream::connect(own).await.unwrap(), peer.address).await);
        member.stop().await;
    });
}

#[test]
fn connections_without_a_handshake_keep_no_peer_out() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let mut idle = Vec::new();
        for _ in 0..200 {
            idle.push(TcpStream::connect(own).await.unwrap());
        }
        assert!(is_taken(&TcpStream::connect(own).await.unwrap(), peer.address).await);
        // The member closed the oldest idle connection to make room.
        let first = idle.swap_remove(0);
        let closed = time::timeout(Duration::from_secs(5), first.read(BytesMut::with_capacity(1)));
        assert!(closed.await.is_ok());
        member.stop().await;
    });
}
