//! Tests that encrypted connections carry bytes as plain ones do, and which clients and options the
//! acceptor refuses. The clients are rustls over the standard library's sockets, in threads.
#![allow(clippy::disallowed_types, reason = "the clients are another program's part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as ClientSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::{Bytes, BytesMut};
use espalier_runtime::net::tls::{
    ClientCertificates, Handshake, TlsAcceptor, TlsError, TlsOptions, TlsVersion,
};
use espalier_runtime::net::{ListenOptions, Shutdown, TcpListener, TcpStream};
use espalier_runtime::{block_on, spawn_local};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A certificate authority and the files that it signed.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    pub fn new(directory: &Path) -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap());
        let authority = Authority { issuer: issuer.unwrap(), directory: directory.to_owned() };
        authority.write("authority.pem", &authority.issuer.pem());
        authority
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes a key with its certificate into one file.
    pub fn sign(&self, name: &str) -> PathBuf {
        self.sign_for("localhost", name)
    }

    /// Writes a key with a certificate for a host into one file.
    pub fn sign_for(&self, host: &str, name: &str) -> PathBuf {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![host.into()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        self.write(name, &format!("{}{}", key.serialize_pem(), certificate.pem()))
    }
}

pub fn options(pem: PathBuf) -> TlsOptions {
    TlsOptions {
        certificate: pem.clone(),
        key: pem,
        truststore: None,
        client_certificates: ClientCertificates::NotAsked,
        versions: vec![TlsVersion::V1_2, TlsVersion::V1_3],
        cipher_suites: Vec::new(),
    }
}

/// Connects a client that trusts the authority, and shows the certificate `own` if there is one.
fn connect(
    address: SocketAddr,
    authority: &Path,
    own: Option<&Path>,
    version: &'static rustls::SupportedProtocolVersion,
) -> StreamOwned<ClientConnection, ClientSocket> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let configuration = match own {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let certificate = CertificateDer::from_pem_file(path).unwrap();
            let key = PrivateKeyDer::from_pem_file(path).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(configuration), name).unwrap();
    StreamOwned::new(connection, ClientSocket::connect(address).unwrap())
}

/// Accepts one connection for each client, and sends back all that the client sends.
async fn echo(
    acceptor: &TlsAcceptor,
    handshake: Handshake,
    clients: usize,
    start: impl Fn(usize, SocketAddr) -> JoinHandle<()>,
) -> Vec<std::io::Result<Option<String>>> {
    let local = "127.0.0.1:0".parse().unwrap();
    let listener = TcpListener::bind(local, ListenOptions::default()).unwrap();
    let address = listener.local_address().unwrap();
    let mut outcomes = Vec::new();
    for number in 0..clients {
        let client = start(number, address);
        let (stream, _) = listener.accept().await.unwrap();
        let outcome = match acceptor.accept(stream, handshake).await {
            Ok(stream) => {
                let description = stream.tls().map(|tls| tls.protocol.to_owned());
                send_back(stream).await;
                Ok(description)
            }
            Err(error) => Err(error),
        };
        outcomes.push(outcome);
        espalier_runtime::spawn_blocking(move || client.join().unwrap()).await;
    }
    outcomes
}

async fn send_back(stream: TcpStream) {
    let (mut reading, mut writing) = stream.split();
    let (sender, mut receiver) = espalier_runtime::sync::channel::bounded::<Bytes>(4);
    let writer = spawn_local(async move {
        while let Some(bytes) = receiver.receive().await {
            writing.write_all(bytes).await.0.unwrap();
        }
        writing.stream().shutdown(Shutdown::Write).unwrap();
    });
    let mut size = 1;
    loop {
        // The sizes of the buffers vary, so that records end inside of buffers and beyond them.
        size = size * 5 % 70_001 + 1;
        let (count, mut buffer) = reading.read(BytesMut::with_capacity(size)).await;
        if count.unwrap() == 0 {
            break;
        }
        sender.send(buffer.split().freeze()).await.unwrap();
    }
    drop(sender);
    writer.await;
}

