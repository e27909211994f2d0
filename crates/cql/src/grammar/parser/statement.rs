//! Chooses the parser of a statement by the first words of the statement.

use super::{Failure, Parser, Result};
use crate::grammar::ast::{
    Feature, Position, QualifiedName, RoleStatement, Statement, Unsupported,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

const OBJECT_KINDS: &str = "KEYSPACE, TABLE, TYPE, ...";

impl<'a> Parser<'a> {
    /// Parses any statement.
    pub(super) fn statement(&mut self) -> Result<Statement<'a>> {
        if let Some(modification) = self.modification()? {
            return Ok(Statement::Modification(modification));
        }
        if let Some(statement) = self.scylla_statement()? {
            return Ok(Statement::Unsupported(statement));
        }
        let position = self.position();
        if let Some(annotate) = self.annotate()? {
            return Ok(Statement::Annotate(annotate));
        }
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return Err(self.expected("statement"));
        };
        Ok(match keyword {
            Keyword::SELECT => Statement::Select(self.select()?),
            Keyword::BEGIN if self.is_word_ahead(1, "transaction") => {
                self.advance();
                self.advance();
                Statement::Transaction(Box::new(self.transaction(position)?))
            }
            Keyword::BEGIN => Statement::Batch(self.batch()?),
            Keyword::USE => Statement::Use(self.use_keyspace()?),
            Keyword::DESCRIBE | Keyword::DESC => Statement::Describe(self.describe()?),
            Keyword::TRUNCATE => Statement::Truncate(self.truncate()?),
            Keyword::CREATE => self.create(position)?,
            Keyword::ALTER => self.alter(position)?,
            Keyword::DROP => self.drop(position)?,
            Keyword::GRANT => role(self.grant()?),
            Keyword::REVOKE => role(self.revoke()?),
            Keyword::LIST => role(self.list_permissions()?),
            Keyword::ADD => role(self.add_identity()?),
            _ => return Err(self.expected("statement")),
        })
    }

    /// Consumes the first word of the statement and the keyword after it, and returns the keyword.
    fn object_kind(&mut self) -> Result<Keyword> {
        self.advance();
        let TokenKind::Keyword(keyword) = self.kind(0) else {
            return Err(self.expected(OBJECT_KINDS));
        };
        self.advance();
        Ok(keyword)
    }

    /// Creates the failure of a keyword that `object_kind` has consumed, and that names no kind of
    /// object in this statement.
    fn no_object_kind(&self) -> Failure {
        Failure::expected(self.at - 1, OBJECT_KINDS)
    }

    /// Parses a statement that begins with `CREATE`.
    fn create(&mut self, position: Position) -> Result<Statement<'a>> {
        Ok(match self.object_kind()? {
            Keyword::KEYSPACE => Statement::CreateKeyspace(self.create_keyspace(position)?),
            Keyword::TABLE | Keyword::COLUMNFAMILY => self.create_table_statement(position)?,
            Keyword::TYPE => Statement::CreateType(self.create_type(position)?),
            Keyword::CUSTOM => {
                self.keyword(Keyword::INDEX)?;
                Statement::CreateIndex(Box::new(self.create_index(true, position)?))
            }
            Keyword::INDEX => Statement::CreateIndex(Box::new(self.create_index(false, position)?)),
            Keyword::MATERIALIZED => Statement::CreateView(Box::new(self.create_view(position)?)),
            Keyword::TRIGGER => Statement::Unsupported(self.create_trigger(position)?),
            Keyword::ROLE => role(self.create_role()?),
            Keyword::USER => role(self.create_user()?),
            Keyword::FUNCTION => Statement::Unsupported(self.create_function(position)?),
            Keyword::AGGREGATE => Statement::Unsupported(self.create_aggregate(position)?),
            Keyword::OR => {
                self.keyword(Keyword::REPLACE)?;
                if self.accept_keyword(Keyword::FUNCTION) {
                    return Ok(Statement::Unsupported(self.create_function(position)?));
                }
                self.expect(TokenKind::Keyword(Keyword::AGGREGATE), "FUNCTION or AGGREGATE")?;
                Statement::Unsupported(self.create_aggregate(position)?)
            }
            _ => return Err(self.no_object_kind()),
        })
    }

    /// Parses a statement that begins with `ALTER`.
    fn alter(&mut self, position: Position) -> Result<Statement<'a>> {
        Ok(match self.object_kind()? {
            Keyword::KEYSPACE => Statement::AlterKeyspace(self.alter_keyspace(position)?),
            Keyword::TABLE | Keyword::COLUMNFAMILY => {
                Statement::AlterTable(self.alter_table(position)?)
            }
            Keyword::TYPE => Statement::AlterType(self.alter_type(position)?),
            Keyword::MATERIALIZED => Statement::AlterView(self.alter_view(position)?),
            Keyword::ROLE => role(self.alter_role()?),
            Keyword::USER => role(self.alter_user()?),
            _ => return Err(self.no_object_kind()),
        })
    }

    /// Parses a statement that begins with `DROP`.
    fn drop(&mut self, position: Position) -> Result<Statement<'a>> {
        Ok(match self.object_kind()? {
            Keyword::KEYSPACE => Statement::DropKeyspace(self.drop_keyspace(position)?),
            Keyword::TABLE | Keyword::COLUMNFAMILY => {
                Statement::DropTable(self.drop_table(position)?)
            }
            Keyword::TYPE => Statement::DropType(self.drop_type(position)?),
            Keyword::INDEX => Statement::DropObject(self.drop_index(position)?),
            Keyword::MATERIALIZED => Statement::DropObject(self.drop_view(position)?),
            Keyword::TRIGGER => Statement::DropObject(self.drop_trigger(position)?),
            keyword @ (Keyword::FUNCTION | Keyword::AGGREGATE) => {
                Statement::DropObject(self.drop_function(keyword, position)?)
            }
            Keyword::ROLE => role(self.drop_role()?),
            Keyword::USER => role(self.drop_user()?),
            Keyword::IDENTITY => role(self.drop_identity()?),
            _ => return Err(self.no_object_kind()),
        })
    }
}

fn role(statement: RoleStatement<'_>) -> Statement<'_> {
    Statement::Role(Box::new(statement))
}

/// Creates the result for a statement that is not supported. The parser is at the statement's end.
pub(super) fn unsupported<'a>(
    statement: &'static str,
    feature: Feature,
    name: Option<QualifiedName<'a>>,
    position: Position,
) -> Unsupported<'a> {
    Unsupported { feature, statement, name, position }
}
