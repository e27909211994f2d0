//! The target of the states of a connection: frames before, during and after the log-in, over plain
//! and encrypted connections, against a node in this process.
//!
//! | module | content |
//! | --- | --- |
//! | `node` | the nodes, their certificates and their role |
//! | `client` | a client's socket, with TLS if the input asks for it |
//! | `answers` | the answers that a node may give before the log-in |
//! | `seeds` | the seeds of the target |

mod answers;
mod client;
mod node;
pub mod seeds;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Once, OnceLock};

use crate::frames::seal_segments;
use crate::input::Input;
use client::{Client, Encryption};
use node::{Nodes, PASSWORD, ROLE};

/// Maximum steps of an input, several times the 16 messages that a node accepts before the log-in.
/// Further steps are ignored.
const MAX_STEPS: usize = 64;
/// Number of sent bytes above which further steps are ignored.
const MAX_BYTES: usize = 64 << 10;

/// Opcodes of the requests that the steps make.
mod opcode {
    pub const STARTUP: u8 = 0x01;
    pub const OPTIONS: u8 = 0x05;
    pub const QUERY: u8 = 0x07;
    pub const REGISTER: u8 = 0x0B;
    pub const AUTH_RESPONSE: u8 = 0x0F;
}

/// Number of panics in all threads of this process. They are counted, because a panic in a task of
/// a node is only printed.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Serves a client whose steps are the input. Input: `MODE`, then steps, each a kind with its
/// content. Bits of MODE: 0 the node, 1 TLS, 2 an address without failed log-ins, 3 and 4 the
/// client's certificate, 5 TLS 1.2.
///
/// Before the log-in, the node must serve only OPTIONS and the requests of the log-in. It must
/// accept only the right password or certificate. It must close the connection after the client has
/// closed its side.
pub fn connection(data: &[u8]) {
    serve(data);
}

/// Serves a client, checks the answers and returns their opcodes.
fn serve(data: &[u8]) -> Vec<u8> {
    static NODES: OnceLock<Nodes> = OnceLock::new();
    count_panics();
    let nodes = NODES.get_or_init(Nodes::start);
    let before = PANICS.load(Relaxed);
    let mut input = Input(data);
    let bits = input.byte();
    let has = |bit| bits & bit != 0;
    let node = nodes.choose(has(mode::CERTIFICATES));
    let encryption = has(mode::TLS).then_some(Encryption {
        certificate: (bits / mode::KNOWN) & 3,
        is_version_1_2: has(mode::VERSION_1_2),
    });
    let has_certificate = encryption.as_ref().is_some_and(|tls| nodes.knows(tls.certificate));
    let Some(client) = Client::connect(nodes, node, encryption, has(mode::NEW_ADDRESS)) else {
        return Vec::new();
    };
    let mut session =
        Session { client, queue: Vec::new(), sent: Vec::new(), version: 4, is_segmented: false };
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() || session.sent.len() > MAX_BYTES {
            break;
        }
        session.step(&mut input);
    }
    session.deliver();
    let Session { client, sent, .. } = session;
    let received = client.finish();
    let has_password = sent.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
    let may_log_in = has_password || node.takes_certificates && has_certificate;
    let opcodes = answers::check(&received, may_log_in);
    assert_eq!(PANICS.load(Relaxed), before, "a task of the node panicked");
    opcodes
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Relaxed);
            next(panic);
        }));
    });
}

/// The kinds of steps, by their number.
mod step {
    pub const OPTIONS: u8 = 0;
    pub const STARTUP: u8 = 1;
    pub const STARTUP_WITH_COMPRESSION: u8 = 2;
    pub const LOG_IN: u8 = 3;
    pub const WRONG_PASSWORD: u8 = 4;
    pub const TOKEN: u8 = 5;
    pub const QUERY: u8 = 6;
    pub const FRAME: u8 = 7;
    pub const BYTES: u8 = 8;
    pub const FLIP: u8 = 9;
    pub const CUT: u8 = 10;
    pub const VERSION: u8 = 11;
    pub const REGISTER: u8 = 12;
    pub const DELIVER: u8 = 13;
    pub const CHANGE_WIRE: u8 = 14;
}

/// Bits of MODE.
mod mode {
    pub const CERTIFICATES: u8 = 1;
    pub const TLS: u8 = 2;
    pub const NEW_ADDRESS: u8 = 4;
    /// This bit and the next one are the number of the client's certificate.
    pub const KNOWN: u8 = 8;
    pub const UNKNOWN: u8 = 16;
    pub const VERSION_1_2: u8 = 32;
}

/// A client with the bytes that it is about to send.
struct Session {
    client: Client,
    queue: Vec<u8>,
    /// All plaintext that was sent.
    sent: Vec<u8>,
    version: u8,
    /// True once a STARTUP of version 5 was queued, so that the next frames go into segments.
    is_segmented: bool,
}

