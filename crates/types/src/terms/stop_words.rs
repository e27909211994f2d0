//! Words that an analyzer leaves out, by language. `stop_words.txt` has the public lists of Jacques
//! Savoy, which Cassandra uses.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

type Words = HashSet<&'static str>;

static LANGUAGES: LazyLock<HashMap<[u8; 2], Words>> = LazyLock::new(|| {
    let mut languages: HashMap<[u8; 2], Words> = HashMap::new();
    let lines = include_str!("stop_words.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let language = words.next().and_then(|name| name.as_bytes().try_into().ok());
        let Some(language) = language else { continue };
        languages.entry(language).or_default().extend(words);
    }
    languages
});

/// Returns the stop words of a language; `None` if there is no list.
pub(super) fn of(language: [u8; 2]) -> Option<&'static Words> {
    LANGUAGES.get(&language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_of_cassandra_are_there() {
        let sizes = ["ar", "bg", "cs", "de", "en", "es", "fi", "fr", "hi", "hu", "it", "pl"];
        let sizes = sizes.into_iter().chain(["pt", "ro", "ru", "sv"]);
        for language in sizes {
            let words = of(language.as_bytes().try_into().unwrap()).unwrap();
            assert!(words.len() > 100, "{language}: {}", words.len());
        }
        assert_eq!(LANGUAGES.len(), 16);
        assert!(of(*b"en").unwrap().contains("can't"));
        assert!(of(*b"de").unwrap().contains("aber"));
        assert_eq!(of(*b"xx"), None);
    }
}
