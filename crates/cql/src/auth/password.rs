//! Computes hashes of passwords on helper threads.
//!
//! The node makes bcrypt hashes (`$2a$`) as Cassandra does, and also reads the SHA-512 hashes
//! (`$6$`) of ScyllaDB. A hash takes about 50 ms of processor time. Each shard computes one at a
//! time, on a helper thread, for at most [`MAX_WAITING`] requests at once. Therefore log-ins
//! neither block a shard nor use unbounded memory, however many arrive.

use std::cell::Cell;

use espalier_runtime::{random, spawn_blocking_holding, sync::Semaphore};
use sha_crypt::{PasswordVerifier, ShaCrypt};

use crate::{Error, ErrorCode, Result};

/// Rounds of the hashes that this node makes, as a power of two. Cassandra's default.
pub const DEFAULT_COST: u32 = 10;

/// Maximum rounds of a hash that this node computes, as a power of two. Without this limit, a user
/// with the right to set `HASHED PASSWORD` could occupy a helper thread for a day with one log-in.
/// At 2^14, a log-in takes about a second.
const MAX_COST: u32 = 14;

/// Maximum rounds of a `$6$` hash, which take about a second.
const MAX_SHA_ROUNDS: u32 = 1_000_000;

/// Maximum length of a password for a SHA-crypt hash, in bytes, because each round hashes it again.
/// Arbitrary.
const MAX_SHA_PASSWORD_BYTES: usize = 256;

/// Maximum number of requests that use or await a shard's thread. Arbitrary: with hashes of the
/// default cost, the last request waits three seconds.
const MAX_WAITING: usize = 64;

thread_local! {
    static THREADS: Semaphore = Semaphore::new(1);
    static WAITING: Cell<usize> = const { Cell::new(0) };
}

/// Computes the hash of a password with a new salt. Only the first 72 bytes of the password count,
/// as in Cassandra.
pub fn hash(password: &str, cost: u32) -> String {
    let mut salt = [0; 16];
    random::fill(&mut salt);
    let parts = bcrypt::hash_with_salt(password, cost, salt);
    parts.map(|parts| parts.format_for_version(bcrypt::Version::TwoA)).unwrap_or_default()
}

/// Checks that a text is a hash of a password, without computing one.
///
/// # Errors
/// Error 0x2200 if the text is no hash that this node would accept at a log-in.
pub fn check_hash(hash: &str) -> Result<()> {
    if let Some(rounds) = sha_rounds(hash).filter(|rounds| *rounds > MAX_SHA_ROUNDS) {
        return Err(Error::invalid(format!(
            "Invalid hashed password value. Please use jBcrypt. It has {rounds} rounds, at most {MAX_SHA_ROUNDS} are allowed"
        )));
    }
    match bcrypt_cost(hash).or_else(|| sha_rounds(hash).map(|_| DEFAULT_COST)) {
        None => Err(Error::invalid("Invalid hashed password value. Please use jBcrypt.")),
        Some(cost) if cost > MAX_COST => Err(Error::invalid(format!(
            "Invalid hashed password value. Please use jBcrypt. Its cost is {cost}, at most {MAX_COST} is allowed"
        ))),
        Some(_) => Ok(()),
    }
}

/// Returns whether a password fits a hash. No password fits a malformed or too costly hash.
fn fits(password: &str, hash: &str) -> bool {
    if bcrypt_cost(hash).is_some_and(|cost| cost <= MAX_COST) {
        return bcrypt::verify(password, hash).unwrap_or(false);
    }
    let sha_rounds = sha_rounds(hash);
    password.len() <= MAX_SHA_PASSWORD_BYTES
        && sha_rounds.is_some_and(|rounds| rounds <= MAX_SHA_ROUNDS)
        && ShaCrypt::default().verify_password(password.as_bytes(), hash).is_ok()
}

fn bcrypt_cost(hash: &str) -> Option<u32> {
    let parts: bcrypt::HashParts = hash.parse().ok()?;
    let cost = parts.get_cost();
    (4..=31).contains(&cost).then_some(cost)
}

fn sha_rounds(hash: &str) -> Option<u32> {
    let rest = hash.strip_prefix("$6$")?;
    let (first, others) = rest.split_once('$')?;
    match first.strip_prefix("rounds=") {
        Some(rounds) => rounds.parse().ok().filter(|_| others.contains('$')),
        None => Some(sha_crypt::Params::RECOMMENDED_ROUNDS),
    }
}

/// Computes the hash of a password on a helper thread.
///
/// # Errors
/// Error 0x1001 if too many requests wait for the thread.
pub async fn hash_in_background(password: String) -> Result<String> {
    in_background(move || hash(&password, DEFAULT_COST), async { Ok(()) }).await
}