impl Session {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            step::OPTIONS => self.frame(opcode::OPTIONS, &[]),
            step::STARTUP => self.startup(&[("CQL_VERSION", "3.0.0")]),
            step::STARTUP_WITH_COMPRESSION => {
                let compression = *input.choose(&["lz4", "snappy", "zstd", ""]);
                self.startup(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", compression)]);
            }
            step::LOG_IN => self.log_in(PASSWORD),
            step::WRONG_PASSWORD => self.log_in("wrong"),
            step::TOKEN => {
                let body = bytes_of(input.part());
                self.frame(opcode::AUTH_RESPONSE, &body);
            }
            step::QUERY => {
                let text = b"SELECT key FROM system.local";
                let body = [&(text.len() as u32).to_be_bytes()[..], text, &[0, 1, 0, 0, 0, 0]];
                let length = if self.version < 5 { 3 } else { 6 };
                let body = body.concat();
                self.frame(opcode::QUERY, &body[..4 + text.len() + length]);
            }
            step::FRAME => {
                let opcode = input.byte();
                self.frame(opcode, input.part());
            }
            step::BYTES => self.queue.extend_from_slice(input.part()),
            step::FLIP => {
                let place = usize::from(input.short());
                if let Some(byte) = self.queue.get_mut(place) {
                    *byte ^= 1 << (place % 8);
                }
            }
            step::CUT => self.queue.truncate(usize::from(input.short())),
            step::VERSION => self.version = 3 + input.byte() % 3,
            step::REGISTER => self.frame(opcode::REGISTER, b"\0\x01\0\x0dSTATUS_CHANGE"),
            step::DELIVER => self.deliver(),
            _ => {
                self.client.change_wire(input.short());
                self.deliver();
            }
        }
    }

    fn log_in(&mut self, password: &str) {
        let token = ["", ROLE, password].join("\0");
        self.frame(opcode::AUTH_RESPONSE, &bytes_of(token.as_bytes()));
    }

    fn startup(&mut self, options: &[(&str, &str)]) {
        let mut body = (options.len() as u16).to_be_bytes().to_vec();
        for text in options.iter().flat_map(|(name, value)| [name, value]) {
            body.extend_from_slice(&(text.len() as u16).to_be_bytes());
            body.extend_from_slice(text.as_bytes());
        }
        self.frame(opcode::STARTUP, &body);
        self.is_segmented |= self.version == 5;
    }

    /// Queues a frame, in a segment if a STARTUP of version 5 was queued before.
    fn frame(&mut self, opcode: u8, body: &[u8]) {
        let mut frame = vec![self.version, 0, 0, 1, opcode];
        frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
        frame.extend_from_slice(body);
        if !self.is_segmented {
            self.queue.extend_from_slice(&frame);
            return;
        }
        let head = (frame.len() as u32 & 0x1_FFFF | 1 << 17).to_le_bytes();
        let mut segment = [&head[..3], &[0; 3], &frame, &[0; 4]].concat();
        seal_segments(&mut segment, false);
        self.queue.extend_from_slice(&segment);
    }

    fn deliver(&mut self) {
        let bytes = std::mem::take(&mut self.queue);
        self.sent.extend_from_slice(&bytes);
        self.client.send(&bytes);
    }
}

/// Returns the `[bytes]` of the protocol: length and content.
fn bytes_of(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes()[..], content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::answers::{AUTH_SUCCESS, AUTHENTICATE, ERROR, READY, SUPPORTED};

    const RESULT: u8 = 0x08;

    /// The steps OPTIONS, STARTUP, the log-in with the right password, a query and REGISTER, each
    /// delivered.
    const STEPS: [u8; 10] = [0, 13, 1, 13, 3, 13, 6, 13, 12, 13];

    /// A target whose clients never log in would find little.
    #[test]
    fn clients_log_in_by_password_and_certificate_plain_and_over_tls() {
        let all = [SUPPORTED, AUTHENTICATE, AUTH_SUCCESS, RESULT, READY];
        let with = |mode: u8, version: u8| serve(&[&[mode, 11, version][..], &STEPS].concat());
        for version in [1, 2] {
            assert_eq!(with(4, version), all, "plain, version {version}");
            assert_eq!(with(4 | 2, version), all, "TLS 1.3, version {version}");
            assert_eq!(with(4 | 2 | 32, version), all, "TLS 1.2, version {version}");
            assert_eq!(with(1 | 2 | 8, version), all, "a known certificate, version {version}");
        }
        assert_eq!(with(1 | 4, 1), [0u8; 0], "a plain client of a port with TLS");
        assert_eq!(with(1 | 2 | 8 | 16, 1), [0u8; 0], "a certificate of a foreign authority");
        // The node refuses the password, as it refuses the requests after it.
        let refused = [SUPPORTED, AUTHENTICATE, ERROR, ERROR, ERROR];
        assert_eq!(with(1 | 2 | 16, 1), refused, "a certificate without a role");
        let wrong = serve(&[4, 1, 13, 4, 13, 6, 13]);
        assert_eq!(wrong, [AUTHENTICATE, ERROR, ERROR]);
    }
}
