//! `to_json`, `from_json`, and the columns of a JSON document for `SELECT JSON` and `INSERT JSON`.
//!
//! Names of columns are in lower case unless they are in CQL quotes inside the JSON string:
//! `"\"Name\""`.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_types::{
    CqlType,
    literal::{self, FieldCount, Json},
};
use hashbrown::HashMap;

use super::{ResolvedFunction, generic::GenericCall, work};
use crate::{
    Error, Result,
    term::{Bound, Evaluation, Term},
};

/// Maximum bytes of a document that the thread keeps between statements, its text and its values
/// together. The thread keeps a larger document only while its statement reads the columns.
const MAX_KEPT: usize = 1 << 20;

/// Returns the function of that name, made for the types of the arguments.
///
/// # Errors
/// The call does not have exactly one argument, the type of the argument of `to_json` is unknown,
/// the argument of `from_json` is no text, or `from_json` has no receiver.
pub fn overload(call: &GenericCall<'_, '_>) -> Result<Option<ResolvedFunction>> {
    match call.name {
        "to_json" | "tojson" => {
            call.expect_arguments(1..=1, "any")?;
            let source = call.type_of(0, "any")?;
            let types = vec![source.clone()];
            let print = move |values: &[Option<Bytes>], _: &Evaluation<'_>| {
                let value = values.first().and_then(Option::as_ref);
                let Some(value) = value else { return Ok(Some(Bytes::from_static(b"null"))) };
                check_printable(&source, value)?;
                Ok(Some(Bytes::from(literal::to_json(&source, value))))
            };
            Ok(Some(ResolvedFunction::nullable(call.name, types, CqlType::Text, print)))
        }
        "from_json" | "fromjson" => {
            call.expect_arguments(1..=1, "text")?;
            let Some(target) = call.receiver.cloned() else {
                return Err(call.invalid(format!(
                    "{}() cannot be used in the selection clause of a SELECT statement",
                    call.name
                )));
            };
            let known = call.known_type(0).unwrap_or(CqlType::Text);
            if !matches!(known, CqlType::Text | CqlType::Ascii) {
                return Err(call.wrong_argument(0, "an argument of type text", &known));
            }
            let name = call.name.to_string();
            let result = target.clone();
            let types = vec![CqlType::Text];
            let parse = move |values: &[Bytes], _: &Evaluation<'_>| {
                let Some(text) = values.first() else { return Ok(None) };
                let text = std::str::from_utf8(text).map_err(|error| failed(&name, error))?;
                literal::from_json(&target, text).map_err(|error| failed(&name, error))
            };
            Ok(Some(ResolvedFunction::strict(call.name, types, result, parse)))
        }
        _ => Ok(None),
    }
}

/// Refuses a value that takes too long to print, alone or after other values.
fn check_printable(column_type: &CqlType, value: &[u8]) -> Result<()> {
    let squares = literal::check_printable(column_type, value);
    let squares = squares.map_err(Error::invalid_from)?;
    work::charge_printing(squares).map_err(Error::invalid_from)
}

fn failed(name: &str, error: impl std::fmt::Display) -> Error {
    let message = format!("execution of 'system.{name}[text]' failed: {error}");
    Error::function_failure(name, vec![CqlType::Text.cql_name()], message)
}

/// Returns the function that makes one JSON object of the selected values. `columns` has their
/// names and types.
pub fn row_to_json(columns: Vec<(String, CqlType)>) -> ResolvedFunction {
    let types = columns.iter().map(|(_, column_type)| column_type.clone()).collect();
    let named: Vec<(String, CqlType)> = columns
        .into_iter()
        .map(|(name, column_type)| (literal::quote_json(&json_name(&name)), column_type))
        .collect();
    ResolvedFunction::nullable("[json]", types, CqlType::Text, move |values, _| {
        let mut object = String::from("{");
        for (index, ((name, column_type), value)) in named.iter().zip(values).enumerate() {
            if index > 0 {
                object.push_str(", ");
            }
            object.push_str(name);
            object.push_str(": ");
            match value {
                Some(value) => {
                    check_printable(column_type, value)?;
                    literal::push_json(column_type, value, &mut object);
                }
                None => object.push_str("null"),
            }
        }
        object.push('}');
        Ok(Some(object.into()))
    })
}

fn json_name(name: &str) -> String {
    if name.to_lowercase() == name { name.to_string() } else { format!("\"{name}\"") }
}

/// A column's value in a JSON document that is known only at execution.
#[derive(Clone, Debug)]
pub struct JsonColumn {
    /// The document.
    pub document: Term,
    /// The column as it is stored.
    pub name: String,
    /// The names and types of all columns of the table. A document that has another name is an
    /// error.
    pub columns: Arc<[(String, CqlType)]>,
    /// True if a column that the document omits keeps its value; otherwise it becomes null.
    pub default_unset: bool,
}

/// The values of a document by column name; `None` is null.
#[derive(Debug)]
pub struct Document {
    values: HashMap<String, Option<Bytes>>,
}

