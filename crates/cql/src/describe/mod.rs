//! DESCRIBE, answered from the shard's schema. Since Cassandra 4.0, cqlsh sends DESCRIBE to the
//! server.

mod annotation;
pub(crate) mod text;

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::schema::{IndexMetadata, KeyspaceMetadata, Schema, TableMetadata};
use espalier_types::{CqlType, UserType, type_name::quote_if_needed as quote_identifier};

use crate::{
    ColumnSpec, Error, QueryOptions, QueryResult, Result, ResultMetadata, Rows,
    ddl::{find_index, is_system_keyspace},
    grammar::{
        self,
        ast::{Describe, DescribeTarget, Name, QualifiedName, Statement},
    },
    select::put,
};

/// The name of a cluster without a configured name.
const DEFAULT_CLUSTER: &str = "Test Cluster";

/// One described object.
struct Element {
    keyspace: String,
    kind: &'static str,
    name: String,
    statement: String,
}

/// Executes a DESCRIBE and returns one page. `cluster` is the cluster's name in `system.local`.
///
/// # Errors
/// The text is not a DESCRIBE, it names an object that does not exist, or the paging state is
/// malformed or belongs to an older version of the schema.
pub fn execute(
    schema: &Arc<Schema>,
    cluster: Option<String>,
    statement: &str,
    keyspace: Option<&str>,
    options: &QueryOptions<'_>,
) -> Result<QueryResult> {
    let parsed = grammar::parse(statement)?;
    let Statement::Describe(describe) = &parsed.statement else {
        return Err(Error::invalid("not a DESCRIBE statement"));
    };
    if let DescribeTarget::Cluster = describe.target {
        let cluster = cluster.unwrap_or_else(|| DEFAULT_CLUSTER.into());
        let values = vec![cluster, "Murmur3Partitioner".into(), "SimpleSnitch".into()];
        return Ok(rows(&["cluster", "partitioner", "snitch"], vec![values], None));
    }
    let describer = Describer { schema, keyspace, text: statement, describe };
    let elements = describer.elements()?;
    let is_list = is_list(&describe.target);
    let columns: &[&str] = if is_list {
        &["keyspace_name", "type", "name"]
    } else {
        &["keyspace_name", "type", "name", "create_statement"]
    };
    let offset = page_offset(schema, options)?;
    let page =
        options.page_size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    let end = page.map_or(elements.len(), |page| offset.saturating_add(page).min(elements.len()));
    let more = end < elements.len();
    let values = elements
        .into_iter()
        .take(end)
        .skip(offset)
        .map(|element| {
            let mut values = vec![
                quote_identifier(&element.keyspace).into_owned(),
                element.kind.to_string(),
                quote_identifier(&element.name).into_owned(),
            ];
            if !is_list {
                values.push(element.statement);
            }
            values
        })
        .collect();
    let paging_state = more.then(|| {
        let mut state = schema.version.as_bytes().to_vec();
        state.extend_from_slice(&(end as u32).to_be_bytes());
        Bytes::from(state)
    });
    Ok(rows(columns, values, paging_state))
}

/// Decodes the offset at which the page begins. The offset is valid for only one version of the
/// schema.
fn page_offset(schema: &Schema, options: &QueryOptions<'_>) -> Result<usize> {
    let Some(state) = options.paging_state else { return Ok(0) };
    match state.split_at_checked(16) {
        Some((version, offset)) if version == schema.version.as_bytes() => {
            let offset = <[u8; 4]>::try_from(offset).map(u32::from_be_bytes);
            offset
                .map(|offset| offset as usize)
                .map_err(|_| Error::invalid("Invalid paging state of DESCRIBE"))
        }
        Some(_) => Err(Error::invalid(
            "The schema has changed since the previous page of the DESCRIBE statement result. Please retry the DESCRIBE statement.",
        )),
        None => Err(Error::invalid("Invalid paging state of DESCRIBE")),
    }
}

