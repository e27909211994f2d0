//! Collects the possible result types of nested calls, before the wanted type is known.
//!
//! `1 + abs(-5)` fits a `bigint` column as well as an `int` column, so overloads are chosen from
//! the outside in. A first pass from the inside out collects the possible results. The preparation
//! keeps them until the outermost call is prepared, so that the choice takes time linear in the
//! expression.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use espalier_types::CqlType;
use hashbrown::HashMap;

use super::{
    argument::{Argument, PossibleResults, Text},
    arithmetic,
    choose::{Callee, Signature, natural_choice},
    resolve::overloads,
};
use crate::{
    Result,
    grammar::ast::{Arithmetic, Expression, ExpressionKind},
    term::{Assignable, Preparation},
};

/// The possible results of the calls in the outermost call that is being prepared.
#[derive(Debug, Default)]
pub struct KnownResults {
    /// The results by the address of the call's expression. A chain of operators has the results of
    /// each prefix. While the outermost call is borrowed, no other expression has the address.
    by_call: RefCell<HashMap<usize, Arc<[Arc<PossibleResults>]>>>,
    /// The number of calls that are being prepared, each inside the one before.
    depth: Cell<usize>,
}

impl KnownResults {
    /// Begins the preparation of a call. [`Self::leave`] must follow.
    pub fn enter(&self) {
        self.depth.set(self.depth.get() + 1);
    }

    /// Ends the preparation of a call, and forgets the results if the call was the outermost.
    pub fn leave(&self) {
        self.depth.set(self.depth.get() - 1);
        if self.depth.get() == 0 {
            self.by_call.borrow_mut().clear();
        }
    }

    /// Returns the results of a call, which `compute` computes if they are not known.
    fn of(
        &self,
        call: &Expression<'_>,
        compute: impl FnOnce() -> Result<Vec<Arc<PossibleResults>>>,
    ) -> Result<Arc<[Arc<PossibleResults>]>> {
        let address = std::ptr::from_ref(call).addr();
        if let Some(known) = self.by_call.borrow().get(&address) {
            return Ok(known.clone());
        }
        let results: Arc<[_]> = compute()?.into();
        if self.depth.get() > 0 {
            self.by_call.borrow_mut().insert(address, results.clone());
        }
        Ok(results)
    }
}

/// Returns an operand as an argument, before its function is chosen.
///
/// # Errors
/// A function or type in the operand does not exist, or a generic function refuses its arguments.
pub fn argument_of<'e>(
    preparation: &Preparation<'_>,
    operand: &'e Expression<'e>,
) -> Result<Argument<'e>> {
    let results = match &operand.kind {
        ExpressionKind::Tuple(parts) if parts.len() == 1 => {
            return argument_of(preparation, &parts[0]);
        }
        ExpressionKind::TypeHint(type_name, _) | ExpressionKind::Cast(_, type_name) => {
            let known = preparation.resolve_type(type_name)?;
            return Ok(Argument::Typed(known, Text::Term(operand)));
        }
        ExpressionKind::Function(call) => preparation.known_results.of(operand, || {
            let arguments = arguments_of(preparation, call.arguments.iter())?;
            let candidates = overloads(preparation, &call.name, &arguments, None)?;
            let signatures: Vec<Signature> = candidates
                .into_iter()
                .map(|function| (function.argument_types, function.return_type))
                .collect();
            Ok(vec![possible(Callee::Function(&call.name), &signatures, &arguments)])
        })?,
        ExpressionKind::Negate(inner) => preparation.known_results.of(operand, || {
            let arguments = [argument_of(preparation, inner)?];
            Ok(vec![possible(Callee::Negation, arithmetic::negation_signatures(), &arguments)])
        })?,
        ExpressionKind::Arithmetic(chain) => {
            let results = results_of_prefixes(preparation, operand, chain)?;
            return match results.split_last() {
                Some((last, before)) => Ok(prefix(chain, before.len(), last.clone())),
                None => argument_of(preparation, &chain.first),
            };
        }
        _ => return Ok(Argument::Untyped(operand)),
    };
    Ok(match results.first() {
        Some(results) => Argument::Call { text: Text::Term(operand), results: results.clone() },
        None => Argument::Untyped(operand),
    })
}