/// Sends three megabytes in parts, and reads each part back before it sends the next.
fn talk(mut stream: impl Read + Write) {
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    let mut back = Vec::new();
    for part in sent.chunks(99_991) {
        stream.write_all(part).unwrap();
        stream.flush().unwrap();
        let start = back.len();
        back.resize(start + part.len(), 0);
        stream.read_exact(&mut back[start..]).unwrap();
    }
    assert!(back == sent);
}

#[test]
fn bytes_go_both_ways_in_both_versions() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path());
    let pem = authority.sign("node.pem");
    let root = directory.path().join("authority.pem");
    block_on(async {
        let acceptor = TlsAcceptor::load(options(pem)).await.unwrap();
        let versions = [&rustls::version::TLS12, &rustls::version::TLS13];
        let outcomes = echo(&acceptor, Handshake::Required, 2, |number, address| {
            let root = root.clone();
            thread::spawn(move || {
                let mut stream = connect(address, &root, None, versions[number]);
                talk(&mut stream);
                stream.conn.send_close_notify();
                stream.flush().unwrap();
                stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
                // The node announces the end of its side. Without the announcement, rustls would
                // report an error.
                assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
            })
        });
        let protocols: Vec<_> = outcomes.await.into_iter().map(|one| one.unwrap()).collect();
        assert_eq!(protocols, [Some("TLSv1.2".to_owned()), Some("TLSv1.3".to_owned())]);
    });
}

/// Found by fuzzing: rustls asserts that it sends no alert after the announced end.
#[test]
fn a_broken_record_behind_the_end_is_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path());
    let (pem, root) = (authority.sign("node.pem"), directory.path().join("authority.pem"));
    block_on(async {
        let acceptor = TlsAcceptor::load(options(pem)).await.unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(local, ListenOptions::default()).unwrap();
        let address = listener.local_address().unwrap();
        let client = thread::spawn(move || {
            let mut stream = connect(address, &root, None, &rustls::version::TLS13);
            stream.write_all(b"x").unwrap();
            // The announced end has arrived.
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
            stream.sock.write_all(&[23, 3, 3, 0, 5, 1, 2, 3, 4, 5]).unwrap();
        });
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(stream, Handshake::Required).await.unwrap();
        let (count, buffer) = stream.read(BytesMut::with_capacity(8)).await;
        assert_eq!((count.unwrap(), &buffer[..]), (1, &b"x"[..]));
        stream.shutdown(Shutdown::Write).unwrap();
        let (count, _) = stream.read(BytesMut::with_capacity(8)).await;
        assert_eq!(count.unwrap(), 0);
        espalier_runtime::spawn_blocking(move || client.join().unwrap()).await;
    });
}

#[test]
fn a_plain_client_goes_on_only_if_that_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let pem = Authority::new(directory.path()).sign("node.pem");
    block_on(async {
        let acceptor = TlsAcceptor::load(options(pem)).await.unwrap();
        let start = |_, address| {
            thread::spawn(move || {
                let mut stream = ClientSocket::connect(address).unwrap();
                talk(&mut stream);
                stream.shutdown(std::net::Shutdown::Write).unwrap();
            })
        };
        let outcomes = echo(&acceptor, Handshake::Optional, 1, start).await;
        assert_eq!(outcomes[0].as_ref().unwrap(), &None);
        let refused = echo(&acceptor, Handshake::Required, 1, |_, address| {
            thread::spawn(move || {
                let mut stream = ClientSocket::connect(address).unwrap();
                stream.write_all(&[5, 0, 0, 0, 5, 0, 0, 0, 0]).unwrap();
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                // The first byte is that of a TLS alert.
                assert_eq!(answer[0], 21);
            })
        });
        assert!(refused.await[0].is_err());
    });
}

