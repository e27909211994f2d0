//! `mask_*`: functions that hide a value or parts of it.
//!
//! Positions in strings count UTF-16 units, as Java does. A character outside the Basic
//! Multilingual Plane has two units. If only one of the two is masked, the other becomes `?`.

use bytes::Bytes;
use espalier_mutation::schema::{ColumnMask, Schema};
use espalier_types::{CqlType, collection, timeuuid};
use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use super::{Argument, ResolvedFunction, Text, generic::GenericCall};
use crate::{
    Error, ErrorCode, Result,
    grammar::ast::{BindMarkers, Expression, ExpressionKind, Position},
    term::Preparation,
};

/// Returns whether a native function may be the mask of a column.
pub fn is_mask(name: &str) -> bool {
    ["mask_null", "mask_default", "mask_replace", "mask_inner", "mask_outer", "mask_hash"]
        .contains(&name)
}

/// Returns the mask of a column of this type as a function of the column's value. If the node does
/// not have the mask's function, the result refuses every value, so that it shows none.
pub fn of_column(schema: &Schema, mask: &ColumnMask, column_type: &CqlType) -> ResolvedFunction {
    let (position, markers) = (Position::default(), BindMarkers::default());
    let preparation = &Preparation::new("", schema, "".into(), "".into(), &markers);
    let text = Expression { kind: ExpressionKind::Null, position };
    let types = mask.arguments.iter().map(|argument| &argument.argument_type);
    let typed = |known: &CqlType| Argument::Typed(known.clone(), Text::Whole(&text));
    let arguments: Vec<_> = std::iter::once(column_type).chain(types).map(typed).collect();
    let name = mask.function.as_str();
    let receiver = Some(column_type);
    let call = GenericCall { preparation, position, name, arguments: &arguments, receiver };
    let is_native = mask.keyspace == "system";
    let found = if is_native { overload(&call).ok().flatten() } else { None };
    let constants: Vec<_> = mask.arguments.iter().map(|argument| argument.value.clone()).collect();
    let shown = mask.to_string();
    let types = vec![column_type.clone()];
    ResolvedFunction::nullable(name, types, column_type.clone(), move |values, evaluation| {
        let Some(function) = &found else {
            let message = format!("This node does not have the masking function {shown}");
            return Err(Error::new(ErrorCode::ServerError, message));
        };
        let mut arguments = Vec::with_capacity(1 + constants.len());
        arguments.push(values.first().cloned().flatten());
        arguments.extend_from_slice(&constants);
        function.call(&arguments, evaluation)
    })
}

/// Returns the function of that name, made for the types of the arguments.
///
/// # Errors
/// The call has a wrong number of arguments, the type of an argument is unknown or wrong for the
/// function, or the type has no default mask.
pub fn overload(call: &GenericCall<'_, '_>) -> Result<Option<ResolvedFunction>> {
    Ok(Some(match call.name {
        "mask_null" => {
            let kept = kept_type(call, 1, "any")?;
            ResolvedFunction::nullable(call.name, vec![kept.clone()], kept, |_, _| Ok(None))
        }
        "mask_default" => {
            let kept = kept_type(call, 1, "any")?;
            let mask = (default_mask_bytes(&kept) <= MAX_DEFAULT_MASK_BYTES)
                .then(|| default_mask(&kept))
                .flatten()
                .ok_or_else(|| call.invalid(format!("{} has no default mask", kept.cql_name())))?;
            ResolvedFunction::nullable(call.name, vec![kept.clone()], kept, move |_, _| {
                Ok(Some(mask.clone()))
            })
        }
        "mask_replace" => {
            let kept = kept_type(call, 2, "any, any")?;
            let types = vec![kept.clone(), kept.clone()];
            ResolvedFunction::nullable(call.name, types, kept, |values, _| {
                Ok(values.get(1).cloned().flatten())
            })
        }
        "mask_hash" => hash(call)?,
        "mask_inner" => partial(call, true)?,
        "mask_outer" => partial(call, false)?,
        _ => return Ok(None),
    }))
}

/// A type has no default mask if the upper bound of the mask's length in bytes is above this,
/// because each plan keeps its mask. Arbitrary.
const MAX_DEFAULT_MASK_BYTES: usize = 1 << 20;

/// Returns the type of the first of `count` arguments, which is also the type of the result.
fn kept_type(call: &GenericCall<'_, '_>, count: usize, usage: &str) -> Result<CqlType> {
    call.expect_arguments(count..=count, usage)?;
    let known = call.known_type(0).or_else(|| call.receiver.map(CqlType::freeze));
    known.map_or_else(|| call.type_of(0, usage), Ok)
}

/// Returns an upper bound of the length of a default mask.
fn default_mask_bytes(column_type: &CqlType) -> usize {
    use CqlType as T;
    // The length of a part takes at most 9 bytes.
    let of_part = |part: &T| default_mask_bytes(part).saturating_add(9);
    match column_type {
        T::Tuple(types) => types.iter().map(of_part).fold(0, usize::saturating_add),
        T::UserDefined { definition, .. } => {
            definition.field_types().map(of_part).fold(0, usize::saturating_add)
        }
        T::Vector { element, dimension } => of_part(element).saturating_mul(*dimension),
        _ => 16,
    }
}

