//! Parses the properties of a statement: `WITH name = value AND ...`.

use std::borrow::Cow;

use super::{Failure, Parser, Result};
use crate::grammar::ast::{Expression, ExpressionKind, Literal, Position, Property, PropertyValue};
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses `name = value AND ...`. Refuses a name that is given twice.
    pub(super) fn properties(&mut self) -> Result<Vec<Property<'a>>> {
        let properties = self.conjunction(Self::property)?;
        self.check_properties(&properties)?;
        Ok(properties)
    }

    /// Parses `name = value`.
    pub(super) fn property(&mut self) -> Result<Property<'a>> {
        let name = self.name("name of a property")?;
        self.expect(TokenKind::Equal, "'='")?;
        let value = self.property_value()?;
        Ok(Property { name, value })
    }

    /// Fails if two properties have the same name.
    pub(super) fn check_properties(&self, properties: &[Property<'a>]) -> Result<()> {
        let names =
            properties.iter().map(|property| (property.name.as_str(), property.name.position));
        self.check_unique(names.collect())
    }

    fn check_unique(&self, mut names: Vec<(&str, Position)>) -> Result<()> {
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => {
                let message = format!("multiple definitions for property '{}'", pair[1].0);
                Err(Failure::message(self.token_at(pair[1].1), message))
            }
            None => Ok(()),
        }
    }

    fn property_value(&mut self) -> Result<PropertyValue<'a>> {
        if self.is(TokenKind::LeftBrace) {
            return Ok(PropertyValue::Map(self.property_map()?));
        }
        if let Some(literal) = self.literal() {
            return Ok(PropertyValue::Text(literal.into_text()));
        }
        match self.kind(0) {
            TokenKind::Keyword(keyword) if keyword.is_name() => {
                Ok(PropertyValue::Text(self.take_name().text))
            }
            _ => Err(self.expected("literal or map")),
        }
    }

    /// Parses `{literal: literal, ...}`. Refuses a key that is given twice.
    pub(super) fn property_map(&mut self) -> Result<Vec<(Cow<'a, str>, Cow<'a, str>)>> {
        let start = self.at;
        let entries = match self.nested(|parser| parser.set_or_map(Self::term))? {
            ExpressionKind::Map(entries) => entries,
            ExpressionKind::Set(items) if items.is_empty() => Vec::new(),
            _ => return Err(Failure::message(start, "a property is no set, but a map".into())),
        };
        let mut texts = Vec::with_capacity(entries.len());
        let mut keys = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            keys.push(key.position);
            texts.push((self.literal_text(key)?, self.literal_text(value)?));
        }
        self.check_unique(texts.iter().map(|(key, _)| key.as_ref()).zip(keys).collect())?;
        Ok(texts)
    }

    fn literal_text(&self, expression: Expression<'a>) -> Result<Cow<'a, str>> {
        let message = match expression.kind {
            ExpressionKind::Literal(literal) => return Ok(literal.into_text()),
            ExpressionKind::BindMarker(_) => "bind variables are not supported in properties",
            _ => "properties are literals",
        };
        Err(Failure::message(self.token_at(expression.position), message.into()))
    }
}

impl<'a> Literal<'a> {
    /// Returns the literal as text: the content of a string, any other literal as written.
    pub fn into_text(self) -> Cow<'a, str> {
        match self {
            Self::String(text) => text,
            Self::Boolean(value) => Cow::Borrowed(if value { "true" } else { "false" }),
            Self::Integer(text) | Self::Float(text) | Self::Uuid(text) => Cow::Borrowed(text),
            Self::Blob(text) | Self::Duration(text) => Cow::Borrowed(text),
        }
    }
}
