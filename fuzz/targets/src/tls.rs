//! The target of encrypted connections, from the client's side.
#![allow(clippy::unwrap_used, reason = "the certificate and the client are our own")]

use std::io::Read;
use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use espalier_runtime::net::tls::TlsState;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use crate::input::Input;

/// Maximum plaintext of a write, in bytes: it needs three records of TLS.
const MAX_WRITE: usize = 40_000;

/// Delivers bytes to a node: bytes that no client made, or the ciphertext of a client of rustls,
/// cut into pieces and changed. Input: `MODE`, then, if MODE is even, the length of the pieces and
/// the bytes; otherwise steps.
///
/// The plaintext that arrives must be the beginning of the sent plaintext.
pub fn tls(data: &[u8]) {
    let mut input = Input(data);
    let mut connection = Connection::new();
    if input.byte().is_multiple_of(2) {
        let step = usize::from(input.byte()).max(1);
        input.0.chunks(step).for_each(|piece| connection.deliver(piece));
        return;
    }
    while !input.0.is_empty() {
        connection.step(&mut input);
        assert!(connection.sent.starts_with(&connection.arrived));
    }
}

/// The node's side, a client, and the ciphertext between them.
struct Connection {
    node: TlsState,
    client: ClientConnection,
    /// Ciphertext of the client that has not arrived.
    wire: Vec<u8>,
    sent: Vec<u8>,
    arrived: Vec<u8>,
    has_failed: bool,
}

impl Connection {
    fn new() -> Self {
        let (node, client) = configurations();
        let name = ServerName::try_from("localhost").unwrap();
        Self {
            node: TlsState::new(node, BytesMut::new()).unwrap(),
            client: ClientConnection::new(client, name).unwrap(),
            wire: Vec::new(),
            sent: Vec::new(),
            arrived: Vec::new(),
            has_failed: false,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let kind = input.byte() % 8;
        let number = usize::from(input.short());
        match kind {
            0 => {
                let plaintext: Vec<u8> =
                    (0..number.min(MAX_WRITE)).map(|place| (place ^ number) as u8).collect();
                if !self.client.is_handshaking() {
                    let written = std::io::Write::write(&mut self.client.writer(), &plaintext);
                    self.sent.extend_from_slice(&plaintext[..written.unwrap_or_default()]);
                }
            }
            1 => self.client.send_close_notify(),
            2 if !self.node.is_handshaking() => {
                let plaintext = vec![7; number.min(MAX_WRITE)];
                let mut out = Vec::new();
                let _ = self.node.encrypt(&plaintext, &mut out).is_ok();
                self.answer(&out);
            }
            3 => {
                if let Some(byte) = self.wire.get_mut(number) {
                    *byte ^= 1 << (number % 8);
                }
            }
            _ => {
                while self.client.wants_write() && self.client.write_tls(&mut self.wire).is_ok() {}
                let rest = self.wire.split_off(self.wire.len().min(number.max(1)));
                let piece = std::mem::replace(&mut self.wire, rest);
                self.deliver(&piece);
            }
        }
    }

    /// Delivers ciphertext to the node as the session does, and the node's answers to the client.
    fn deliver(&mut self, piece: &[u8]) {
        if self.has_failed {
            return;
        }
        self.node.receive(piece);
        if self.node.is_handshaking() {
            self.has_failed = self.node.process().is_err();
        }
        if !self.has_failed && !self.node.is_handshaking() {
            let mut buffer = BytesMut::with_capacity(1 + piece.len() / 2);
            loop {
                buffer.clear();
                match self.node.decrypt(&mut buffer) {
                    Ok(0) => break,
                    Ok(_) => self.arrived.extend_from_slice(&buffer),
                    Err(_) => {
                        self.has_failed = true;
                        break;
                    }
                }
            }
        }
        let mut out = Vec::new();
        let _ = self.node.take_ciphertext(&mut out).is_ok();
        self.answer(&out);
    }

    fn answer(&mut self, mut out: &[u8]) {
        while !out.is_empty() && self.client.read_tls(&mut out).is_ok_and(|count| count > 0) {
            if self.client.process_new_packets().is_err() {
                return;
            }
            let mut plaintext = Vec::new();
            let _ = self.client.reader().read_to_end(&mut plaintext).is_ok();
        }
    }
}

/// Returns the configurations of the node and of the client, made once.
fn configurations() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    static MADE: OnceLock<(Arc<ServerConfig>, Arc<ClientConfig>)> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let parameters = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(issuer.key().serialize_der()));
    let certificate = issuer.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let node = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(node), Arc::new(client))
}
