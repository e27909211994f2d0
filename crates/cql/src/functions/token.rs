//! The function `token(partition key columns)`.

use bytes::Bytes;
use espalier_mutation::{Token, build_composite};
use espalier_types::CqlType;

use super::ResolvedFunction;
use crate::term::Preparation;

/// Returns the token function of the statement's table.
pub fn overloads(name: &str, preparation: &Preparation<'_>) -> Option<ResolvedFunction> {
    if name != "token" {
        return None;
    }
    let table = preparation.schema.table(&preparation.keyspace, &preparation.table)?;
    let types: Vec<CqlType> =
        table.partition_key_columns().iter().map(|column| column.column_type.clone()).collect();
    Some(ResolvedFunction::strict(name, types, CqlType::Bigint, |components, _| {
        let token = match components {
            [only] => Token::of(only),
            several => Token::of(&build_composite(several)),
        };
        Ok(Some(Bytes::copy_from_slice(&token.0.to_be_bytes())))
    }))
}