/// Returns each operand as an argument, before the functions are chosen.
///
/// # Errors
/// As [`argument_of`].
pub fn arguments_of<'e>(
    preparation: &Preparation<'_>,
    operands: impl Iterator<Item = &'e Expression<'e>>,
) -> Result<Vec<Argument<'e>>> {
    operands.map(|operand| argument_of(preparation, operand)).collect()
}

/// Returns the arguments for the prefixes of a chain: `a`, `a + b`, `a + b - c` and so on. `whole`
/// is the expression of the chain.
///
/// # Errors
/// As [`argument_of`], for any operand of the chain.
pub fn prefixes_of<'e>(
    preparation: &Preparation<'_>,
    whole: &Expression<'_>,
    chain: &'e Arithmetic<'e>,
) -> Result<Vec<Argument<'e>>> {
    let results = results_of_prefixes(preparation, whole, chain)?;
    let first = argument_of(preparation, &chain.first)?;
    let calls = results.iter().enumerate();
    let calls = calls.map(|(index, results)| prefix(chain, index, results.clone()));
    Ok(std::iter::once(first).chain(calls).collect())
}

/// Returns the possible results of `a + b`, `a + b - c` and so on. If they are known, the operands
/// are not visited, so that chains inside of first operands take linear time.
fn results_of_prefixes<'e>(
    preparation: &Preparation<'_>,
    whole: &Expression<'_>,
    chain: &'e Arithmetic<'e>,
) -> Result<Arc<[Arc<PossibleResults>]>> {
    preparation.known_results.of(whole, || {
        let mut left = argument_of(preparation, &chain.first)?;
        let mut results = Vec::with_capacity(chain.rest.len());
        for (index, (operator, right)) in chain.rest.iter().enumerate() {
            let arguments = [left, argument_of(preparation, right)?];
            let callee = Callee::Operator(operator.symbol());
            let found = possible(callee, arithmetic::signatures(*operator), &arguments);
            left = prefix(chain, index, found.clone());
            results.push(found);
        }
        Ok(results)
    })
}

/// Returns the argument for the prefix of a chain that ends with the operator at `index`.
fn prefix<'e>(
    chain: &'e Arithmetic<'e>,
    index: usize,
    results: Arc<PossibleResults>,
) -> Argument<'e> {
    Argument::Call { text: Text::Prefix(&chain.first, &chain.rest[..=index]), results }
}

fn possible(
    callee: Callee<'_>,
    signatures: &[Signature],
    arguments: &[Argument<'_>],
) -> Arc<PossibleResults> {
    let natural = natural_choice(callee, signatures, arguments)
        .and_then(|index| signatures.get(index))
        .map(|(_, result)| result.clone());
    let mut possible: Vec<CqlType> = Vec::new();
    for (types, result) in signatures {
        let fits = types.len() == arguments.len()
            && arguments
                .iter()
                .zip(types)
                .all(|(argument, wanted)| argument.fits(wanted) != Assignable::No);
        if fits && !possible.contains(result) {
            possible.push(result.clone());
        }
    }
    Arc::new(PossibleResults { natural, possible })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use espalier_mutation::schema::Schema;
    use espalier_runtime::random;

    use super::*;
    use crate::grammar::ast::{ArithmeticOperator, BindMarkers, Literal, Position};

    fn expression(kind: ExpressionKind<'_>) -> Expression<'_> {
        Expression { kind, position: Position::default() }
    }

    fn one() -> Expression<'static> {
        expression(ExpressionKind::Literal(Literal::Integer("1")))
    }

    fn plus_one(first: Expression<'_>) -> Expression<'_> {
        let rest = vec![(ArithmeticOperator::Add, one())];
        expression(ExpressionKind::Arithmetic(Arithmetic { first: Box::new(first), rest }))
    }

    #[test]
    fn known_results_of_a_chain_spare_the_chains_inside() {
        let schema = Schema::new(BTreeMap::new(), random::uuid_v4());
        let markers = BindMarkers::default();
        let preparation = Preparation::new("", &schema, "".into(), "".into(), &markers);
        let whole = plus_one(plus_one(plus_one(one())));
        let known = &preparation.known_results;
        known.enter();
        argument_of(&preparation, &whole).unwrap();
        assert_eq!(known.by_call.borrow().len(), 3);
        let address = std::ptr::from_ref(&whole).addr();
        known.by_call.borrow_mut().retain(|call, _| *call == address);
        argument_of(&preparation, &whole).unwrap();
        assert_eq!(known.by_call.borrow().len(), 1, "an inner chain was visited again");
        known.leave();
    }
}
