//! Proptest strategies that generate requests of the reference implementation, and our column
//! types.

use std::collections::HashMap;
use std::sync::Arc;

use cassandra_protocol::consistency::Consistency;
use cassandra_protocol::frame::Opcode;
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
use cassandra_protocol::types::value::Value;
use cassandra_protocol::types::{CBytes, CBytesShort};
use espalier_server::protocol::ProtocolVersion;
use espalier_types::{CqlType, UserType};
use proptest::collection::{hash_map, vec};
use proptest::option;
use proptest::prelude::*;

pub fn name() -> impl Strategy<Value = String> {
    "[a-z_\u{e4}]{1,12}"
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 500..3000)]
}

fn consistency() -> impl Strategy<Value = Consistency> {
    (0i16..=10).prop_map(|code| Consistency::try_from(code).unwrap())
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![6 => bytes().prop_map(Value::Some), 1 => Just(Value::Null), 1 => Just(Value::NotSet)]
}

fn values() -> impl Strategy<Value = Option<QueryValues>> {
    prop_oneof![
        Just(None),
        vec(value(), 1..30).prop_map(|values| Some(QueryValues::SimpleValues(values))),
        hash_map(name(), value(), 1..6).prop_map(|values| Some(QueryValues::NamedValues(values))),
    ]
}

fn timestamp() -> impl Strategy<Value = Option<i64>> {
    option::of(i64::MIN + 1..=i64::MAX)
}

fn parameters(version: ProtocolVersion) -> impl Strategy<Value = QueryParams> {
    let pages = (option::of(any::<i32>()), option::of(bytes().prop_map(CBytes::new)));
    let times = (timestamp(), option::of(any::<i32>()));
    (consistency(), values(), pages, option::of(consistency()), times, option::of(name())).prop_map(
        move |(consistency, values, pages, serial_consistency, times, keyspace)| QueryParams {
            consistency,
            with_names: values.as_ref().is_some_and(QueryValues::has_names),
            values,
            page_size: pages.0,
            paging_state: pages.1,
            serial_consistency,
            timestamp: times.0,
            keyspace,
            now_in_seconds: times.1.filter(|_| version == ProtocolVersion::V5),
        },
    )
}

fn statement_id() -> impl Strategy<Value = CBytesShort> {
    vec(any::<u8>(), 16).prop_map(CBytesShort::new)
}

fn batch(version: ProtocolVersion) -> impl Strategy<Value = BodyReqBatch> {
    let subject = prop_oneof![
        statement_id().prop_map(BatchQuerySubj::PreparedId),
        ".{0,60}".prop_map(BatchQuerySubj::QueryString),
    ];
    let statement = (subject, vec(value(), 0..8))
        .prop_map(|(subject, values)| BatchQuery::new(subject, QueryValues::SimpleValues(values)));
    let kind =
        prop_oneof![Just(BatchType::Logged), Just(BatchType::Unlogged), Just(BatchType::Counter)];
    let times = (timestamp(), option::of(any::<i32>()));
    (
        kind,
        vec(statement, 0..6),
        consistency(),
        option::of(consistency()),
        times,
        option::of(name()),
    )
        .prop_map(move |(kind, statements, consistency, serial, times, keyspace)| {
            let now = times.1.filter(|_| version == ProtocolVersion::V5);
            BodyReqBatch::new(kind, statements, consistency, serial, times.0, keyspace, now)
        })
}

/// Generates any request, with its opcode.
pub fn request(version: ProtocolVersion) -> impl Strategy<Value = (Opcode, RequestBody)> {
    let startup = hash_map(name(), ".{0,20}", 0..5).prop_map(|mut map: HashMap<_, _>| {
        map.insert("CQL_VERSION".to_owned(), "3.0.0".to_owned());
        RequestBody::Startup(BodyReqStartup { map })
    });
    let query = (".{0,200}", parameters(version))
        .prop_map(|(query, query_params)| RequestBody::Query(BodyReqQuery { query, query_params }));
    let prepare = (".{0,200}", option::of(name())).prop_map(move |(query, keyspace)| {
        let keyspace = keyspace.filter(|_| version == ProtocolVersion::V5);
        RequestBody::Prepare(BodyReqPrepare { query, keyspace })
    });
    let execute = (statement_id(), statement_id(), parameters(version)).prop_map(
        move |(id, metadata_id, parameters)| {
            let metadata_id = Some(metadata_id).filter(|_| version == ProtocolVersion::V5);
            RequestBody::Execute(BodyReqExecuteOwned::new(id, metadata_id, parameters))
        },
    );
    let event = prop_oneof![
        Just(SimpleServerEvent::TopologyChange),
        Just(SimpleServerEvent::StatusChange),
        Just(SimpleServerEvent::SchemaChange),
    ];
    let register = proptest::collection::btree_set(event, 0..3).prop_map(|events| {
        RequestBody::Register(BodyReqRegister::new(events.into_iter().collect()))
    });
    let token = option::of(bytes())
        .prop_map(|token| token.map_or_else(CBytes::new_null, CBytes::new))
        .prop_map(|token| RequestBody::AuthResponse(BodyReqAuthResponse::new(token)));
    prop_oneof![
        1 => startup.prop_map(|body| (Opcode::Startup, body)),
        1 => Just((Opcode::Options, RequestBody::Options(BodyReqOptions))),
        4 => query.prop_map(|body| (Opcode::Query, body)),
        2 => prepare.prop_map(|body| (Opcode::Prepare, body)),
        4 => execute.prop_map(|body| (Opcode::Execute, body)),
        3 => batch(version).prop_map(|body| (Opcode::Batch, RequestBody::Batch(body))),
        1 => register.prop_map(|body| (Opcode::Register, body)),
        1 => token.prop_map(|body| (Opcode::AuthResponse, body)),
    ]
}

/// Generates types for columns, with up to three levels of types inside others.
pub fn cql_type() -> impl Strategy<Value = CqlType> {
    let simple = prop::sample::select(vec![
        CqlType::Ascii,
        CqlType::Bigint,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Counter,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::Smallint,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::Timeuuid,
        CqlType::Tinyint,
        CqlType::Uuid,
        CqlType::Varint,
        CqlType::Custom("org.apache.cassandra.db.marshal.LexicalUUIDType".into()),
    ]);
    simple.prop_recursive(3, 12, 4, |inner| {
        let shared = inner.clone().prop_map(Arc::new);
        prop_oneof![
            (shared.clone(), any::<bool>())
                .prop_map(|(element, frozen)| CqlType::List { element, frozen }),
            (shared.clone(), any::<bool>())
                .prop_map(|(element, frozen)| CqlType::Set { element, frozen }),
            (shared.clone(), shared.clone(), any::<bool>())
                .prop_map(|(key, value, frozen)| CqlType::Map { key, value, frozen }),
            vec(inner.clone(), 1..4).prop_map(|elements| CqlType::Tuple(elements.into())),
            (1usize..2000).prop_map(|dimension| CqlType::Vector {
                element: Arc::new(CqlType::Float),
                dimension
            }),
            (name(), name(), vec((name(), inner), 1..4), any::<bool>()).prop_map(
                |(keyspace, name, fields, frozen)| CqlType::UserDefined {
                    definition: Arc::new(UserType { keyspace, name, fields }),
                    frozen,
                }
            ),
        ]
    })
}
