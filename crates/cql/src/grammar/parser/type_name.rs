//! Parses types.

use super::{Failure, Parser, Result};
use crate::grammar::ast::{TypeName, TypeNameKind};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Returns whether a type may begin `ahead` tokens after the current one.
    pub(super) fn may_be_type(&self, ahead: usize) -> bool {
        self.is_name(ahead)
            || self.is_keyword_ahead(ahead, Keyword::SET)
            || matches!(self.kind(ahead), TokenKind::String | TokenKind::DollarString)
    }

    /// Parses any type.
    pub(super) fn type_name(&mut self) -> Result<TypeName<'a>> {
        let position = self.position();
        Ok(TypeName { kind: self.type_name_kind()?, position })
    }

    /// Parses a native type, the only kind that a value can be cast to.
    pub(super) fn native_type(&mut self) -> Result<TypeName<'a>> {
        let position = self.position();
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return Err(self.expected("native type"));
        };
        let native = keyword.native_type().ok_or_else(|| self.expected("native type"))?;
        self.advance();
        Ok(TypeName { kind: TypeNameKind::Native(native), position })
    }

    fn type_name_kind(&mut self) -> Result<TypeNameKind<'a>> {
        if let Some(class) = self.string() {
            return Ok(TypeNameKind::Custom(class));
        }
        if let TokenKind::Keyword(keyword) = self.kind(0) {
            if self.kind(1) == TokenKind::Less && is_generic(keyword) {
                self.advance();
                self.advance();
                let kind = self.nested(|parser| parser.arguments(keyword))?;
                self.expect(TokenKind::Greater, "'>'")?;
                return Ok(kind);
            }
            if let Some(native) = keyword.native_type()
                && self.kind(1) != TokenKind::Dot
            {
                self.advance();
                return Ok(TypeNameKind::Native(native));
            }
        }
        Ok(TypeNameKind::UserDefined(self.user_type_name()?))
    }

    fn arguments(&mut self, keyword: Keyword) -> Result<TypeNameKind<'a>> {
        if keyword == Keyword::TUPLE {
            return Ok(TypeNameKind::Tuple(self.list(Self::type_name)?));
        }
        let start = self.at;
        let first = Box::new(self.type_name()?);
        Ok(match keyword {
            Keyword::LIST => TypeNameKind::List(first),
            Keyword::SET => TypeNameKind::Set(first),
            Keyword::MAP => {
                self.expect(TokenKind::Comma, "','")?;
                TypeNameKind::Map(first, Box::new(self.type_name()?))
            }
            Keyword::VECTOR => {
                self.expect(TokenKind::Comma, "','")?;
                TypeNameKind::Vector(first, self.dimension()?)
            }
            _ if matches!(first.kind, TypeNameKind::Native(_) | TypeNameKind::Custom(_)) => {
                let message =
                    "frozen<> is only allowed on collections, tuples, and user-defined types";
                return Err(Failure::message(start, message.into()));
            }
            _ => TypeNameKind::Frozen(first),
        })
    }

    /// Parses a dimension. A negative one is no syntax error, as in Cassandra.
    fn dimension(&mut self) -> Result<i64> {
        let is_negative = self.accept(TokenKind::Minus);
        let token = self.expect(TokenKind::Integer, "dimension of the vector")?;
        let dimension = self.text_of(token).parse::<u32>().map(i64::from).map_err(|_| {
            let message = format!("dimension of the vector is more than {}", u32::MAX);
            Failure::message(self.at - 1, message)
        })?;
        Ok(if is_negative { -dimension } else { dimension })
    }
}

fn is_generic(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::LIST
            | Keyword::SET
            | Keyword::MAP
            | Keyword::TUPLE
            | Keyword::VECTOR
            | Keyword::FROZEN
    )
}
