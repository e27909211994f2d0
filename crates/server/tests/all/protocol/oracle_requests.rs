//! Converts our decoded requests to the types of the reference implementation.

use cassandra_protocol::consistency::Consistency as OracleConsistency;
use cassandra_protocol::frame::events::SimpleServerEvent;
use cassandra_protocol::frame::message_auth_response::BodyReqAuthResponse;
use cassandra_protocol::frame::message_batch::{
    BatchQuery, BatchQuerySubj, BatchType, BodyReqBatch,
};
use cassandra_protocol::frame::message_execute::BodyReqExecuteOwned;
use cassandra_protocol::frame::message_options::BodyReqOptions;
use cassandra_protocol::frame::message_prepare::BodyReqPrepare;
use cassandra_protocol::frame::message_query::BodyReqQuery;
use cassandra_protocol::frame::message_register::BodyReqRegister;
use cassandra_protocol::frame::message_request::RequestBody;
use cassandra_protocol::frame::message_startup::BodyReqStartup;
use cassandra_protocol::query::{QueryParams, QueryValues};
use cassandra_protocol::types::value::Value as OracleValue;
use cassandra_protocol::types::{CBytes, CBytesShort};
use espalier_cql::grammar::ast::BatchKind;
use espalier_server::protocol::request::{Batch, QueryParameters, StatementRef, Value, Values};
use espalier_server::protocol::{Consistency, EventType, Request};

pub fn consistency(level: Consistency) -> OracleConsistency {
    OracleConsistency::try_from(level.code() as i16).unwrap()
}

fn value(value: Value<'_>) -> OracleValue {
    match value {
        Value::Set(bytes) => OracleValue::Some(bytes.to_vec()),
        Value::Null => OracleValue::Null,
        Value::Unset => OracleValue::NotSet,
    }
}

fn values(values: &Values<'_>) -> QueryValues {
    for index in 0..values.len() {
        match (values.get(index).unwrap(), values.shared(index)) {
            (Value::Set(bytes), Some(shared)) => assert_eq!(bytes, shared),
            (Value::Null | Value::Unset, None) => {}
            other => panic!("{other:?}"),
        }
    }
    match values.names() {
        Some(names) => QueryValues::NamedValues(
            names.iter().map(|name| name.to_string()).zip(values.iter().map(value)).collect(),
        ),
        None => QueryValues::SimpleValues(values.iter().map(value).collect()),
    }
}

fn parameters(parameters: &QueryParameters<'_>) -> QueryParams {
    QueryParams {
        consistency: consistency(parameters.consistency),
        with_names: parameters.values.names().is_some(),
        values: (!parameters.values.is_empty()).then(|| values(&parameters.values)),
        page_size: parameters.page_size,
        paging_state: parameters.paging_state.map(|state| CBytes::new(state.to_vec())),
        serial_consistency: parameters.tail.serial_consistency.map(consistency),
        timestamp: parameters.tail.timestamp_us,
        keyspace: parameters.tail.keyspace.map(str::to_owned),
        now_in_seconds: parameters.tail.now_in_seconds,
    }
}

fn batch(batch: &Batch<'_>) -> BodyReqBatch {
    let kind = match batch.kind {
        BatchKind::Logged => BatchType::Logged,
        BatchKind::Unlogged => BatchType::Unlogged,
        BatchKind::Counter => BatchType::Counter,
    };
    let statements = batch.statements.iter().map(|statement| {
        let subject = match statement.statement {
            StatementRef::Text(text) => BatchQuerySubj::QueryString(text.to_owned()),
            StatementRef::Prepared(id) => BatchQuerySubj::PreparedId(CBytesShort::new(id.to_vec())),
        };
        BatchQuery::new(subject, values(&batch.values(statement)))
    });
    BodyReqBatch::new(
        kind,
        statements.collect(),
        consistency(batch.consistency),
        batch.tail.serial_consistency.map(consistency),
        batch.tail.timestamp_us,
        batch.tail.keyspace.map(str::to_owned),
        batch.tail.now_in_seconds,
    )
}

pub fn request(request: &Request<'_>) -> RequestBody {
    match request {
        Request::Startup(startup) => {
            let owned = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
            let map = startup.options().iter().map(owned).collect();
            RequestBody::Startup(BodyReqStartup { map })
        }
        Request::Options => RequestBody::Options(BodyReqOptions),
        Request::Query(query) => RequestBody::Query(BodyReqQuery {
            query: query.text.to_owned(),
            query_params: parameters(&query.parameters),
        }),
        Request::Prepare(prepare) => RequestBody::Prepare(BodyReqPrepare {
            query: prepare.text.to_owned(),
            keyspace: prepare.keyspace.map(str::to_owned),
        }),
        Request::Execute(execute) => RequestBody::Execute(BodyReqExecuteOwned::new(
            CBytesShort::new(execute.id.to_vec()),
            execute.result_metadata_id.map(|id| CBytesShort::new(id.to_vec())),
            parameters(&execute.parameters),
        )),
        Request::Batch(request) => RequestBody::Batch(batch(request)),
        Request::Register(types) => {
            let all = [
                (EventType::TopologyChange, SimpleServerEvent::TopologyChange),
                (EventType::StatusChange, SimpleServerEvent::StatusChange),
                (EventType::SchemaChange, SimpleServerEvent::SchemaChange),
            ];
            let registered = all.into_iter().filter(|(ours, _)| types.contains(*ours));
            RequestBody::Register(BodyReqRegister::new(registered.map(|(_, it)| it).collect()))
        }
        Request::AuthResponse(token) => {
            let token = token.map_or_else(CBytes::new_null, |token| CBytes::new(token.to_vec()));
            RequestBody::AuthResponse(BodyReqAuthResponse::new(token))
        }
    }
}
