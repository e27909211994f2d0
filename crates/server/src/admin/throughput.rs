//! Reads and sets `compaction_throughput` in MiB a second, under the path of ScyllaDB's API.

use espalier_storage::Node;

use super::{
    http::{Answer, HttpResponse},
    json::number,
};

const MEBIBYTE: u64 = 1 << 20;

/// Answers `GET /storage_service/compaction_throughput`. The answer 0 means that there is no limit.
pub(super) fn get(database: &Node) -> HttpResponse {
    let bytes = database.compactions().bytes_per_second().unwrap_or(0);
    HttpResponse::json(&number(bytes as f64 / MEBIBYTE as f64))
}

/// Answers `POST /storage_service/compaction_throughput?value=NUMBER`.
pub(super) async fn set(database: &Node, given: Option<&str>) -> Answer {
    let mebibytes = parse(given.unwrap_or_default()).ok_or(
        "This needs ?value= with a whole number of MiB a second, below 2^31; 0 means no limit",
    )?;
    database.compactions().set_throughput(mebibytes).await;
    Ok(HttpResponse::done())
}

/// Parses a throughput. Returns `None` outside of the range that Cassandra accepts.
fn parse(text: &str) -> Option<u64> {
    let number: i32 = text.parse().ok()?;
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_taken() {
        assert_eq!(parse("0"), Some(0));
        assert_eq!(parse("2147483647"), Some(2_147_483_647));
        for wrong in ["", "-1", "1.5", "64MiB/s", "2147483648"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
