//! The entries of statements in the audit log: type, category, keyspaces and object. The names of
//! types and categories are Cassandra's.

use crate::grammar::{
    self,
    ast::{
        AnnotateTarget, DescribeTarget, Feature, Modification, Name, ObjectKind, QualifiedName,
        RoleStatement, Statement, Transaction, TransactionAnswer,
    },
};

/// The categories of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AuditCategory {
    Query,
    Dml,
    Ddl,
    Dcl,
    Other,
    Auth,
    Error,
    Prepare,
}

impl AuditCategory {
    /// All categories.
    pub const ALL: [Self; 8] = [
        Self::Query,
        Self::Dml,
        Self::Ddl,
        Self::Dcl,
        Self::Other,
        Self::Auth,
        Self::Error,
        Self::Prepare,
    ];

    /// Returns the name in settings and entries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "QUERY",
            Self::Dml => "DML",
            Self::Ddl => "DDL",
            Self::Dcl => "DCL",
            Self::Other => "OTHER",
            Self::Auth => "AUTH",
            Self::Error => "ERROR",
            Self::Prepare => "PREPARE",
        }
    }
}

/// The parts of a statement that an entry of the audit log shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedStatement {
    /// The type of the entry.
    pub kind: &'static str,
    /// The category of the type.
    pub category: AuditCategory,
    /// The keyspaces of the statement's objects, by which the options of the audit log select
    /// entries. An object whose name has no keyspace is in the session's keyspace. Empty if no
    /// object is in a keyspace, even if the session has one.
    pub keyspaces: Vec<String>,
    /// The name of the table, view, type, index, function, aggregate, trigger or role.
    pub scope: Option<String>,
}

impl AuditedStatement {
    /// Returns the keyspace if there is exactly one.
    pub fn keyspace(&self) -> Option<&str> {
        only(&self.keyspaces)
    }
}

/// Returns the name if there is exactly one.
pub fn only(keyspaces: &[String]) -> Option<&str> {
    match keyspaces {
        [one] => Some(one),
        _ => None,
    }
}

/// Describes a statement; `None` if the text is not CQL. `session` is the keyspace in use.
pub fn describe(text: &str, session: Option<&str>) -> Option<AuditedStatement> {
    use AuditCategory::{Ddl, Dml, Other, Query};
    let parsed = grammar::parse(text).ok()?;
    let (kind, category, subject) = match &parsed.statement {
        Statement::Select(select) => ("SELECT", Query, Subject::of(&select.table)),
        Statement::Modification(statement) => {
            let is_delete = matches!(statement, Modification::Delete(_));
            let kind = if is_delete { "DELETE" } else { "UPDATE" };
            (kind, Dml, Subject::of(statement.table()))
        }
        Statement::Batch(batch) => {
            return Some(batch_of(batch.statements.iter().map(Modification::table), session));
        }
        Statement::Transaction(transaction) => {
            return Some(batch_of(tables_of(transaction), session));
        }
        Statement::Use(statement) => {
            ("USE_KEYSPACE", Other, Subject::keyspace(&statement.keyspace))
        }
        Statement::Describe(statement) => ("DESCRIBE", Other, described(&statement.target)),
        Statement::CreateKeyspace(statement) => {
            ("CREATE_KEYSPACE", Ddl, Subject::keyspace(&statement.name))
        }
        Statement::AlterKeyspace(statement) => {
            ("ALTER_KEYSPACE", Ddl, Subject::keyspace(&statement.name))
        }
        Statement::DropKeyspace(statement) => {
            ("DROP_KEYSPACE", Ddl, Subject::keyspace(&statement.name))
        }
        Statement::CreateTable(statement) => ("CREATE_TABLE", Ddl, Subject::of(&statement.name)),
        Statement::CreateTableLike(statement) => {
            ("CREATE_TABLE_LIKE", Ddl, Subject::of(&statement.name))
        }
        Statement::AlterTable(statement) => ("ALTER_TABLE", Ddl, Subject::of(&statement.name)),
        Statement::DropTable(statement) => ("DROP_TABLE", Ddl, Subject::of(&statement.name)),
        Statement::Truncate(statement) => ("TRUNCATE", Ddl, Subject::of(&statement.table)),
        Statement::CreateType(statement) => ("CREATE_TYPE", Ddl, Subject::of(&statement.name)),
        Statement::AlterType(statement) => ("ALTER_TYPE", Ddl, Subject::of(&statement.name)),
        Statement::DropType(statement) => ("DROP_TYPE", Ddl, Subject::of(&statement.name)),
        Statement::CreateIndex(statement) => ("CREATE_INDEX", Ddl, Subject::of(&statement.table)),
        Statement::DropObject(statement) => {
            (drop_of(&statement.kind), Ddl, Subject::of(&statement.name))
        }
        Statement::CreateView(statement) => ("CREATE_VIEW", Ddl, Subject::of(&statement.name)),
        Statement::AlterView(statement) => ("ALTER_VIEW", Ddl, Subject::of(&statement.name)),
        Statement::Role(statement) => role(statement),
        Statement::Annotate(statement) => {
            let kind = if statement.is_label { "SECURITY_LABEL" } else { "COMMENT" };
            (kind, Ddl, annotated(&statement.target))
        }
        Statement::Unsupported(statement) => (
            match statement.feature {
                Feature::PrunedViews => "PRUNE_VIEW",
                Feature::UserDefinedFunctions => "CREATE_FUNCTION",
                Feature::UserDefinedAggregates => "CREATE_AGGREGATE",
                Feature::Triggers => "CREATE_TRIGGER",
                Feature::ServiceLevels => "SERVICE_LEVEL",
            },
            Ddl,
            statement.name.as_ref().map_or(Subject::None, Subject::of),
        ),
    };
    let (keyspace, scope) = subject.names(session);
    let keyspaces = keyspace.map(str::to_owned).into_iter().collect();
    Some(AuditedStatement { kind, category, keyspaces, scope: scope.map(str::to_owned) })
}

