//! Decides whether a request is a read or a write, by the first word of its statement. This costs
//! nothing compared with serving the request.

use espalier_cql::grammar::behind_comments;

use crate::connection::Connection;
use crate::metrics::RequestKind;
use crate::protocol::Request;

/// Returns the kind under which a request's latency is counted; `None` if the request neither reads
/// nor writes rows of tables, or names an unknown prepared statement.
pub(super) fn kind_of(connection: &Connection, request: &Request<'_>) -> Option<RequestKind> {
    match request {
        Request::Query(query) => kind_of_statement(query.text),
        Request::Execute(execute) => {
            kind_of_statement(&connection.server.processor.known(execute.id)?.text)
        }
        Request::Batch(_) => Some(RequestKind::Write),
        _ => None,
    }
}

fn kind_of_statement(text: &str) -> Option<RequestKind> {
    let is = |word: &str| first_word(text).eq_ignore_ascii_case(word);
    if is("SELECT") {
        return Some(RequestKind::Read);
    }
    ["INSERT", "UPDATE", "DELETE", "BEGIN"].into_iter().any(is).then_some(RequestKind::Write)
}

/// Returns whether a statement may read rows for its answer. The row that answers a conditional
/// write does not count.
pub(super) fn may_return_rows(text: &str) -> bool {
    let is = |word: &str| first_word(text).eq_ignore_ascii_case(word);
    !["INSERT", "UPDATE", "DELETE", "BEGIN", "TRUNCATE", "USE"].into_iter().any(is)
}

fn first_word(text: &str) -> &str {
    behind_comments(text).split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_read_or_write_or_do_neither() {
        let (read, write) = (Some(RequestKind::Read), Some(RequestKind::Write));
        for (text, kind) in [
            ("SELECT * FROM t", read),
            (" select*from t", read),
            ("/* of a tool */ -- and more\n SELECT v FROM t", read),
            ("Insert INTO t (k) VALUES (1)", write),
            ("UPDATE t SET v = 1 WHERE k = 1", write),
            ("-- gone\nDELETE FROM t WHERE k = 1", write),
            ("BEGIN BATCH APPLY BATCH", write),
            ("TRUNCATE t", None),
            ("SELECTED", None),
            ("USE ks", None),
            ("DESCRIBE TABLES", None),
            ("/* without an end", None),
            ("--", None),
            ("", None),
        ] {
            assert_eq!(kind_of_statement(text), kind, "{text}");
        }
    }

    /// Otherwise a comment would exempt a batch from the limit of plans.
    #[test]
    fn a_batch_behind_a_comment_returns_no_rows() {
        assert!(!may_return_rows("/*/ */ // x\n -- y\r\nBEGIN BATCH APPLY BATCH"));
        assert!(may_return_rows("/**/ SELECT v FROM t"));
    }
}
