//! Tests that printing and reading a type name are inverse to each other.

use std::sync::Arc;

use crate::support::arbitrary::any_type;
use espalier_types::{CqlType, UserType};
use proptest::prelude::*;

/// Collects the UDTs inside a type, so that names can be looked up.
fn collect(ty: &CqlType, found: &mut Vec<Arc<UserType>>) {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => collect(element, found),
        CqlType::Vector { element, .. } => collect(element, found),
        CqlType::Map { key, value, .. } => {
            collect(key, found);
            collect(value, found);
        }
        CqlType::Tuple(types) => types.iter().for_each(|ty| collect(ty, found)),
        CqlType::UserDefined { definition, .. } => {
            found.push(definition.clone());
            definition.field_types().for_each(|ty| collect(ty, found));
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn marshal_names_round_trip(ty in any_type(), reversed: bool) {
        let name = ty.marshal_name();
        prop_assert_eq!(CqlType::parse_marshal(&name), Ok(ty.clone()));
        if reversed {
            let name = format!("org.apache.cassandra.db.marshal.ReversedType({name})");
            prop_assert_eq!(CqlType::parse_marshal_maybe_reversed(&name), Ok((ty, true)));
        }
    }

    #[test]
    fn cql_names_round_trip(ty in any_type()) {
        let mut found = Vec::new();
        collect(&ty, &mut found);
        found.sort_by(|left, right| left.name.cmp(&right.name));
        // One name cannot mean two types.
        prop_assume!(found.windows(2).all(|pair| pair[0].name != pair[1].name));
        let resolve = |name: &str| found.iter().find(|ty| ty.name == name).cloned();
        prop_assert_eq!(CqlType::parse_cql(&ty.cql_name(), "ks", &resolve), Ok(ty));
    }

    #[test]
    fn freezing_is_idempotent_and_complete(ty in any_type()) {
        let frozen = ty.freeze();
        prop_assert!(!frozen.is_multi_cell());
        prop_assert_eq!(frozen.freeze(), frozen);
    }

    #[test]
    fn random_names_are_no_panic(text in "[a-zA-Z<>(),:'\" .é0-9_=]{0,40}") {
        let _ = CqlType::parse_marshal(&text);
        let _ = CqlType::parse_cql(&text, "ks", &|_| None);
    }

    #[test]
    fn damaged_names_are_no_panic(ty in any_type(), at: prop::sample::Index, with in any::<char>()) {
        for name in [ty.marshal_name(), ty.cql_name()] {
            let mut characters: Vec<char> = name.chars().collect();
            let index = at.index(characters.len());
            characters[index] = with;
            let text: String = characters.iter().collect();
            let _ = CqlType::parse_marshal(&text);
            let _ = CqlType::parse_cql(&text, "ks", &|_| None);
            characters.truncate(index);
            let text: String = characters.iter().collect();
            let _ = CqlType::parse_marshal(&text);
            let _ = CqlType::parse_cql(&text, "ks", &|_| None);
        }
    }
}