fn rows(columns: &[&str], values: Vec<Vec<String>>, paging_state: Option<Bytes>) -> QueryResult {
    let specs = columns
        .iter()
        .map(|name| ColumnSpec {
            keyspace: "system".into(),
            table: "describe".into(),
            name: name.to_string(),
            column_type: CqlType::Text,
        })
        .collect();
    let mut content = Vec::new();
    values.iter().flatten().for_each(|value| put(Some(value.as_bytes()), &mut content));
    QueryResult::Rows(Rows {
        metadata: Arc::new(ResultMetadata::new(specs)),
        row_count: values.len() as i32,
        content,
        paging_state,
    })
}

/// Returns whether the answer lists objects without their statements.
fn is_list(target: &DescribeTarget<'_>) -> bool {
    match target {
        DescribeTarget::Keyspaces
        | DescribeTarget::Tables
        | DescribeTarget::Types
        | DescribeTarget::Functions
        | DescribeTarget::Aggregates => true,
        DescribeTarget::Cluster
        | DescribeTarget::Schema { .. }
        | DescribeTarget::Keyspace { .. }
        | DescribeTarget::Table(_)
        | DescribeTarget::Index(_)
        | DescribeTarget::MaterializedView(_)
        | DescribeTarget::Type(_)
        | DescribeTarget::Function(_)
        | DescribeTarget::Aggregate(_)
        | DescribeTarget::Any(_) => false,
    }
}

struct Describer<'a> {
    schema: &'a Schema,
    keyspace: Option<&'a str>,
    text: &'a str,
    describe: &'a Describe<'a>,
}

