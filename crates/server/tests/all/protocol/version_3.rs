//! The differences of version 3 from version 4, compared with the bytes of Cassandra 5.0.9.

use std::net::{IpAddr, Ipv4Addr};

use espalier_server::protocol::response::{
    ColumnSpec, EncodedColumns, ErrorDetail, ErrorResponse, Prepared, WriteType,
};
use espalier_server::protocol::{Consistency, ProtocolVersion, Response, ResponseExtras};
use espalier_types::CqlType;

use super::driver::V3;

/// Returns the sent envelope without its header.
fn body(extras: &ResponseExtras<'_>, response: &Response<'_>) -> Vec<u8> {
    let mut buffer = V3.send_buffer();
    buffer.write(1, extras, response);
    let bytes = buffer.take();
    assert_eq!(bytes[..4], [0x83, 0, 0, 1], "version, no flags, stream");
    bytes[9..].to_vec()
}

fn error(detail: ErrorDetail) -> Vec<u8> {
    body(&ResponseExtras::default(), &Response::Error(&ErrorResponse::new(detail, "m")))
}

#[test]
fn version_3_encodes_failures_as_timeouts() {
    let consistency = Consistency::One;
    let failures = vec![(IpAddr::V4(Ipv4Addr::LOCALHOST), 3)];
    let counts = b"\0\x01m\0\x01\0\0\0\0\0\0\0\x01";
    let read = ErrorDetail::ReadFailure { consistency, failures };
    assert_eq!(error(read), [&b"\0\0\x12\0"[..], counts, b"\0"].concat());
    let write = ErrorDetail::WriteFailure { consistency, write_type: WriteType::Simple };
    assert_eq!(error(write), [&b"\0\0\x11\0"[..], counts, b"\0\x06SIMPLE"].concat());
}

#[test]
fn a_function_that_fails_is_an_invalid_request() {
    let detail = ErrorDetail::FunctionFailure {
        keyspace: "system".into(),
        function: "_divide".into(),
        argument_types: vec!["int".into()],
    };
    assert_eq!(error(detail), b"\0\0\x22\0\0\x19ERROR FUNCTION_FAILURE: m");
}

#[test]
fn types_of_version_4_are_custom() {
    for (cql_type, class) in [
        (CqlType::Tinyint, "ByteType"),
        (CqlType::Smallint, "ShortType"),
        (CqlType::Date, "SimpleDateType"),
        (CqlType::Time, "TimeType"),
        (CqlType::Duration, "DurationType"),
    ] {
        let spec = ColumnSpec { keyspace: "", table: "", name: "", cql_type: &cql_type };
        let columns = EncodedColumns::new(ProtocolVersion::V3, [spec]);
        let name = format!("org.apache.cassandra.db.marshal.{class}");
        let expected = [&[0; 8][..], &[0, name.len() as u8], name.as_bytes()].concat();
        assert_eq!(columns.bytes(), expected, "{class}");
    }
}

#[test]
fn prepared_statements_have_no_partition_key() {
    let none = EncodedColumns::default();
    let prepared = Prepared {
        id: b"id",
        result_metadata_id: b"of version 5",
        partition_key_indices: &[0, 1],
        variables: &none,
        result: None,
    };
    let body = body(&ResponseExtras::default(), &Response::Prepared(prepared));
    assert_eq!(body, [&b"\0\0\0\x04\0\x02id"[..], &[0; 8], b"\0\0\0\x04", &[0; 4]].concat());
}

#[test]
fn warnings_are_left_out() {
    let extras = ResponseExtras { warnings: &["careful".to_owned()], tracing_id: None };
    assert_eq!(body(&extras, &Response::Void), [0, 0, 0, 1]);
}
