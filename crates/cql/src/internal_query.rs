//! Reads tables for the node itself by SELECT statements, and converts values of CQL.

use bytes::Bytes;
use espalier_runtime::time;
use espalier_storage::Node;
use espalier_types::{CqlType, collection};

use crate::{
    Error, ErrorCode, QueryOptions, Result, Value, planner, prepared::Plan, select,
    term::Evaluation,
};

/// A row of an answer: one value for each column, `None` for null.
pub type Row = Vec<Option<Bytes>>;

/// Reads all rows of a SELECT whose markers have text values.
///
/// # Errors
/// The storage fails.
pub async fn read(database: &Node, text: &str, values: &[&str]) -> Result<Vec<Row>> {
    let prepared = planner::plan(text, None, &database.store().schema())?;
    let Plan::Select(select) = &prepared.plan else { return Err(not_a(text)) };
    let values = bound(values);
    let now_us = time::now_micros();
    let evaluation = Evaluation { values: &values, now_us, references: &[] };
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(u32::MAX - 3);
    let options = QueryOptions::default();
    let rows = select::execute(select, database, &evaluation, &options, now_s).await?;
    let count = usize::try_from(rows.row_count).unwrap_or(0);
    let columns = rows.metadata.columns.len();
    let mut content = Bytes::from(rows.content);
    Ok((0..count).map(|_| (0..columns).map(|_| take_value(&mut content)).collect()).collect())
}

/// Reads the texts in the only column of a SELECT. Skips nulls.
///
/// # Errors
/// The storage fails.
pub async fn read_texts(database: &Node, query: &str, values: &[&str]) -> Result<Vec<String>> {
    let rows = read(database, query, values).await?;
    let first = |row: &Row| text(row.first()?.as_ref()).map(str::to_owned);
    Ok(rows.iter().filter_map(first).collect())
}

/// Takes one value with its length from the front of `content`; `None` for null.
fn take_value(content: &mut Bytes) -> Option<Bytes> {
    let length = content.split_to(content.len().min(4));
    let length = <[u8; 4]>::try_from(&*length).map(i32::from_be_bytes).ok()?;
    let length = usize::try_from(length).ok()?;
    Some(content.split_to(length.min(content.len())))
}

/// Returns a text value.
pub fn text(value: Option<&Bytes>) -> Option<&str> {
    std::str::from_utf8(value?).ok()
}

/// Returns a boolean value; false for null.
pub fn boolean(value: Option<&Bytes>) -> bool {
    value.is_some_and(|value| value.first().is_some_and(|byte| *byte != 0))
}

/// Returns the elements of a set up to the first malformed one; none for null.
pub fn elements(value: Option<&Bytes>) -> impl Iterator<Item = &[u8]> {
    let elements = value.and_then(|value| collection::elements(value).ok());
    elements.into_iter().flatten().map_while(|element| element.ok().flatten())
}

/// Returns the elements of a set of texts; none for null.
pub fn texts(value: Option<&Bytes>) -> Vec<String> {
    elements(value).filter_map(|element| String::from_utf8(element.to_vec()).ok()).collect()
}

/// Returns a set of texts as a value.
pub fn set_value<'t>(elements: impl IntoIterator<Item = &'t str>) -> Value {
    Value::Bytes(collection::set_of(&CqlType::Text, elements.into_iter().collect()))
}

/// Returns a boolean as a value.
pub fn boolean_value(value: bool) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&[u8::from(value)]))
}

/// Returns a text as a value.
pub fn text_value(value: &str) -> Value {
    Value::Bytes(Bytes::copy_from_slice(value.as_bytes()))
}

/// Returns texts as the values of markers.
pub fn bound(values: &[&str]) -> Vec<Value> {
    values.iter().map(|value| text_value(value)).collect()
}

/// Returns the error of a statement of the node that is not of the expected kind.
pub fn not_a(text: &str) -> Error {
    Error::new(ErrorCode::ServerError, format!("not a statement of its kind: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_ends_early_has_only_its_whole_elements() {
        let whole = collection::list_of(["ab", "cde"]);
        assert_eq!(texts(Some(&whole)), ["ab", "cde"]);
        assert_eq!(texts(Some(&whole.slice(..whole.len() - 1))), ["ab"]);
        assert_eq!(texts(None), [""; 0]);
    }
}
