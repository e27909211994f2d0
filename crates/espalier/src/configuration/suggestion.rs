//! Finds the known word that is closest to an unknown one.

/// Returns the candidate closest to `word`, if it is close enough to be meant: a third of the
/// word's letters may differ, and at least two.
pub fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let distances = candidates.map(|candidate| (distance(word, candidate), candidate));
    distances.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

/// Counts the letters to add, remove, replace or swap with their neighbour to turn one word into
/// the other (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, &letter) in left.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, &other) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != other);
            let mut best = replaced.min(above[column + 1] + 1).min(line[column] + 1);
            let swapped =
                row > 0 && column > 0 && left[row - 1] == other && right[column - 1] == letter;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            line.push(best);
        }
        before = std::mem::replace(&mut above, line);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("port", "port"), 0);
        assert_eq!(distance("prot", "port"), 1);
        assert_eq!(distance("commitlog", "commit_log"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_close_words_are_suggested() {
        let known = ["rpc_address", "api_address", "commitlog_sync"];
        assert_eq!(closest("commit_log_sync", known.into_iter()), Some("commitlog_sync"));
        assert_eq!(closest("rpc_adress", known.into_iter()), Some("rpc_address"));
        assert_eq!(closest("colour", known.into_iter()), None);
    }
}
