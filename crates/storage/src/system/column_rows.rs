//! Decodes the rows of the schema tables that belong to columns: constraints and masks.

use espalier_mutation::schema::{ColumnConstraint, ColumnMask, KeyspaceMetadata, MaskArgument};

use super::{decode::parse_type, mask_value, row::Fields};

/// The constraints of a column, by its name.
pub(super) type NamedConstraints = (String, Vec<ColumnConstraint>);

/// Reads a row of `system_schema.column_constraints`.
pub(super) fn read_constraints(
    fields: &Fields<'_>,
    name: &str,
    _: &KeyspaceMetadata,
) -> Result<NamedConstraints, String> {
    let texts = |column: &str| fields.texts(column).unwrap_or_default();
    let (functions, operators, terms) = (texts("functions"), texts("operators"), texts("terms"));
    if functions.len() != operators.len() || functions.len() != terms.len() {
        return Err("as many operators and terms as functions are needed".into());
    }
    let constraints = functions.iter().zip(operators.iter().zip(&terms));
    let constraints = constraints.map(|(function, (operator, term))| {
        ColumnConstraint::from_parts(function, operator, term)
            .ok_or_else(|| format!("unknown constraint {function}"))
    });
    Ok((name.to_string(), constraints.collect::<Result<_, _>>()?))
}

/// The mask of a column, by its name.
pub(super) type NamedMask = (String, ColumnMask);

/// Reads a row of `system_schema.column_masks`.
pub(super) fn read_mask(
    fields: &Fields<'_>,
    name: &str,
    keyspace: &KeyspaceMetadata,
) -> Result<NamedMask, String> {
    let texts = |column: &str| fields.texts(column).unwrap_or_default();
    let (types, values) = (texts("function_argument_types"), texts("function_argument_values"));
    let nulls = fields.booleans("function_argument_nulls").unwrap_or_default();
    if types.len() != values.len() || types.len() != nulls.len() {
        return Err("as many types and nulls as arguments are needed".into());
    }
    let mut arguments = Vec::with_capacity(types.len());
    for (argument_type, (value, is_null)) in types.iter().zip(values.iter().zip(nulls)) {
        let argument_type = parse_type(argument_type, keyspace)?;
        let parsed = || mask_value::read(&argument_type, value);
        let value = if is_null { None } else { Some(parsed()?) };
        arguments.push(MaskArgument { argument_type, value });
    }
    let text = |column: &str| fields.text(column).map(str::to_owned);
    let function = text("function_name").ok_or("no function")?;
    let keyspace = text("function_keyspace").unwrap_or_else(|| "system".into());
    Ok((name.to_string(), ColumnMask { keyspace, function, arguments }))
}
