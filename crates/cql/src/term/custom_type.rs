//! Types written as the names of their Java classes: `'org.apache.cassandra.db.marshal.Int32Type'`.

use espalier_mutation::schema::Schema;
use espalier_types::CqlType;

use crate::{Error, Result};

/// Returns the type that a Java class names. This node must know all classes of the type, except
/// those that the aliases of a `DynamicCompositeType` name: it does not read them. The schema
/// tables must be able to store the type, so its user types must be those of the keyspace. The user
/// types of a composite may be others, as in Cassandra, because the name of the composite's class
/// defines them.
///
/// # Errors
/// Code 0x2000 with Cassandra's text.
pub fn custom_type(schema: &Schema, keyspace: &str, class: &str) -> Result<CqlType> {
    resolve(schema, keyspace, class)
        .map_err(|reason| Error::syntax(format!("Error setting type {class}: {reason}")))
}

fn resolve(schema: &Schema, keyspace: &str, class: &str) -> Result<CqlType, String> {
    let found = CqlType::parse_marshal(class).map_err(|error| error.reason)?;
    let types = schema.keyspace(keyspace).map(|keyspace| &keyspace.types);
    let resolve = |name: &str| types.and_then(|types| types.get(name)).cloned();
    match CqlType::parse_cql(&found.cql_name(), keyspace, &resolve) {
        Ok(stored) if stored == found => check_classes(&found).map(|()| found),
        Ok(_) => Err("its user types are not those of the keyspace".into()),
        Err(error) => Err(error.reason),
    }
}

/// Refuses a class that is neither a CQL type nor one of `KNOWN`, the other classes of Cassandra.
fn check_classes(column_type: &CqlType) -> Result<(), String> {
    const KNOWN: [&str; 4] =
        ["DateType", "LexicalUUIDType", "DynamicCompositeType", "PartitionerDefinedOrder"];
    match column_type {
        CqlType::Custom(class) => {
            let name = class.strip_prefix("org.apache.cassandra.db.marshal.").unwrap_or_default();
            let simple = name.split('(').next().unwrap_or_default();
            if KNOWN.contains(&simple) {
                return Ok(());
            }
            Err(format!("Unable to find abstract-type class '{class}'"))
        }
        other => other.parts().try_for_each(check_classes),
    }
}