/// Describes a batch by the tables of its statements.
fn batch_of<'s>(
    tables: impl Iterator<Item = &'s QualifiedName<'s>>,
    session: Option<&str>,
) -> AuditedStatement {
    let keyspaces = tables.filter_map(|table| Subject::of(table).names(session).0);
    let mut keyspaces: Vec<_> = keyspaces.map(str::to_owned).collect();
    keyspaces.sort();
    keyspaces.dedup();
    AuditedStatement { kind: "BATCH", category: AuditCategory::Dml, keyspaces, scope: None }
}

fn tables_of<'s>(transaction: &'s Transaction<'s>) -> impl Iterator<Item = &'s QualifiedName<'s>> {
    let answer = match &transaction.answer {
        TransactionAnswer::Select(select) => Some(&select.table),
        TransactionAnswer::None | TransactionAnswer::References(_) => None,
    };
    let reads = transaction.assignments.iter().map(|assignment| &assignment.select.table);
    reads.chain(answer).chain(transaction.updates.iter().map(Modification::table))
}

fn drop_of(kind: &ObjectKind<'_>) -> &'static str {
    match kind {
        ObjectKind::Index => "DROP_INDEX",
        ObjectKind::MaterializedView => "DROP_VIEW",
        ObjectKind::Function { .. } => "DROP_FUNCTION",
        ObjectKind::Aggregate { .. } => "DROP_AGGREGATE",
        ObjectKind::Trigger { .. } => "DROP_TRIGGER",
    }
}

/// The object of a statement.
#[derive(Clone, Copy)]
enum Subject<'s> {
    None,
    Keyspace(&'s str),
    Object(Option<&'s str>, &'s str),
    /// A role, or a name that may be the name of a keyspace.
    Name(&'s str),
}

impl<'s> Subject<'s> {
    fn of(name: &'s QualifiedName<'_>) -> Self {
        Self::Object(name.keyspace.as_ref().map(Name::as_str), name.name.as_str())
    }

    fn keyspace(name: &'s Name<'_>) -> Self {
        Self::Keyspace(name.as_str())
    }

    /// Returns keyspace and name. `session` is the keyspace of objects whose names have none.
    fn names<'n>(self, session: Option<&'n str>) -> (Option<&'n str>, Option<&'n str>)
    where
        's: 'n,
    {
        match self {
            Self::None => (None, None),
            Self::Keyspace(keyspace) => (Some(keyspace), None),
            Self::Object(keyspace, name) => (keyspace.or(session), Some(name)),
            Self::Name(name) => (None, Some(name)),
        }
    }
}

fn role<'s>(statement: &'s RoleStatement<'_>) -> (&'static str, AuditCategory, Subject<'s>) {
    use RoleStatement as R;
    let of = |name: &'s Name<'_>| Subject::Name(name.as_str());
    let (kind, subject) = match statement {
        R::Create(define) => ("CREATE_ROLE", of(&define.role)),
        R::Alter(define) => ("ALTER_ROLE", of(&define.role)),
        R::Drop { role, .. } => ("DROP_ROLE", of(role)),
        R::AddIdentity { role, .. } => ("CREATE_IDENTITY", of(role)),
        R::DropIdentity { .. } => ("DROP_IDENTITY", Subject::None),
        R::GrantRole { to, .. } => ("GRANT", of(to)),
        R::RevokeRole { from, .. } => ("REVOKE", of(from)),
        R::GrantPermissions(grant) => ("GRANT", of(&grant.role)),
        R::RevokePermissions(grant) => ("REVOKE", of(&grant.role)),
        R::ListUsers => ("LIST_USERS", Subject::None),
        R::ListRoles { of: role, .. } => ("LIST_ROLES", role.as_ref().map_or(Subject::None, of)),
        R::ListPermissions(list) => {
            ("LIST_PERMISSIONS", list.of.as_ref().map_or(Subject::None, of))
        }
    };
    (kind, AuditCategory::Dcl, subject)
}

