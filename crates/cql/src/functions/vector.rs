//! `similarity_cosine`, `similarity_euclidean` and `similarity_dot_product` of two float vectors
//! with equal dimensions, as `types::similarity` computes them.

use std::sync::Arc;

use bytes::Bytes;
use espalier_types::{
    CqlType,
    similarity::{Similarity, floats},
};

use super::{ResolvedFunction, argument::Argument, generic::GenericCall};
use crate::{Error, Result, grammar::ast::ExpressionKind};

const USAGE: &str = "vector<float, n>, vector<float, n>";

/// Returns the function of that name, made for the types of the arguments.
///
/// # Errors
/// The call does not have exactly two arguments, an argument is no vector of floats, or the
/// dimensions differ or are unknown.
pub fn overload(call: &GenericCall<'_, '_>) -> Result<Option<ResolvedFunction>> {
    let measure = match call.name {
        "similarity_cosine" => Similarity::Cosine,
        "similarity_euclidean" => Similarity::Euclidean,
        "similarity_dot_product" => Similarity::DotProduct,
        _ => return Ok(None),
    };
    call.expect_arguments(2..=2, USAGE)?;
    let mut dimensions = [None; 2];
    for (index, dimension) in dimensions.iter_mut().enumerate() {
        *dimension = match &call.arguments[index] {
            Argument::Untyped(expression) => match &expression.kind {
                // A list of numbers counts as a vector.
                ExpressionKind::List(items) => Some(items.len()),
                ExpressionKind::Null | ExpressionKind::BindMarker(_) => None,
                _ => Some(float_vector(call, index)?),
            },
            _ => Some(float_vector(call, index)?),
        };
    }
    let dimension = match dimensions {
        [Some(left), Some(right)] if left != right => {
            return Err(call.invalid("All arguments must have the same vector dimensions"));
        }
        [Some(known), _] | [None, Some(known)] => known,
        [None, None] => {
            return Err(call
                .type_of(0, USAGE)
                .err()
                .unwrap_or_else(|| call.invalid("Cannot infer the dimension of the vectors")));
        }
    };
    let vector = CqlType::Vector { element: Arc::new(CqlType::Float), dimension };
    let types = vec![vector.clone(), vector];
    let name = call.name.to_string();
    Ok(Some(ResolvedFunction::of_values(call.name, types, CqlType::Float, move |values, _| {
        let [left, right] = values else { return Ok(None) };
        let [left, right] = [left, right].map(|vector| floats(vector).collect::<Vec<f32>>());
        let similarity = measure.of_in_order(&left, &right).ok_or_else(|| {
            Error::invalid(format!("Function system.{name} doesn't support all-zero vectors."))
        })?;
        Ok(Some(Bytes::copy_from_slice(&similarity.to_be_bytes())))
    })))
}

fn float_vector(call: &GenericCall<'_, '_>, index: usize) -> Result<usize> {
    let known = call.type_of(index, USAGE)?;
    match &known {
        CqlType::Vector { element, dimension } if **element == CqlType::Float => Ok(*dimension),
        _ => Err(call.wrong_argument(index, "a float vector argument", &known)),
    }
}