impl Describer<'_> {
    fn elements(&self) -> Result<Vec<Element>> {
        match &self.describe.target {
            DescribeTarget::Cluster => Ok(Vec::new()),
            DescribeTarget::Keyspaces => {
                let keyspaces = self.schema.keyspaces.values();
                Ok(keyspaces.map(|keyspace| self.keyspace_element(keyspace)).collect())
            }
            DescribeTarget::Tables => self.in_keyspaces(|keyspace, found| {
                let tables = keyspace.tables.values().filter(|table| !table.is_view());
                found.extend(tables.map(|table| self.table_element(table)));
            }),
            DescribeTarget::Types => self.in_keyspaces(|keyspace, found| {
                found.extend(keyspace.types.values().map(|found| type_element(keyspace, found)));
            }),
            DescribeTarget::Functions | DescribeTarget::Aggregates => self.in_keyspaces(|_, _| {}),
            DescribeTarget::Schema { full } => {
                let keyspaces = self.schema.keyspaces.values();
                let shown =
                    keyspaces.filter(|keyspace| *full || !is_system_keyspace(&keyspace.name));
                Ok(shown.flat_map(|keyspace| self.whole_keyspace(keyspace)).collect())
            }
            DescribeTarget::Keyspace { name, only } => self.named_keyspace(name.as_ref(), *only),
            DescribeTarget::Table(name) => {
                let (keyspace, table) = (self.keyspace_of(name)?, name.name.as_str());
                match keyspace.tables.get(table).filter(|table| !table.is_view()) {
                    Some(table) => Ok(self.table_with_indexes(table)),
                    None => self.missing("Table", name, keyspace),
                }
            }
            DescribeTarget::Type(name) => {
                let keyspace = self.keyspace_of(name)?;
                match keyspace.types.get(name.name.as_str()) {
                    Some(definition) => Ok(vec![type_element(keyspace, definition)]),
                    None => self.missing("User defined type", name, keyspace),
                }
            }
            DescribeTarget::Index(name) => self.named_index(name),
            DescribeTarget::MaterializedView(name) => {
                let keyspace = self.keyspace_of(name)?;
                match keyspace.tables.get(name.name.as_str()).filter(|table| table.is_view()) {
                    Some(view) => Ok(vec![self.table_element(view)]),
                    None => Err(Error::invalid_at(
                        self.text,
                        name.position(),
                        format!(
                            "Materialized view '{}' not found in '{}'",
                            name.name, keyspace.name
                        ),
                    )),
                }
            }
            DescribeTarget::Function(name) => {
                self.missing("User defined function", name, self.keyspace_of(name)?)
            }
            DescribeTarget::Aggregate(name) => {
                self.missing("User defined aggregate", name, self.keyspace_of(name)?)
            }
            DescribeTarget::Any(name) => self.keyspace_or_table(name),
        }
    }

    fn named_index(&self, name: &QualifiedName<'_>) -> Result<Vec<Element>> {
        let keyspace = self.keyspace_of(name)?;
        let index = name.name.as_str();
        let Some((table, index)) = find_index(keyspace, index) else {
            let message =
                format!("Table for existing index '{index}' not found in '{}'", keyspace.name);
            return Err(Error::invalid_at(self.text, name.position(), message));
        };
        Ok(vec![index_element(table, index)])
    }

    fn named_keyspace(&self, name: Option<&Name<'_>>, only: bool) -> Result<Vec<Element>> {
        let keyspace = self.find_keyspace(name.map(Name::as_str).or(self.keyspace))?;
        Ok(if only { vec![self.keyspace_element(keyspace)] } else { self.whole_keyspace(keyspace) })
    }

    /// Describes the keyspace with this name, or else the index, or else the table or view.
    fn keyspace_or_table(&self, name: &QualifiedName<'_>) -> Result<Vec<Element>> {
        if name.keyspace.is_none() {
            if let Some(keyspace) = self.schema.keyspace(name.name.as_str()) {
                return Ok(self.whole_keyspace(keyspace));
            }
            if self.keyspace.is_none() {
                return Err(Error::invalid(format!("'{}' not found in keyspaces", name.name)));
            }
        }
        let keyspace = self.keyspace_of(name)?;
        if let Some((table, index)) = find_index(keyspace, name.name.as_str()) {
            return Ok(vec![index_element(table, index)]);
        }
        match keyspace.tables.get(name.name.as_str()) {
            Some(table) => Ok(self.table_with_indexes(table)),
            None => Err(Error::invalid(format!(
                "'{}' not found in keyspace '{}'",
                name.name, keyspace.name
            ))),
        }
    }

    fn missing(
        &self,
        kind: &str,
        name: &QualifiedName<'_>,
        keyspace: &KeyspaceMetadata,
    ) -> Result<Vec<Element>> {
        Err(Error::invalid_at(
            self.text,
            name.position(),
            format!("{kind} '{}' not found in keyspace '{}'", name.name, keyspace.name),
        ))
    }

    fn find_keyspace(&self, name: Option<&str>) -> Result<&Arc<KeyspaceMetadata>> {
        let name =
            name.ok_or_else(|| Error::invalid("No keyspace specified and no current keyspace"))?;
        self.schema
            .keyspace(name)
            .ok_or_else(|| Error::invalid(format!("'{name}' not found in keyspaces")))
    }

    fn keyspace_of(&self, name: &QualifiedName<'_>) -> Result<&Arc<KeyspaceMetadata>> {
        self.find_keyspace(name.keyspace_or(self.keyspace))
    }

    /// Collects elements from the session's keyspace or, without one, from all keyspaces.
    fn in_keyspaces(
        &self,
        add: impl Fn(&KeyspaceMetadata, &mut Vec<Element>),
    ) -> Result<Vec<Element>> {
        let mut found = Vec::new();
        match self.keyspace {
            name @ Some(_) => add(self.find_keyspace(name)?, &mut found),
            None => self.schema.keyspaces.values().for_each(|keyspace| add(keyspace, &mut found)),
        }
        Ok(found)
    }

    fn keyspace_element(&self, keyspace: &KeyspaceMetadata) -> Element {
        Element {
            keyspace: keyspace.name.clone(),
            kind: "keyspace",
            name: keyspace.name.clone(),
            statement: text::keyspace(keyspace) + &annotation::of_keyspace(keyspace),
        }
    }

    fn table_element(&self, table: &TableMetadata) -> Element {
        Element {
            keyspace: table.keyspace.clone(),
            kind: if table.is_view() { "materialized_view" } else { "table" },
            name: table.name.clone(),
            statement: self.table_statement(table),
        }
    }

    fn table_statement(&self, table: &TableMetadata) -> String {
        let mut statement = text::table(table, self.describe.with_internals);
        if let Some(keyspace) = self.schema.keyspace(&table.keyspace) {
            statement.push_str(&annotation::of_table(keyspace, table));
        }
        statement
    }

    fn whole_keyspace(&self, keyspace: &KeyspaceMetadata) -> Vec<Element> {
        let mut elements = vec![self.keyspace_element(keyspace)];
        let types = in_order_of_use(keyspace).into_iter();
        elements.extend(types.map(|definition| type_element(keyspace, definition)));
        let tables = keyspace.tables.values().filter(|table| !table.is_view());
        elements.extend(tables.flat_map(|table| self.table_with_indexes(table)));
        elements
    }

    /// Describes a table, its indexes and its views.
    fn table_with_indexes(&self, table: &TableMetadata) -> Vec<Element> {
        let mut elements = vec![self.table_element(table)];
        elements.extend(table.indexes.iter().map(|index| index_element(table, index)));
        let views = table.views.iter();
        let views = views.filter_map(|view| self.schema.table(&table.keyspace, view));
        elements.extend(views.map(|view| self.table_element(view)));
        elements
    }
}

