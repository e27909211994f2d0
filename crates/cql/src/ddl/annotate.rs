//! COMMENT ON and SECURITY LABEL ON: texts that the node keeps and DESCRIBE shows. They have no
//! other effect.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{Annotated, Schema};

use super::{Context, Outcome, check_changeable};
use crate::{
    ChangeKind, ChangeTarget,
    grammar::ast::{Annotate, AnnotateTarget, Name, Position, QualifiedName},
};

/// Executes COMMENT ON or SECURITY LABEL ON.
///
/// # Errors
/// The object does not exist, or belongs to a system keyspace.
pub(super) fn annotate(context: &Context<'_>, statement: &Annotate<'_>) -> Outcome {
    let owned = |name: &Name<'_>| name.as_str().to_string();
    let (owner, object, event, what, position) = match &statement.target {
        AnnotateTarget::Keyspace(name) => {
            let target = (ChangeTarget::Keyspace, String::new());
            let what = format!("Keyspace '{name}'");
            (name.as_str(), Annotated::Keyspace, target, what, name.position)
        }
        AnnotateTarget::Table(table) => {
            let (owner, position) = place(context, table)?;
            let object = Annotated::Table(owned(&table.name));
            let target = (ChangeTarget::Table, owned(&table.name));
            (owner, object, target, format!("Table '{owner}.{}'", table.name), position)
        }
        AnnotateTarget::Column(table, column) => {
            let (owner, _) = place(context, table)?;
            let object = Annotated::Column(owned(&table.name), owned(column));
            let target = (ChangeTarget::Table, owned(&table.name));
            let what = format!("Column '{column}' of table '{owner}.{}'", table.name);
            (owner, object, target, what, column.position)
        }
        AnnotateTarget::Type(name) => {
            let (owner, position) = place(context, name)?;
            let object = Annotated::Type(owned(&name.name));
            let target = (ChangeTarget::Type, owned(&name.name));
            (owner, object, target, format!("Type '{owner}.{}'", name.name), position)
        }
        AnnotateTarget::Field(name, field) => {
            let (owner, _) = place(context, name)?;
            let object = Annotated::Field(owned(&name.name), owned(field));
            let target = (ChangeTarget::Type, owned(&name.name));
            let what = format!("Field '{field}' of type '{owner}.{}'", name.name);
            (owner, object, target, what, field.position)
        }
    };
    check_changeable(owner)?;
    let found = context.schema.keyspace(owner).filter(|keyspace| keyspace.has(&object));
    let Some(found) = found else {
        let message = format!("{what} doesn't exist");
        return Err(context.invalid(position, message));
    };
    let mut keyspace = found.as_ref().clone();
    let text = statement.text.as_deref().unwrap_or_default().to_string();
    match &object {
        // The comment of a table is an option, which CREATE TABLE can set too.
        Annotated::Table(name) if !statement.is_label => {
            if let Some(table) = keyspace.tables.get(name) {
                let mut options = table.options.clone();
                options.comment = text;
                let table = table.rebuild().options(options).build();
                keyspace.tables.insert(name.clone(), Arc::new(table));
            }
        }
        _ => {
            let mut annotation = keyspace.annotations.remove(&object).unwrap_or_default();
            let changed_text = if statement.is_label {
                &mut annotation.security_label
            } else {
                &mut annotation.comment
            };
            *changed_text = text;
            if !annotation.is_empty() {
                keyspace.annotations.insert(object, annotation);
            }
        }
    }
    let (target, name) = event;
    context.with_keyspace(keyspace, ChangeKind::Updated, target, &name)
}

fn place<'n>(
    context: &'n Context<'_>,
    name: &'n QualifiedName<'_>,
) -> crate::Result<(&'n str, Position)> {
    Ok((context.keyspace_name(name)?, name.position()))
}

/// Returns the schema without the texts of objects that are gone from a keyspace, so that a later
/// object of the same name begins without them.
pub(super) fn without_dropped(schema: Schema, keyspace: &str) -> Schema {
    let is_gone = |(object, _): (&Annotated, _)| {
        schema.keyspace(keyspace).is_some_and(|keyspace| !keyspace.has(object))
    };
    let Some(found) = schema.keyspace(keyspace) else { return schema };
    if !found.annotations.iter().any(is_gone) {
        return schema;
    }
    let mut cleaned = found.as_ref().clone();
    let kept = found.annotations.iter().filter(|(object, _)| found.has(object));
    cleaned.annotations = kept.map(|(object, text)| (object.clone(), text.clone())).collect();
    let mut keyspaces: BTreeMap<_, _> = schema.keyspaces.clone();
    keyspaces.insert(keyspace.to_string(), Arc::new(cleaned));
    Schema::new(keyspaces, schema.version)
}
