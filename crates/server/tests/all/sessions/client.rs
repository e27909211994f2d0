//! A client over one connection, with the framing of the reference implementation.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use cassandra_protocol::frame::frame_decoder::{
    FrameDecoder, LegacyFrameDecoder, Lz4FrameDecoder, UncompressedFrameDecoder,
};
use cassandra_protocol::frame::message_error::ErrorBody;
use cassandra_protocol::frame::message_execute::BodyReqExecuteOwned;
use cassandra_protocol::frame::message_prepare::BodyReqPrepare;
use cassandra_protocol::frame::message_query::BodyReqQuery;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::message_result::{BodyResResultPrepared, ResResultBody};
use cassandra_protocol::frame::message_startup::BodyReqStartup;
use cassandra_protocol::frame::{Envelope, Opcode, Serialize, Version};
use cassandra_protocol::query::{QueryParams, QueryValues};
use cassandra_protocol::types::value::Value;
use espalier_runtime::net::TcpStream;
use espalier_runtime::time::timeout;

pub use crate::protocol::driver::{MODES, Mode, V3};

/// True if a client has waited for an answer in vain. Then clients wait for 20 s instead of 60 s,
/// so that the tests end soon even if a fault stops all answers. The node's limits for connections
/// are at most 10 s.
static HAS_WAITED_IN_VAIN: AtomicBool = AtomicBool::new(false);

pub struct Client {
    pub mode: Mode,
    pub stream: Rc<TcpStream>,
    decoder: Box<dyn FrameDecoder>,
    /// True if the answer to STARTUP has arrived.
    started: bool,
    received: VecDeque<Envelope>,
}

impl Client {
    pub async fn connect(address: SocketAddr, mode: Mode) -> Self {
        let stream = Rc::new(TcpStream::connect(address).await.unwrap());
        stream.set_nodelay(true).unwrap();
        let decoder = Box::new(LegacyFrameDecoder::default());
        Self { mode, stream, decoder, started: false, received: VecDeque::new() }
    }

    pub fn local_port(&self) -> u16 {
        self.stream.local_address().unwrap().port()
    }

    pub fn request(&self, stream: i16, opcode: Opcode, body: Vec<u8>) -> Envelope {
        self.mode.request(stream, opcode, body)
    }

    pub fn query(&self, stream: i16, text: &str) -> Envelope {
        let query_params = QueryParams::default();
        let body = BodyReqQuery { query: text.to_owned(), query_params };
        self.request(stream, Opcode::Query, body.serialize_to_vec(self.mode.oracle_version()))
    }

    pub fn prepare(&self, stream: i16, text: &str) -> Envelope {
        let body = BodyReqPrepare::new(text.to_owned(), None);
        self.request(stream, Opcode::Prepare, body.serialize_to_vec(self.mode.oracle_version()))
    }

    pub fn execute(
        &self,
        stream: i16,
        prepared: &BodyResResultPrepared,
        values: Vec<Value>,
    ) -> Envelope {
        let values = (!values.is_empty()).then_some(QueryValues::SimpleValues(values));
        let query_parameters = QueryParams { values, ..QueryParams::default() };
        let (id, metadata_id) = (prepared.id.clone(), prepared.result_metadata_id.clone());
        let body = BodyReqExecuteOwned::new(id, metadata_id, query_parameters);
        let body = cassandra_protocol::frame::message_execute::BodyReqExecute::new(
            &body.id,
            body.result_metadata_id.as_ref(),
            &body.query_parameters,
        )
        .serialize_to_vec(self.mode.oracle_version());
        self.request(stream, Opcode::Execute, body)
    }

    /// Sends requests in one write.
    pub async fn send(&mut self, requests: &[Envelope]) {
        let bytes = if self.started {
            self.mode.client_bytes(requests)
        } else {
            let none = cassandra_protocol::compression::Compression::None;
            requests.iter().flat_map(|request| request.encode_with(none).unwrap()).collect()
        };
        self.send_bytes(bytes).await;
    }

    pub async fn send_bytes(&mut self, bytes: Vec<u8>) {
        self.stream.write_all(bytes).await.0.unwrap();
    }

    /// Returns the next envelope, or `None` once the server has closed the connection.
    pub async fn receive(&mut self) -> Option<Envelope> {
        while self.received.is_empty() {
            let reading = self.stream.read(BytesMut::with_capacity(64 * 1024));
            let seconds = if HAS_WAITED_IN_VAIN.load(Ordering::Relaxed) { 20 } else { 60 };
            let Ok((result, buffer)) = timeout(Duration::from_secs(seconds), reading).await else {
                HAS_WAITED_IN_VAIN.store(true, Ordering::Relaxed);
                panic!("no answer within {seconds} s");
            };
            if matches!(result, Err(_) | Ok(0)) {
                return None;
            }
            let compression = self.mode.oracle_compression();
            let envelopes = self.decoder.consume(&mut buffer.to_vec(), compression).unwrap();
            self.received.extend(envelopes);
        }
        self.received.pop_front()
    }

    /// Sends one request and returns its answer.
    pub async fn ask(&mut self, request: Envelope) -> ResponseBody {
        let stream = request.stream_id;
        self.send(&[request]).await;
        let answer = self.receive().await.expect("an answer");
        assert_eq!(answer.stream_id, stream);
        answer.response_body().unwrap()
    }

    pub async fn ask_query(&mut self, text: &str) -> ResponseBody {
        self.ask(self.query(0, text)).await
    }

    /// Executes a statement, and panics if it fails.
    pub async fn must(&mut self, text: &str) {
        match self.ask_query(text).await {
            ResponseBody::Result(_) => {}
            other => panic!("{text}: {other:?}"),
        }
    }

    pub async fn must_prepare(&mut self, text: &str) -> BodyResResultPrepared {
        match self.ask(self.prepare(0, text)).await {
            ResponseBody::Result(ResResultBody::Prepared(prepared)) => prepared,
            other => panic!("{text}: {other:?}"),
        }
    }

    pub fn startup_request(&self, options: &[(&str, &str)]) -> Envelope {
        let map = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let body = BodyReqStartup { map: map.collect::<HashMap<_, _>>() };
        self.request(0, Opcode::Startup, body.serialize_to_vec(self.mode.oracle_version()))
    }

    /// Sends STARTUP with the mode's compression.
    pub async fn startup(&mut self) {
        let mut options = vec![("CQL_VERSION", "3.4.7")];
        let compression = self.mode.oracle_compression().as_str();
        options.extend(compression.map(|name| ("COMPRESSION", name)));
        let request = self.startup_request(&options);
        assert_eq!(self.ask(request).await, ResponseBody::Ready);
        self.started = true;
        if self.mode.oracle_version() == Version::V5 {
            self.decoder = match self.mode.compression {
                None => Box::new(UncompressedFrameDecoder::default()),
                Some(_) => Box::new(Lz4FrameDecoder::default()),
            };
        }
    }

    /// Sends one request, and returns the error that answers it.
    pub async fn ask_error(&mut self, request: Envelope) -> ErrorBody {
        match self.ask(request).await {
            ResponseBody::Error(error) => error,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the rows of a result, as bytes.
    pub fn rows(body: ResponseBody) -> Vec<Vec<Option<Vec<u8>>>> {
        match body {
            ResponseBody::Result(ResResultBody::Rows(rows)) => rows
                .rows_content
                .into_iter()
                .map(|row| row.into_iter().map(|cell| cell.into_bytes()).collect())
                .collect(),
            other => panic!("{other:?}"),
        }
    }
}