/// Returns whether a password fits a hash. A helper thread computes the answer. Without a hash, the
/// thread computes one of the default cost, so that the time of an answer does not reveal which
/// roles exist. The call awaits `admit` when the thread is free, just before the computation.
///
/// # Errors
/// Error 0x1001 if too many requests wait for the thread; any error of `admit`.
pub async fn fits_in_background(
    password: String,
    hash: Option<String>,
    admit: impl Future<Output = Result<()>>,
) -> Result<bool> {
    /// The hash of a password that no role has.
    const NOBODY: &str = "$2a$10$abcdefghijklmnopqrstuu5Lo0g67CiD3M4RpN1BmBb4Crp5w7dbK";
    let work = move || match hash {
        Some(hash) => fits(&password, &hash),
        None => {
            std::hint::black_box(fits(&password, NOBODY));
            false
        }
    };
    in_background(work, admit).await
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    admit: impl Future<Output = Result<()>>,
) -> Result<T> {
    let waiting = Waiting::begin()?;
    let threads = THREADS.with(Semaphore::clone);
    let permit = threads.acquire(1).await;
    admit.await?;
    Ok(spawn_blocking_holding((waiting, permit), work).await)
}

/// A request that uses or awaits the thread. It counts in [`WAITING`] until it is dropped.
struct Waiting;

impl Waiting {
    fn begin() -> Result<Self> {
        if WAITING.get() >= MAX_WAITING {
            let message = "Too many log-ins at the same time; try again later";
            return Err(Error::new(ErrorCode::Overloaded, message));
        }
        WAITING.set(WAITING.get() + 1);
        Ok(Self)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.set(WAITING.get() - 1);
    }
}

/// Returns a random password of 20 letters and digits, about 119 bits.
///
/// # Errors
/// Error 0x0000 if the kernel returns no random bytes.
pub fn random_password() -> Result<String> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = [0; 20 * 4];
    random::fill_secret(&mut bytes).map_err(|error| {
        Error::new(ErrorCode::ServerError, format!("no random bytes for a password: {error}"))
    })?;
    let letter = |word: &[u8]| {
        let number = word.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        char::from(LETTERS.get(number % LETTERS.len()).copied().unwrap_or(b'x'))
    };
    Ok(bytes.chunks(4).map(letter).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use espalier_runtime::{block_on, time};

    use super::*;

    /// A hash of `cassandra` by jBCrypt, the library of Cassandra 5.0.9.
    const OF_CASSANDRA: &str = "$2a$10$9ymGVp.mkN5FBP2mkOcuBubXp52HskThCOkpHhdFWcVA8RF8c7tJS";

    #[test]
    fn own_hashes_have_the_form_of_cassandra_and_fit() {
        let made = hash("pässword", 4);
        assert!(made.starts_with("$2a$04$") && made.len() == 60, "{made}");
        assert!(fits("pässword", &made));
        assert!(!fits("password", &made));
        assert_ne!(hash("x", 4), hash("x", 4));
    }

    /// The hash is from the specification of SHA-crypt by Ulrich Drepper.
    #[test]
    fn hashes_of_scylla_are_read() {
        let made = concat!(
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEd",
            "FCoEOfaS35inz1"
        );
        assert!(check_hash(made).is_ok());
        assert!(fits("Hello world!", made));
        assert!(!fits("hello world!", made));
    }

    #[test]
    fn hashes_that_would_take_a_thread_for_days_are_refused() {
        assert!(check_hash(OF_CASSANDRA).is_ok());
        assert!(fits("cassandra", OF_CASSANDRA));
        assert!(!fits("Cassandra", OF_CASSANDRA));
        let costly = OF_CASSANDRA.replacen("$10$", "$31$", 1);
        assert!(check_hash(&costly).unwrap_err().message.contains("at most 14"));
        assert!(!fits("cassandra", &costly));
        assert!(!fits("x", "$6$rounds=999999999$saltstring$aaaa"));
        let costly = check_hash("$6$rounds=999999999$saltstring$aaaa").unwrap_err();
        assert!(costly.message.contains("at most 1000000"), "{costly}");
        for wrong in ["", "cassandra", "$2a$10$short", "$1$abc$def"] {
            let message = check_hash(wrong).unwrap_err().message;
            assert_eq!(message, "Invalid hashed password value. Please use jBcrypt.");
        }
    }

    /// A client that closes its connection gets no second thread.
    #[test]
    fn an_abandoned_hash_holds_its_thread_until_it_is_done() {
        block_on(async {
            let (end, ends) = mpsc::channel::<()>();
            let abandoned = in_background(move || ends.recv(), async { Ok(()) });
            assert!(time::timeout(Duration::from_millis(20), abandoned).await.is_err());
            assert_eq!(WAITING.get(), 1);
            let second = in_background(|| 7, async { Ok(()) });
            assert!(time::timeout(Duration::from_millis(20), second).await.is_err());
            end.send(()).unwrap();
            assert_eq!(in_background(|| 8, async { Ok(()) }).await.unwrap(), 8);
        });
    }

    #[test]
    fn random_passwords_differ() {
        let (one, two) = (random_password().unwrap(), random_password().unwrap());
        assert_eq!(one.len(), 20);
        assert_ne!(one, two);
    }
}