/// Returns the default mask of a type: `****`, 0, false, an empty collection, the epoch.
fn default_mask(column_type: &CqlType) -> Option<Bytes> {
    use CqlType as T;
    Some(match column_type {
        T::Ascii | T::Text => Bytes::from_static(b"****"),
        T::Blob | T::Empty => Bytes::new(),
        T::Boolean | T::Tinyint | T::Varint => Bytes::from_static(&[0]),
        T::Smallint => Bytes::from_static(&[0; 2]),
        T::Duration => Bytes::from_static(&[0; 3]),
        T::Int | T::Float | T::Inet => Bytes::from_static(&[0; 4]),
        T::Date => Bytes::from_static(&[0x80, 0, 0, 0]),
        T::Decimal => Bytes::from_static(&[0; 5]),
        T::Bigint | T::Counter | T::Double | T::Time | T::Timestamp => Bytes::from_static(&[0; 8]),
        T::Uuid => Bytes::from_static(&[0; 16]),
        T::Timeuuid => Bytes::copy_from_slice(&timeuuid::min_for_millis(0)),
        T::List { .. } | T::Set { .. } | T::Map { .. } => Bytes::from_static(&[0; 4]),
        T::Tuple(types) => collection::tuple_of(types.iter().map(default_mask).collect::<Vec<_>>()),
        T::UserDefined { definition, .. } => {
            collection::tuple_of(definition.field_types().map(default_mask).collect::<Vec<_>>())
        }
        T::Vector { element, dimension } => {
            let mask = default_mask(element)?;
            collection::vector_of(element, std::iter::repeat_n(mask, *dimension))
        }
        T::Composite(_) | T::Custom(_) => return None,
    })
}

fn hash(call: &GenericCall<'_, '_>) -> Result<ResolvedFunction> {
    const USAGE: &str = "any, [text]";
    call.expect_arguments(1..=2, USAGE)?;
    let mut types = vec![call.type_of(0, USAGE)?];
    if call.arguments.len() == 2 {
        call.expect_type(1, &CqlType::Text)?;
        types.push(CqlType::Text);
    }
    Ok(ResolvedFunction::nullable(call.name, types, CqlType::Blob, |values, _| {
        let Some(Some(value)) = values.first() else { return Ok(None) };
        let algorithm = match values.get(1) {
            Some(Some(name)) => String::from_utf8_lossy(name).into_owned(),
            _ => "SHA-256".to_string(),
        };
        digest(&algorithm, value)
            .map(Some)
            .ok_or_else(|| Error::invalid(format!("Hash algorithm not found: {algorithm}")))
    }))
}

fn digest(algorithm: &str, value: &[u8]) -> Option<Bytes> {
    fn of<D: Digest>(value: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&D::digest(value))
    }
    Some(match algorithm.to_ascii_uppercase().as_str() {
        "MD5" => of::<Md5>(value),
        "SHA-224" => of::<Sha224>(value),
        "SHA-256" => of::<Sha256>(value),
        "SHA-384" => of::<Sha384>(value),
        "SHA-512" => of::<Sha512>(value),
        "SHA-512/224" => of::<Sha512_224>(value),
        "SHA-512/256" => of::<Sha512_256>(value),
        _ => return None,
    })
}

fn partial(call: &GenericCall<'_, '_>, inner: bool) -> Result<ResolvedFunction> {
    const USAGE: &str = "[text|varchar|ascii], int, int, [text]";
    call.expect_arguments(3..=4, USAGE)?;
    let kept = call.known_type(0).unwrap_or(CqlType::Text);
    if !matches!(kept, CqlType::Text | CqlType::Ascii) {
        let required = "an argument of type [text|varchar|ascii]";
        return Err(call.wrong_argument(0, required, &kept));
    }
    let mut types = vec![kept.clone(), CqlType::Int, CqlType::Int];
    if call.arguments.len() == 4 {
        types.push(CqlType::Text);
    }
    for (index, wanted) in types.iter().enumerate().skip(1) {
        call.expect_type(index, wanted)?;
    }
    let name = call.name.to_string();
    Ok(ResolvedFunction::nullable(call.name, types, kept, move |values, _| {
        let argument = |index: usize| values.get(index).and_then(Option::as_ref);
        let Some(value) = argument(0) else { return Ok(None) };
        let units: Vec<u16> = String::from_utf8_lossy(value).encode_utf16().collect();
        let number = |index| {
            let bytes = argument(index).and_then(|bytes| bytes.as_ref().try_into().ok());
            bytes.map_or(0, i32::from_be_bytes)
        };
        let padding = match argument(3) {
            None => u16::from(b'*'),
            Some(padding) => {
                let text = String::from_utf8_lossy(padding);
                let units: Vec<u16> = text.encode_utf16().collect();
                match units.as_slice() {
                    [only] => *only,
                    _ => {
                        return Err(Error::invalid(format!(
                            "The padding argument for function system.{name} should be single-character, but '{text}' has {} characters.",
                            units.len()
                        )));
                    }
                }
            }
        };
        let (begin, end) = (number(1), number(2));
        let size = i32::try_from(units.len()).unwrap_or(i32::MAX);
        let last = size.wrapping_sub(1).wrapping_sub(end);
        let masked = (0..size).zip(units).map(|(position, unit)| {
            let is_inside = position >= begin && position <= last;
            if is_inside == inner { padding } else { unit }
        });
        let text: String = char::decode_utf16(masked).map(|unit| unit.unwrap_or('?')).collect();
        Ok(Some(text.into()))
    }))
}