impl Document {
    /// Parses a document for a table with these columns, all values at once, as Cassandra does.
    /// `fields` counts the fields of its user types.
    ///
    /// # Errors
    /// The text is not UTF-8 or not a JSON object, a member is not one of `columns` or not a value
    /// of the column's type, or the user types have too many fields.
    pub fn parse(
        text: &[u8],
        columns: &[(String, CqlType)],
        fields: &mut FieldCount,
    ) -> Result<Self> {
        let wrong = |reason: String| {
            let text = String::from_utf8_lossy(text);
            Error::invalid(format!(
                "Could not decode JSON string as a map: {reason}. (String was: {text})"
            ))
        };
        let utf8 = std::str::from_utf8(text).map_err(|error| wrong(error.to_string()))?;
        let found = match literal::parse_json(utf8).map_err(|error| wrong(error.to_string()))? {
            Json::Object(found) => found,
            Json::Null => return Err(Error::invalid("Got null for INSERT JSON values")),
            _ => return Err(wrong("it is not an object".to_string())),
        };
        let mut members = HashMap::with_capacity(found.len());
        for (name, value) in found {
            let stored = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                Some(quoted) => quoted.to_string(),
                None => name.to_lowercase(),
            };
            // The last member of a name counts.
            members.insert(stored, value);
        }
        let mut values = HashMap::with_capacity(columns.len().min(members.len()));
        for (name, column_type) in columns {
            let Some((name, json)) = members.remove_entry(name) else { continue };
            let value = literal::from_json_value(column_type, &json, fields).map_err(|error| {
                Error::invalid(format!("Error decoding JSON value for {name}: {error}"))
            })?;
            values.insert(name, value);
        }
        if let Some(unknown) = members.into_keys().min() {
            return Err(Error::invalid(format!(
                "JSON values map contains unrecognized column: {unknown}"
            )));
        }
        Ok(Self { values })
    }

    /// Returns the value of a column.
    pub fn column(&self, name: &str, default_unset: bool) -> Bound {
        match self.values.get(name) {
            Some(Some(value)) => Bound::Value(value.clone()),
            None if default_unset => Bound::Unset,
            Some(None) | None => Bound::Null,
        }
    }
}

/// A document, its text, and the columns that it may have.
struct Parsed {
    text: Bytes,
    columns: Arc<[(String, CqlType)]>,
    document: Rc<Document>,
    /// Bytes of the text and of the values.
    bytes: usize,
}

thread_local! {
    /// The document that this thread parsed last, because all columns of a statement read the same
    /// document.
    static LAST: RefCell<Option<Parsed>> = const { RefCell::new(None) };
}

/// Frees a large document at the end of the statement that reads it.
#[derive(Debug)]
pub struct DocumentScope;

impl Drop for DocumentScope {
    fn drop(&mut self) {
        LAST.with_borrow_mut(|last| last.take_if(|last| last.bytes > MAX_KEPT));
    }
}

/// Compares two texts. The columns of a statement have clones of one text, which are equal without
/// a look at their bytes.
fn is_same(left: &Bytes, right: &Bytes) -> bool {
    std::ptr::eq::<[u8]>(&**left, &**right) || left == right
}

impl JsonColumn {
    /// Returns the column's value in the document of this execution.
    ///
    /// # Errors
    /// The document is null, unset or refused by [`Document::parse`].
    pub fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<Bound> {
        let text = self.document.evaluate(evaluation)?.required("[json]")?;
        let Some(text) = text else {
            return Err(Error::invalid("Got null for INSERT JSON values"));
        };
        let kept = LAST.with_borrow(|last| match last {
            Some(last)
                if Arc::ptr_eq(&last.columns, &self.columns) && is_same(&last.text, &text) =>
            {
                Some(last.document.clone())
            }
            _ => None,
        });
        let document = match kept {
            Some(document) => document,
            None => {
                let fields = &mut FieldCount::default();
                let document = Rc::new(Document::parse(&text, &self.columns, fields)?);
                let columns = Arc::clone(&self.columns);
                let values = document.values.values().flatten();
                let bytes = text.len() + values.map(Bytes::len).sum::<usize>();
                LAST.set(Some(Parsed { text, columns, document: document.clone(), bytes }));
                document
            }
        };
        Ok(document.column(&self.name, self.default_unset))
    }
}

#[cfg(test)]
mod tests {
    use espalier_types::UserType;

    use super::*;

    #[test]
    fn a_document_with_large_values_is_freed_after_its_statement() {
        let fields = (0..100).map(|number| (format!("f{number}"), CqlType::Int)).collect();
        let definition = UserType { keyspace: "ks".into(), name: "u".into(), fields };
        let element = CqlType::UserDefined { definition: definition.into(), frozen: true };
        let list = CqlType::List { element: element.into(), frozen: true };
        let columns: Arc<[(String, CqlType)]> = [("l".to_string(), list)].into();
        let evaluation = Evaluation { values: &[], now_us: 0, references: &[] };
        // A value without fields takes four bytes of the text, and 404 bytes of the list.
        for (count, is_kept) in [(100, true), (4000, false)] {
            let text = format!("{{\"l\": [{}{{}}]}}", "{}, ".repeat(count - 1));
            let document = Term::Constant(Some(text.into()));
            let (name, columns) = ("l".to_string(), columns.clone());
            let column = JsonColumn { document, name, columns, default_unset: false };
            let scope = DocumentScope;
            column.evaluate(&evaluation).unwrap();
            drop(scope);
            assert_eq!(LAST.with_borrow(Option::is_some), is_kept, "{count}");
        }
    }
}
