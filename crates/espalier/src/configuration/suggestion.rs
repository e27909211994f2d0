//! Finds the known word that is closest to an unknown one.

use strsim::osa_distance;

/// Returns the candidate closest to `word`, if the differences are at most a third of the word's
/// letters, or at most two in a short word. A difference is a letter to add, remove, replace or
/// swap with its neighbour.
pub fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let distances = candidates.map(|candidate| (osa_distance(word, candidate), candidate));
    distances.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_words_are_suggested() {
        let known = ["rpc_address", "api_address", "commitlog_sync"];
        assert_eq!(closest("commit_log_sync", known.into_iter()), Some("commitlog_sync"));
        assert_eq!(closest("rpc_adress", known.into_iter()), Some("rpc_address"));
        assert_eq!(closest("colour", known.into_iter()), None);
    }

    #[test]
    fn swapped_letters_are_one_difference() {
        assert_eq!(closest("prot", ["post", "port"].into_iter()), Some("port"));
        assert_eq!(closest("tropo", ["ports"].into_iter()), None);
    }
}