fn described<'s>(target: &'s DescribeTarget<'_>) -> Subject<'s> {
    match target {
        DescribeTarget::Keyspace { name: Some(name), .. } => Subject::keyspace(name),
        DescribeTarget::Table(name)
        | DescribeTarget::Index(name)
        | DescribeTarget::MaterializedView(name)
        | DescribeTarget::Type(name)
        | DescribeTarget::Function(name)
        | DescribeTarget::Aggregate(name) => Subject::of(name),
        DescribeTarget::Any(name) if name.keyspace.is_none() => Subject::Name(name.name.as_str()),
        DescribeTarget::Any(name) => Subject::of(name),
        _ => Subject::None,
    }
}

fn annotated<'s>(target: &'s AnnotateTarget<'_>) -> Subject<'s> {
    match target {
        AnnotateTarget::Keyspace(name) => Subject::keyspace(name),
        AnnotateTarget::Table(name)
        | AnnotateTarget::Column(name, _)
        | AnnotateTarget::Type(name)
        | AnnotateTarget::Field(name, _) => Subject::of(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_types_of_cassandra() {
        for (text, kind, category, keyspace, scope) in [
            ("SELECT * FROM k.t", "SELECT", "QUERY", Some("k"), Some("t")),
            ("INSERT INTO t (k) VALUES (1)", "UPDATE", "DML", Some("s"), Some("t")),
            ("DELETE FROM t WHERE k = 1", "DELETE", "DML", Some("s"), Some("t")),
            ("BEGIN BATCH APPLY BATCH", "BATCH", "DML", None, None),
            ("DESCRIBE CLUSTER", "DESCRIBE", "OTHER", None, None),
            ("DESCRIBE k", "DESCRIBE", "OTHER", None, Some("k")),
            ("USE k", "USE_KEYSPACE", "OTHER", Some("k"), None),
            ("DROP KEYSPACE k", "DROP_KEYSPACE", "DDL", Some("k"), None),
            ("TRUNCATE k.t", "TRUNCATE", "DDL", Some("k"), Some("t")),
            ("DROP INDEX k.i", "DROP_INDEX", "DDL", Some("k"), Some("i")),
            ("ALTER USER u WITH PASSWORD 'x'", "ALTER_ROLE", "DCL", None, Some("u")),
            ("GRANT SELECT ON k.t TO r", "GRANT", "DCL", None, Some("r")),
            ("ADD IDENTITY 'i' TO ROLE 'r'", "CREATE_IDENTITY", "DCL", None, Some("r")),
        ] {
            let found = describe(text, Some("s")).unwrap();
            assert_eq!((found.kind, found.category.name()), (kind, category), "{text}");
            assert_eq!(found.keyspace(), keyspace, "{text}");
            assert_eq!(found.scope.as_deref(), scope, "{text}");
        }
        assert_eq!(describe("SELECT", None), None);
    }

    #[test]
    fn a_batch_is_of_the_keyspaces_of_its_tables() {
        for (text, keyspaces) in [
            ("BEGIN BATCH DELETE FROM k.t WHERE k = 1; APPLY BATCH", vec!["k"]),
            (
                "BEGIN BATCH INSERT INTO t (k) VALUES (1); UPDATE k.t SET v = 1 WHERE k = 1; \
                 DELETE FROM k.t WHERE k = 1; APPLY BATCH",
                vec!["k", "system"],
            ),
            (
                "BEGIN TRANSACTION LET r = (SELECT v FROM a.t WHERE k = 1); \
                 SELECT v FROM b.t WHERE k = 1; UPDATE c.t SET v = 1 WHERE k = 1; \
                 COMMIT TRANSACTION",
                vec!["a", "b", "c"],
            ),
        ] {
            let found = describe(text, Some("system")).unwrap();
            assert_eq!(found.kind, "BATCH", "{text}");
            assert_eq!(found.keyspaces, keyspaces, "{text}");
        }
    }
}
