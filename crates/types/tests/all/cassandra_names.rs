//! Compares type names, fixed lengths and whether types are multi-cell with Apache Cassandra 5.0.9.

use std::sync::Arc;

use crate::support::lines;
use espalier_types::{CqlType, UserType};

fn definitions() -> Vec<Arc<UserType>> {
    let user_type = |name: &str, fields: &[(&str, CqlType)]| {
        let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
        Arc::new(UserType { keyspace: "ks".to_owned(), name: name.to_owned(), fields })
    };
    let tags = CqlType::Set { element: Arc::new(CqlType::Text), frozen: true };
    let address = user_type(
        "address",
        &[("street", CqlType::Text), ("number", CqlType::Int), ("tags", tags)],
    );
    let p = user_type("P", &[("x", CqlType::Double)]);
    let frozen_p = CqlType::UserDefined { definition: p.clone(), frozen: true };
    let select = user_type("select", &[("é x", CqlType::Varint), ("p", frozen_p)]);
    vec![address, p, select]
}

#[test]
fn names_are_read_and_printed_as_cassandra_does() {
    let definitions = definitions();
    let resolve = |name: &str| definitions.iter().find(|ty| ty.name == name).cloned();
    let mut checked = 0;
    for line in lines(include_str!("../../../../testdata/types/names.txt")) {
        let [marshal, cql, length, multi_cell] =
            line.split('|').collect::<Vec<_>>().try_into().unwrap();
        let ty = CqlType::parse_marshal(marshal).unwrap();
        assert_eq!(ty.marshal_name(), marshal);
        assert_eq!(ty.cql_name(), cql);
        assert_eq!(ty.is_multi_cell(), multi_cell == "true", "{line}");
        let length = length.parse::<i64>().unwrap();
        assert_eq!(ty.fixed_length().map_or(-1, |length| length as i64), length, "{line}");
        assert_eq!(CqlType::parse_cql(cql, "ks", &resolve).unwrap(), ty, "{line}");
        assert_eq!(
            CqlType::parse_marshal(&format!(" {} ", marshal.replace(',', " , "))).unwrap(),
            ty
        );
        checked += 1;
    }
    assert!(checked > 60, "only {checked} names");
}

#[test]
fn sloppy_forms_are_understood() {
    let frozen_list = |element| CqlType::List { element: Arc::new(element), frozen: true };
    let none = |_: &str| None;
    for (text, ty) in [
        ("varchar", CqlType::Text),
        (" INT ", CqlType::Int),
        ("tuple<int>", CqlType::Tuple([CqlType::Int].into())),
        ("frozen<list<list<int>>>", frozen_list(frozen_list(CqlType::Int))),
        ("frozen<frozen<list<int>>>", frozen_list(CqlType::Int)),
        ("frozen<int>", CqlType::Int),
        (
            "vector<list<int>,2>",
            CqlType::Vector { element: Arc::new(frozen_list(CqlType::Int)), dimension: 2 },
        ),
        ("'org.apache.cassandra.db.marshal.Int32Type'", CqlType::Int),
        ("'Foo(Bar)'", CqlType::Custom("org.apache.cassandra.db.marshal.Foo(Bar)".into())),
    ] {
        assert_eq!(CqlType::parse_cql(text, "ks", &none).unwrap(), ty, "{text}");
    }
    // ScyllaDB used to leave FrozenType out around UDTs in collections.
    let ty = CqlType::parse_marshal("ListType(UserType(ks,74,61:Int32Type))").unwrap();
    assert_eq!(ty.cql_name(), "list<frozen<t>>");
    let composite = "org.apache.cassandra.db.marshal.DynamicCompositeType(a=>org.apache.cassandra.db.marshal.Int32Type)";
    assert_eq!(CqlType::parse_marshal(composite).unwrap(), CqlType::Custom(composite.into()));
    assert_eq!(
        CqlType::parse_marshal_maybe_reversed("ReversedType(UTF8Type)").unwrap(),
        (CqlType::Text, true)
    );
}

#[test]
fn user_types_are_found_by_name() {
    let definitions = definitions();
    let resolve = |name: &str| definitions.iter().find(|ty| ty.name == name).cloned();
    let parse = |text| CqlType::parse_cql(text, "ks", &resolve);
    assert_eq!(parse("ks.address"), parse("Address"));
    assert_eq!(parse("\"P\"").unwrap().cql_name(), "\"P\"");
    assert_eq!(parse("ks.\"select\"").unwrap().cql_name(), "\"select\"");
    assert!(parse("P").unwrap_err().reason.contains("unknown type 'ks.p'"));
    assert!(parse("other.address").is_err());
}

#[test]
fn wrong_names_are_errors() {
    let none = |_: &str| None;
    for text in [
        "",
        "<",
        "list",
        "list<",
        "list<>",
        "list<int",
        "list<int>>",
        "list<int,int>",
        "map<int>",
        "int<int>",
        "vector<int>",
        "vector<int,0>",
        "vector<int,-1>",
        "vector<int,x>",
        "vector<int,2147483647>",
        "vector<vector<bigint,65536>,65536>",
        "list<list<int>>",
        "map<set<int>,int>",
        "frozen",
        "'",
        "'x",
        "\"x",
        "unknown",
        "int int",
        "list<unknown>",
        "list<'ReversedType(Int32Type)'>",
        "é",
    ] {
        assert!(CqlType::parse_cql(text, "ks", &none).is_err(), "{text}");
    }
    for text in [
        "",
        "(",
        "ListType",
        "ListType(",
        "ListType()",
        "ListType(Int32Type",
        "ListType(Int32Type))",
        "MapType(Int32Type)",
        "VectorType(Int32Type)",
        "VectorType(Int32Type,0)",
        "UserType(ks)",
        "UserType(ks,7)",
        "UserType(ks,zz)",
        "UserType(ks,74,61)",
        "UserType(ks,ff,61:Int32Type)",
        "ReversedType(Int32Type)",
        "ListType(ReversedType(Int32Type))",
        "Foo(",
        "Foo(()",
        "Foo)",
        "Int32Type(Int32Type)",
        "é",
    ] {
        assert!(CqlType::parse_marshal(text).is_err(), "{text}");
    }
    let deep = format!("{}int{}", "frozen<".repeat(100_000), ">".repeat(100_000));
    assert!(CqlType::parse_cql(&deep, "ks", &none).unwrap_err().reason.contains("deeper"));
    let deep = format!("{}Int32Type{}", "ListType(".repeat(100_000), ")".repeat(100_000));
    assert!(CqlType::parse_marshal(&deep).unwrap_err().reason.contains("deeper"));
}
