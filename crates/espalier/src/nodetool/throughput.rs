//! `nodetool getcompactionthroughput` and `setcompactionthroughput`. The unit is MiB/s.

use crate::admin_client::Request;

const PATH: &str = "/storage_service/compaction_throughput";

/// Returns the request for the current limit.
pub fn get() -> Request {
    Request::get(PATH)
}

/// Returns the request that changes the limit.
pub fn set(mebibytes_per_second: u32) -> Request {
    Request::post(PATH).with("value", &mebibytes_per_second.to_string())
}

/// Formats the limit like Cassandra: a whole number, unless the exact one is requested. Cassandra
/// writes MB for MiB.
///
/// # Errors
/// Fails if the limit is not a whole number and the exact one is not requested, as in Cassandra.
pub fn show(mebibytes_per_second: f64, is_exact: bool) -> Result<String, String> {
    let name = "Current compaction throughput";
    match is_exact {
        true => Ok(format!("{name}: {mebibytes_per_second:?} MiB/s")),
        false if mebibytes_per_second.fract() == 0.0 => {
            Ok(format!("{name}: {mebibytes_per_second} MB/s"))
        }
        false => {
            Err("Use the -d flag to quiet this error and get the exact throughput in MiB/s".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_shown_without_a_flag() {
        assert_eq!(show(64.0, false).unwrap(), "Current compaction throughput: 64 MB/s");
        assert_eq!(show(64.0, true).unwrap(), "Current compaction throughput: 64.0 MiB/s");
        assert_eq!(show(0.5, true).unwrap(), "Current compaction throughput: 0.5 MiB/s");
        assert!(show(0.5, false).unwrap_err().contains("-d"));
    }
}
