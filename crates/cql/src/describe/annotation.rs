//! Comments and security labels as the statements that set them, in Cassandra 6's order.

use std::fmt::Write;

use espalier_mutation::schema::{Annotated, KeyspaceMetadata, TableMetadata};
use espalier_types::{UserType, type_name::quote_if_needed};

/// Returns the statements for a keyspace, each after a line break.
pub fn of_keyspace(keyspace: &KeyspaceMetadata) -> String {
    let name = quote_if_needed(&keyspace.name);
    let mut text = String::new();
    add(&mut text, keyspace, &Annotated::Keyspace, false, &format!("KEYSPACE {name}"));
    add(&mut text, keyspace, &Annotated::Keyspace, true, &format!("KEYSPACE {name}"));
    text
}

/// Returns the statements for a table and its columns. The table's comment is among its options.
pub fn of_table(keyspace: &KeyspaceMetadata, table: &TableMetadata) -> String {
    let name = format!("{}.{}", quote_if_needed(&keyspace.name), quote_if_needed(&table.name));
    let mut text = String::new();
    let object = Annotated::Table(table.name.clone());
    add(&mut text, keyspace, &object, true, &format!("TABLE {name}"));
    for is_label in [false, true] {
        for column in table.columns() {
            let object = Annotated::Column(table.name.clone(), column.name.clone());
            let what = format!("COLUMN {name}.{}", quote_if_needed(&column.name));
            add(&mut text, keyspace, &object, is_label, &what);
        }
    }
    text
}

/// Returns the statements for a user-defined type and its fields.
pub fn of_type(keyspace: &KeyspaceMetadata, definition: &UserType) -> String {
    let name = format!("{}.{}", quote_if_needed(&keyspace.name), quote_if_needed(&definition.name));
    let mut text = String::new();
    for is_label in [false, true] {
        let object = Annotated::Type(definition.name.clone());
        add(&mut text, keyspace, &object, is_label, &format!("TYPE {name}"));
        for (field, _) in &definition.fields {
            let object = Annotated::Field(definition.name.clone(), field.clone());
            let what = format!("FIELD {name}.{}", quote_if_needed(field));
            add(&mut text, keyspace, &object, is_label, &what);
        }
    }
    text
}

fn add(
    text: &mut String,
    keyspace: &KeyspaceMetadata,
    object: &Annotated,
    is_label: bool,
    what: &str,
) {
    let Some(annotation) = keyspace.annotations.get(object) else { return };
    let (statement, value) = if is_label {
        ("SECURITY LABEL", &annotation.security_label)
    } else {
        ("COMMENT", &annotation.comment)
    };
    if !value.is_empty() {
        let _ = write!(text, "\n{statement} ON {what} IS '{}';", value.replace('\'', "''"));
    }
}
