//! JSON lists that may be long.

use espalier_runtime::maybe_yield;

/// Returns the JSON list of `values`, which are JSON; yields between them.
pub(super) async fn long_list(values: impl Iterator<Item = String>) -> String {
    let mut list = String::from("[");
    for value in values {
        if list.len() > 1 {
            list.push_str(", ");
        }
        list.push_str(&value);
        maybe_yield().await;
    }
    list.push(']');
    list
}

#[cfg(test)]
mod tests {
    use espalier_runtime::block_on;

    use super::super::http::json_list;
    use super::*;

    #[test]
    fn it_is_as_any_list() {
        for count in 0..3 {
            let values = || (0..count).map(|number| number.to_string());
            assert_eq!(block_on(long_list(values())), json_list(values()));
        }
    }
}
