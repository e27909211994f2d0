//! Conversions between the types of the protocol and the types of the CQL crate.

use std::net::Ipv4Addr;

use bytes::Bytes;
use espalier_cql as cql;
use espalier_runtime::maybe_yield;
use espalier_storage::TurnKind;
use smallvec::SmallVec;

use crate::protocol::request::{Batch, ParametersTail, QueryParameters, Value, Values};
use crate::protocol::response::{
    ColumnSpec, EncodedColumns, ErrorDetail, ErrorResponse, WriteType,
};
use crate::protocol::{Consistency, ProtocolVersion};

/// The protocol's code of a read that fails on a replica because of too many tombstones.
const READ_TOO_MANY_TOMBSTONES: u16 = 0x0001;

/// Bound values in the form that the CQL crate takes. Most statements have few values, which need
/// no allocation.
#[allow(clippy::large_enum_variant)] // it is on the stack of one request
pub(crate) enum BoundValues<'a> {
    Positional(SmallVec<[cql::Value; 8]>),
    Named(Vec<(&'a str, cql::Value)>),
}

impl<'a> BoundValues<'a> {
    /// Converts `values`.
    pub fn new(values: &Values<'a>) -> Self {
        let all = converted(values);
        match values.names() {
            None => Self::Positional(all.collect()),
            Some(names) => Self::Named(names.iter().copied().zip(all).collect()),
        }
    }

    pub fn borrow(&self) -> cql::Values<'_> {
        match self {
            Self::Positional(values) => cql::Values::Positional(values),
            Self::Named(values) => cql::Values::Named(values),
        }
    }
}

/// Converts values; their bytes stay shared with the receive buffer.
fn converted(values: &Values<'_>) -> impl Iterator<Item = cql::Value> {
    (0..values.len()).map(move |index| match values.get(index) {
        Some(Value::Set(_)) => cql::Value::Bytes(values.shared(index).unwrap_or_default()),
        Some(Value::Null) | None => cql::Value::Null,
        Some(Value::Unset) => cql::Value::Unset,
    })
}

/// Returns the values of all statements of a batch, in one vector, because a batch may have 65,535
/// statements without values.
pub(crate) async fn batch_values(batch: &Batch<'_>) -> Vec<cql::Value> {
    let count = batch.statements.last().map_or(0, |last| last.values.end);
    let mut all = Vec::with_capacity(count);
    for statement in &batch.statements {
        maybe_yield().await;
        all.extend(converted(&batch.values(statement)));
    }
    all
}

/// Returns the options of QUERY and EXECUTE.
pub(crate) fn query_options<'a>(
    parameters: &QueryParameters<'a>,
    values: &'a BoundValues<'_>,
) -> cql::QueryOptions<'a> {
    cql::QueryOptions {
        values: values.borrow(),
        page_size: parameters.page_size,
        paging_state: parameters.paging_state,
        ..batch_options(parameters.consistency, &parameters.tail)
    }
}

/// Returns the options of BATCH.
pub(crate) fn batch_options<'a>(
    consistency: Consistency,
    tail: &ParametersTail<'a>,
) -> cql::QueryOptions<'a> {
    cql::QueryOptions {
        timestamp_us: tail.timestamp_us,
        now_s: tail.now_in_seconds,
        keyspace: tail.keyspace,
        consistency: consistency.code(),
        serial_consistency: tail.serial_consistency.map(Consistency::code),
        answer_bytes: usize::MAX,
        ..cql::QueryOptions::default()
    }
}

/// Returns the wire form of `columns`.
pub(crate) fn encode_columns(
    version: ProtocolVersion,
    columns: &[cql::ColumnSpec],
) -> EncodedColumns {
    let specs = columns.iter().map(|column| ColumnSpec {
        keyspace: &column.keyspace,
        table: &column.table,
        name: &column.name,
        cql_type: &column.column_type,
    });
    EncodedColumns::new(version, specs)
}