#[test]
fn clients_show_certificates_that_the_truststore_signed() {
    let [ours, foreign] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (authority, stranger) = (Authority::new(ours.path()), Authority::new(foreign.path()));
    let root = ours.path().join("authority.pem");
    let own = [Some(authority.sign("client.pem")), None, Some(stranger.sign("stranger.pem"))];
    block_on(async {
        for (client_certificates, expected) in [
            (ClientCertificates::Required, [true, false, false]),
            (ClientCertificates::Asked, [true, true, false]),
            (ClientCertificates::NotAsked, [true, true, true]),
        ] {
            let acceptor = TlsAcceptor::load(TlsOptions {
                truststore: Some(root.clone()),
                client_certificates,
                ..options(authority.sign("node.pem"))
            });
            let acceptor = acceptor.await.unwrap();
            let outcomes = echo(&acceptor, Handshake::Required, 3, |number, address| {
                let (root, own) = (root.clone(), own[number].clone());
                thread::spawn(move || {
                    let version = &rustls::version::TLS13;
                    let mut stream = connect(address, &root, own.as_deref(), version);
                    if expected[number] {
                        talk(&mut stream);
                    } else {
                        // The alert arrives with the first read.
                        let _ = stream.write_all(b"hello");
                        let error = stream.read(&mut [0; 10]).unwrap_err().to_string();
                        assert!(error.contains("alert") || error.contains("Alert"), "{error}");
                    }
                })
            });
            let admitted: Vec<_> = outcomes.await.iter().map(Result::is_ok).collect();
            assert_eq!(admitted, expected, "{client_certificates:?}");
        }
        // Without a truststore, the acceptor does not trust the authority of the node's own
        // certificate.
        let client_certificates = ClientCertificates::Required;
        let alone = TlsOptions { client_certificates, ..options(authority.sign("node.pem")) };
        assert!(matches!(TlsAcceptor::load(alone).await, Err(TlsError::NoTruststore)));
    });
}

#[test]
fn new_certificates_serve_later_handshakes() {
    let [before, after] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (old, new) = (Authority::new(before.path()), Authority::new(after.path()));
    let pem = old.sign("node.pem");
    block_on(async {
        let acceptor = TlsAcceptor::load(options(pem.clone())).await.unwrap();
        assert!(!acceptor.reload().await.unwrap());
        std::fs::write(&pem, "no certificate").unwrap();
        assert!(matches!(acceptor.reload().await, Err(TlsError::Lacking { .. })));
        std::fs::copy(new.sign("node.pem"), &pem).unwrap();
        assert!(acceptor.reload().await.unwrap());
        let root = after.path().join("authority.pem");
        let outcomes = echo(&acceptor, Handshake::Required, 1, |_, address| {
            let root = root.clone();
            thread::spawn(move || talk(connect(address, &root, None, &rustls::version::TLS13)))
        });
        assert!(outcomes.await[0].is_ok());
    });
}

#[test]
fn faults_of_files_and_options_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path());
    let pem = authority.sign("node.pem");
    let other = authority.sign("other.pem");
    let keystore = directory.path().join("keystore.jks");
    std::fs::write(&keystore, [0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2]).unwrap();
    let certificate_only = directory.path().join("authority.pem");
    let load = |options| block_on(TlsAcceptor::load(options)).unwrap_err().to_string();
    let text = load(options(keystore));
    assert!(text.contains("keystore.jks is a Java (JKS) keystore") && text.contains("keytool"));
    let text = load(options(certificate_only));
    assert!(text.contains("authority.pem has no private key"), "{text}");
    let text = load(options(directory.path().join("absent.pem")));
    assert!(text.contains("absent.pem"), "{text}");
    let text = load(TlsOptions { key: other, ..options(pem.clone()) });
    assert!(text.contains("node.pem"), "{text}");
    let cipher_suites = vec!["TLS_NULL".to_owned()];
    let text = load(TlsOptions { cipher_suites, ..options(pem.clone()) });
    assert!(text.contains("TLS_NULL") && text.contains("TLS_AES_128_GCM_SHA256"), "{text}");
    let cipher_suites = vec!["TLS_AES_128_GCM_SHA256".to_owned()];
    block_on(TlsAcceptor::load(TlsOptions { cipher_suites, ..options(pem) })).unwrap();
}
