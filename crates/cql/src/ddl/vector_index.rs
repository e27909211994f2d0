//! The options of storage-attached indexes on vectors. The messages and the order of the checks are
//! Cassandra's.

use espalier_mutation::schema::{
    ColumnDefinition, IndexMetadata, OPTIMIZE_FOR_OPTION, RECALL, SIMILARITY_OPTION, TableMetadata,
};
use espalier_types::{CqlType, Similarity};

use super::text_index;
use crate::{Error, Result, restrictions::indexed_type};

const CONNECTIONS: &str = "maximum_node_connections";
const BEAM_WIDTH: &str = "construction_beam_width";
const LATENCY: &str = "LATENCY";

/// Maximum number of components of an indexed vector. Cassandra documents this limit for all
/// vectors, and does not check it. Components of indexed vectors are at most 1e17
/// ([`Similarity::check`]), so within the limit all squares of lengths and distances are finite.
const MAX_DIMENSION: usize = 8192;

/// The names of the options.
pub(super) const OPTIONS: [&str; 4] =
    [CONNECTIONS, BEAM_WIDTH, SIMILARITY_OPTION, OPTIMIZE_FOR_OPTION];

/// Cassandra's warning about an index on vectors.
const WARNING: &str = "SAI ANN indexes on vector columns are experimental and are not recommended \
for production use.\n\
They don't yet support SELECT queries with:\n \
* Consistency level higher than ONE/LOCAL_ONE.\n \
* Paging.\n \
* No LIMIT clauses.\n \
* PER PARTITION LIMIT clauses.\n \
* GROUP BY clauses.\n \
* Aggregation functions.\n \
* Filters on columns without a SAI index.";

/// Checks the column of an index, and its options for vectors. Returns a warning if the column has
/// vectors.
pub(super) fn check(table: &TableMetadata, index: &IndexMetadata) -> Result<Option<&'static str>> {
    let Some(column) = index.column_of(table) else { return Ok(None) };
    let option = |name: &str| index.options.get(name);
    let CqlType::Vector { element, dimension } = &column.column_type else {
        if OPTIONS.iter().any(|name| option(name).is_some()) {
            return Err(Error::invalid(format!(
                "CQL type {} cannot have vector options",
                indexed_type(&column.column_type, index.part).cql_name()
            )));
        }
        return Ok(None);
    };
    if text_index::OPTIONS.iter().any(|name| option(name).is_some()) {
        return Err(Error::invalid(format!(
            "CQL type {} cannot be analyzed.",
            column.column_type.cql_name()
        )));
    }
    for (name, what) in
        [(CONNECTIONS, "Maximum node connections"), (BEAM_WIDTH, "Construction beam width")]
    {
        if option(name).is_some() {
            return Err(Error::invalid(format!(
                "{what} cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS"
            )));
        }
    }
    let mut similarity = Similarity::Cosine;
    if let Some(given) = option(SIMILARITY_OPTION) {
        let names: Vec<&str> = Similarity::ALL.into_iter().map(Similarity::name).collect();
        similarity = Similarity::from_name(given).ok_or_else(|| {
            Error::invalid(format!(
                "Similarity function {} was not recognized for index null. Valid values are: {}",
                given.to_uppercase(),
                names.join(", ")
            ))
        })?;
    }
    if let Some(given) = option(OPTIMIZE_FOR_OPTION) {
        let given = given.to_uppercase();
        if ![LATENCY, RECALL].contains(&given.as_str()) {
            return Err(Error::invalid(format!(
                "optimize_for '{given}' was not recognized for index null. Valid values are: \
                 {LATENCY}, {RECALL}"
            )));
        }
    }
    if **element != CqlType::Float {
        return Err(Error::invalid(
            "SAI ANN indexes are only allowed on vector columns with float elements",
        ));
    }
    if *dimension == 1 && similarity == Similarity::Cosine {
        return Err(Error::invalid(
            "Cosine similarity is not supported for single-dimension vectors",
        ));
    }
    check_supported(column, *dimension)?;
    Ok(Some(WARNING))
}

/// Refuses the indexes on vectors that Cassandra allows and this node does not support.
fn check_supported(column: &ColumnDefinition, dimension: usize) -> Result<()> {
    let vectors = if dimension > MAX_DIMENSION {
        format!("with more than {MAX_DIMENSION} components")
    } else if column.is_primary_key() {
        "in the primary key".into()
    } else {
        return Ok(());
    };
    let name = &column.name;
    Err(Error::invalid(format!("Indexes on vectors {vectors} are not supported: {name}")))
}