/// The consistency levels of a request.
#[derive(Clone, Copy)]
pub(crate) struct Levels {
    pub consistency: Consistency,
    /// The level of conditional statements.
    pub serial: Consistency,
}

impl Levels {
    /// The levels of a request that names none.
    pub const DEFAULT: Self = Self { consistency: Consistency::One, serial: Consistency::Serial };

    /// Returns the levels of a request.
    pub fn new(consistency: Consistency, tail: &ParametersTail<'_>) -> Self {
        let serial = tail.serial_consistency.unwrap_or(Consistency::Serial);
        Self { consistency, serial }
    }

    /// Returns the levels of a request with these parameters.
    pub fn of(parameters: &QueryParameters<'_>) -> Self {
        Self::new(parameters.consistency, &parameters.tail)
    }

    /// Returns the level that an error of a write names, and the type of the write.
    fn of_write(self, kind: TurnKind) -> (Consistency, WriteType) {
        match kind {
            TurnKind::Conditional | TurnKind::SerialRead => (self.serial, WriteType::Cas),
            TurnKind::Counter => (self.consistency, WriteType::Counter),
            TurnKind::Write => (self.consistency, WriteType::Simple),
        }
    }
}

/// Converts an error of the CQL crate to the client's error.
pub(crate) fn error_response(error: cql::Error, levels: Levels) -> ErrorResponse {
    let consistency = levels.consistency;
    let write_timeout = |kind| {
        let (consistency, write_type) = levels.of_write(kind);
        ErrorDetail::WriteTimeout { consistency, write_type }
    };
    let write_failure = |kind| {
        let (consistency, write_type) = levels.of_write(kind);
        ErrorDetail::WriteFailure { consistency, write_type }
    };
    let detail = match (error.code, error.detail) {
        (_, cql::ErrorDetail::AlreadyExists { keyspace, table }) => {
            ErrorDetail::AlreadyExists { keyspace, table }
        }
        (_, cql::ErrorDetail::Unprepared { id }) => ErrorDetail::Unprepared { id: Bytes::from(id) },
        (_, cql::ErrorDetail::FunctionFailure { keyspace, function, argument_types }) => {
            ErrorDetail::FunctionFailure { keyspace, function, argument_types }
        }
        (_, cql::ErrorDetail::AnswerTooLarge) => ErrorDetail::Overloaded,
        (_, cql::ErrorDetail::TooManyTombstones) => ErrorDetail::ReadFailure {
            consistency,
            failures: vec![(Ipv4Addr::LOCALHOST.into(), READ_TOO_MANY_TOMBSTONES)],
        },
        (_, cql::ErrorDetail::WriteTimeout { kind }) => write_timeout(kind),
        (_, cql::ErrorDetail::WriteFailure { kind }) => write_failure(kind),
        (code, cql::ErrorDetail::None) => match code {
            cql::ErrorCode::ServerError => ErrorDetail::Server,
            cql::ErrorCode::ProtocolError => ErrorDetail::Protocol,
            cql::ErrorCode::Authentication => ErrorDetail::Authentication,
            cql::ErrorCode::Overloaded => ErrorDetail::Overloaded,
            cql::ErrorCode::TruncateError => ErrorDetail::Truncate,
            cql::ErrorCode::WriteTimeout => write_timeout(TurnKind::Write),
            cql::ErrorCode::ReadTimeout => ErrorDetail::ReadTimeout { consistency },
            cql::ErrorCode::ReadFailure => {
                ErrorDetail::ReadFailure { consistency, failures: Vec::new() }
            }
            cql::ErrorCode::WriteFailure => write_failure(TurnKind::Write),
            cql::ErrorCode::FunctionFailure => ErrorDetail::FunctionFailure {
                keyspace: String::new(),
                function: String::new(),
                argument_types: Vec::new(),
            },
            cql::ErrorCode::SyntaxError => ErrorDetail::Syntax,
            cql::ErrorCode::Unauthorized => ErrorDetail::Unauthorized,
            cql::ErrorCode::Invalid => ErrorDetail::Invalid,
            cql::ErrorCode::ConfigurationError => ErrorDetail::Config,
            cql::ErrorCode::AlreadyExists => {
                ErrorDetail::AlreadyExists { keyspace: String::new(), table: String::new() }
            }
            cql::ErrorCode::Unprepared => ErrorDetail::Unprepared { id: Bytes::new() },
        },
    };
    ErrorResponse::new(detail, error.message)
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use espalier_runtime::{block_on, preempt::force_every_yield};

    use super::*;
    use crate::protocol::{Envelope, Flags, Header, Opcode, Request};

    #[test]
    fn values_of_a_batch_are_in_one_vector_and_a_task_may_yield_between_them() {
        let mut body = vec![1_u8, 0, 3];
        let none: &[Option<u8>] = &[];
        for values in [none, &[Some(7), None], &[Some(9)]] {
            body.extend([1, 0, 1, b'p', 0, values.len() as u8]);
            for value in values {
                body.extend(value.map_or(-1_i32, |_| 1).to_be_bytes());
                body.extend(*value);
            }
        }
        body.extend([0, 1, 0]);
        let (version, flags, opcode) = (ProtocolVersion::V4, Flags::default(), Opcode::Batch);
        let header = Header { version, flags, stream: 0, opcode };
        let envelope = Envelope { header, body: body.into() };
        let Ok(Request::Batch(batch)) = Request::decode(&envelope) else { panic!("no batch") };
        let (values, polls) = block_on(async {
            let mut values = pin!(batch_values(&batch));
            let mut polls = 0;
            force_every_yield(true);
            let values = poll_fn(|context| {
                polls += 1;
                values.as_mut().poll(context)
            })
            .await;
            force_every_yield(false);
            (values, polls)
        });
        let value = |byte: u8| cql::Value::Bytes(vec![byte].into());
        assert_eq!(values, [value(7), cql::Value::Null, value(9)]);
        let ranges: Vec<_> = batch.statements.iter().map(|it| it.values.clone()).collect();
        assert_eq!(ranges, [0..0, 0..2, 2..3_usize]);
        assert_eq!(polls, 1 + ranges.len());
    }

    #[test]
    fn errors_of_conditional_writes_name_the_serial_level() {
        let serial = Some(Consistency::LocalSerial);
        let tail = ParametersTail { serial_consistency: serial, ..ParametersTail::default() };
        let levels = Levels::new(Consistency::Quorum, &tail);
        let named = |code, detail| {
            let error = cql::Error { detail, ..cql::Error::new(code, "") };
            match error_response(error, levels).detail {
                ErrorDetail::WriteTimeout { consistency, write_type }
                | ErrorDetail::WriteFailure { consistency, write_type } => {
                    (consistency, write_type)
                }
                other => panic!("{other:?}"),
            }
        };
        for (kind, expected) in [
            (TurnKind::Conditional, (Consistency::LocalSerial, WriteType::Cas)),
            (TurnKind::Counter, (Consistency::Quorum, WriteType::Counter)),
            (TurnKind::Write, (Consistency::Quorum, WriteType::Simple)),
        ] {
            let timeout = cql::ErrorDetail::WriteTimeout { kind };
            assert_eq!(named(cql::ErrorCode::WriteTimeout, timeout), expected);
            let failure = cql::ErrorDetail::WriteFailure { kind };
            assert_eq!(named(cql::ErrorCode::WriteFailure, failure), expected);
        }
        let plain = named(cql::ErrorCode::WriteFailure, cql::ErrorDetail::None);
        assert_eq!(plain, (Consistency::Quorum, WriteType::Simple));
        let levels = Levels::new(Consistency::Quorum, &ParametersTail::default());
        assert_eq!(levels.serial, Consistency::Serial);
    }
}