fn type_element(keyspace: &KeyspaceMetadata, definition: &Arc<UserType>) -> Element {
    Element {
        keyspace: definition.keyspace.clone(),
        kind: "type",
        name: definition.name.clone(),
        statement: text::user_type(definition) + &annotation::of_type(keyspace, definition),
    }
}

fn index_element(table: &TableMetadata, index: &IndexMetadata) -> Element {
    Element {
        keyspace: table.keyspace.clone(),
        kind: "index",
        name: index.name.clone(),
        statement: text::index(table, index),
    }
}

/// Returns the user types that a table uses. Each type comes once, after the types of its fields.
pub(crate) fn types_of(table: &TableMetadata) -> Vec<&Arc<UserType>> {
    let mut found = Vec::new();
    table.columns().iter().for_each(|column| collect_types(&column.column_type, &mut found));
    found
}

fn collect_types<'a>(column_type: &'a CqlType, found: &mut Vec<&'a Arc<UserType>>) {
    column_type.parts().for_each(|part| collect_types(part, found));
    if let CqlType::UserDefined { definition, .. } = column_type
        && !found.iter().any(|other| other.name == definition.name)
    {
        found.push(definition);
    }
}

/// Returns the user types of a keyspace. Each type comes after the types of its fields, so that the
/// output can be executed from top to bottom.
fn in_order_of_use(keyspace: &KeyspaceMetadata) -> Vec<&Arc<UserType>> {
    let mut ordered: Vec<&Arc<UserType>> = Vec::with_capacity(keyspace.types.len());
    let mut left: Vec<&Arc<UserType>> = keyspace.types.values().collect();
    while !left.is_empty() {
        let (ready, waiting): (Vec<_>, Vec<_>) = left.iter().partition(|definition| {
            let uses =
                |name: &str| definition.fields.iter().any(|(_, field)| mentions(field, name));
            !left.iter().any(|other| other.name != definition.name && uses(&other.name))
        });
        if ready.is_empty() {
            ordered.extend(waiting);
            break;
        }
        ordered.extend(ready);
        left = waiting;
    }
    ordered
}

fn mentions(column_type: &CqlType, name: &str) -> bool {
    match column_type {
        CqlType::UserDefined { definition, .. } => definition.name == name,
        other => other.parts().any(|part| mentions(part, name)),
    }
}
