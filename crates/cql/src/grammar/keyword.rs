//! The keywords of CQL, and the places where each may be a name.
//!
//! The list and the classes are those of Cassandra 5.0. Words of extensions (such as `BETWEEN`,
//! `BYPASS CACHE` and `TIMEOUT`) are no keywords, so that they remain free as names. The parser
//! recognises these words by their place.

use espalier_types::CqlType;

/// The kinds of objects that a keyword may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Nothing.
    Reserved,
    /// Only a function: `token`.
    ReservedFunction,
    /// Anything.
    Free,
    /// Anything but a user-defined type: the native types and `count`.
    NotType,
    /// Anything but a function: `key`.
    NotFunction,
    /// Anything but a type or a function: `ttl`, `json`, ...
    NotTypeNorFunction,
}

macro_rules! keywords {
    ($($class:ident: $($variant:ident)*;)*) => {
        /// A keyword, spelled as in statements.
        #[allow(clippy::upper_case_acronyms, non_camel_case_types)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Keyword { $($($variant,)*)* }

        const KEYWORDS: &[(&str, Keyword, Class)] = &[
            $($((stringify!($variant), Keyword::$variant, Class::$class),)*)*
        ];
    };
}

keywords! {
    Reserved: ADD ALLOW ALTER AND APPLY ASC AUTHORIZE BATCH BEGIN BY COLUMNFAMILY CREATE DELETE DESC DESCRIBE DROP
        ENTRIES EXECUTE FALSE FROM FULL GRANT IF IN INDEX INFINITY INSERT INTO IS KEYSPACE LIMIT MATERIALIZED MODIFY
        NAN NORECURSIVE NOT NULL OF ON OR ORDER PRIMARY RENAME REVOKE SCHEMA SELECT SET TABLE TO TRUE TRUNCATE
        UNLOGGED UPDATE USE USING VIEW WHERE WITH;
    ReservedFunction: TOKEN;
    Free: ACCESS AGGREGATE AGGREGATES ALL ANN AS CALLED CIDRS CLUSTER CLUSTERING COLUMNFAMILIES COMPACT CONTAINS CUSTOM
        DATACENTERS DEFAULT EXISTS FILTERING FINALFUNC FROZEN FUNCTION FUNCTIONS GROUP HASHED IDENTITY INITCOND INPUT
        INTERNALS KEYS KEYSPACES LANGUAGE LIKE LIST LOGIN MAP MASKED MBEAN MBEANS NOLOGIN NOSUPERUSER ONLY OPTIONS
        PARTITION PASSWORD PER PERMISSION PERMISSIONS REPLACE RETURNS ROLE ROLES SELECT_MASKED SFUNC STATIC STORAGE
        STYPE SUPERUSER TABLES TRIGGER TUPLE TYPE TYPES UNMASK UNSET USER USERS VALUES VECTOR;
    NotType: ASCII BIGINT BLOB BOOLEAN COUNT COUNTER DATE DECIMAL DOUBLE DURATION FLOAT INET INT SMALLINT TEXT TIME
        TIMESTAMP TIMEUUID TINYINT UUID VARCHAR VARINT;
    NotFunction: KEY;
    NotTypeNorFunction: CAST DISTINCT JSON MAXWRITETIME TTL WRITETIME;
}

impl Keyword {
    /// Returns the keyword in upper case.
    pub(super) fn text(self) -> &'static str {
        KEYWORDS[self as usize].0
    }

    fn class(self) -> Class {
        KEYWORDS[self as usize].2
    }

    /// Returns whether the keyword may name a keyspace, table, column, field, role, ...
    pub(super) fn is_name(self) -> bool {
        !matches!(self.class(), Class::Reserved | Class::ReservedFunction)
    }

    /// Returns whether the keyword may name a user-defined type.
    pub(super) fn is_type_name(self) -> bool {
        matches!(self.class(), Class::Free | Class::NotFunction)
    }

    /// Returns whether the keyword may name a function.
    pub(super) fn is_function_name(self) -> bool {
        matches!(self.class(), Class::Free | Class::NotType | Class::ReservedFunction)
    }

    /// Returns the native type that the keyword names, if it names one.
    pub(super) fn native_type(self) -> Option<CqlType> {
        Some(match self {
            Self::ASCII => CqlType::Ascii,
            Self::BIGINT => CqlType::Bigint,
            Self::BLOB => CqlType::Blob,
            Self::BOOLEAN => CqlType::Boolean,
            Self::COUNTER => CqlType::Counter,
            Self::DATE => CqlType::Date,
            Self::DECIMAL => CqlType::Decimal,
            Self::DOUBLE => CqlType::Double,
            Self::DURATION => CqlType::Duration,
            Self::FLOAT => CqlType::Float,
            Self::INET => CqlType::Inet,
            Self::INT => CqlType::Int,
            Self::SMALLINT => CqlType::Smallint,
            Self::TEXT | Self::VARCHAR => CqlType::Text,
            Self::TIME => CqlType::Time,
            Self::TIMESTAMP => CqlType::Timestamp,
            Self::TIMEUUID => CqlType::Timeuuid,
            Self::TINYINT => CqlType::Tinyint,
            Self::UUID => CqlType::Uuid,
            Self::VARINT => CqlType::Varint,
            _ => return None,
        })
    }

    /// Returns the keyword that equals `word`, ignoring case.
    pub(super) fn find(word: &[u8]) -> Option<Self> {
        let first = word.first()?.to_ascii_uppercase();
        let bucket = BUCKETS.get(usize::from(first.checked_sub(b'A')?))?;
        bucket.iter().map_while(|index| index.checked_sub(1)).find_map(|index| {
            let (text, keyword, _) = KEYWORDS[usize::from(index)];
            text.as_bytes().eq_ignore_ascii_case(word).then_some(keyword)
        })
    }
}

const BUCKET_SIZE: usize = 20;

/// The keywords by first letter: indexes into `KEYWORDS` plus one, ended by zero. A word is
/// compared with few keywords only.
static BUCKETS: [[u8; BUCKET_SIZE]; 26] = {
    let mut buckets = [[0; BUCKET_SIZE]; 26];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let bucket = &mut buckets[(KEYWORDS[index].0.as_bytes()[0] - b'A') as usize];
        let mut at = 0;
        while bucket[at] != 0 {
            at += 1;
        }
        index += 1;
        bucket[at] = index as u8;
    }
    buckets
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (text, keyword, _) in KEYWORDS {
            assert_eq!(Keyword::find(text.as_bytes()), Some(*keyword));
            assert_eq!(Keyword::find(text.to_ascii_lowercase().as_bytes()), Some(*keyword));
            assert_eq!(keyword.text(), *text);
        }
        for word in ["", "sel", "selects", "_", "zebra", "é", "between", "cache"] {
            assert_eq!(Keyword::find(word.as_bytes()), None, "{word}");
        }
    }
}
