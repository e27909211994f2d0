//! Reads and sets, under ScyllaDB's paths, whether compactions of a table start by themselves.

use espalier_storage::Node;

use super::{
    compaction::{names, outcome},
    http::{Answer, HttpRequest, HttpResponse},
    routes::unanswered,
};

/// Answers `POST` and `DELETE /storage_service/auto_compaction/KEYSPACE?cf=TABLES`. POST enables
/// automatic compactions of the tables, and DELETE disables them.
pub(super) async fn of_keyspace(database: &Node, request: &HttpRequest, keyspace: &str) -> Answer {
    set(database, request, keyspace, &names(request, "cf")).await
}

/// Answers `GET`, `POST` and `DELETE /column_family/autocompaction/KEYSPACE:TABLE`.
pub(super) async fn of_table(database: &Node, request: &HttpRequest, name: &str) -> Answer {
    let (keyspace, table) = name.split_once(':').ok_or("This needs KEYSPACE:TABLE")?;
    if request.method != "GET" {
        return set(database, request, keyspace, &[table]).await;
    }
    Ok(HttpResponse::json(&database.compactions().is_auto_enabled(keyspace, table)?))
}

async fn set(database: &Node, request: &HttpRequest, keyspace: &str, tables: &[&str]) -> Answer {
    let is_enabled = match request.method.as_str() {
        "POST" => true,
        "DELETE" => false,
        method => return unanswered(method, &["storage_service", "auto_compaction", keyspace]),
    };
    outcome(database.compactions().set_auto_enabled(keyspace, tables, is_enabled).await)
}
