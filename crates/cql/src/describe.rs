//! stub
use crate::*;
use espalier_mutation::schema::Schema;
pub fn execute(_: &Schema, _: &str, _: Option<&str>, _: &QueryOptions<'_>) -> Result<QueryResult> {
    Err(Error::unsupported("x"))
}
