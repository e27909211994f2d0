//! Guardrails are Cassandra's limits on the requests of clients. A limit has a threshold for a
//! warning and one for a refusal. The operator can switch a feature off. A set names values for
//! which the node warns, or which it ignores or refuses.
//!
//! The tables in `limit`, `feature` and `names` hold names, defaults and texts. Statements
//! consult [`Guardrails`], which all shards share; `nodetool setguardrailsconfig` changes it while
//! the node runs. Threads read thresholds and switches without a lock, and see a change some time
//! after it was made; a read-write lock protects the sets.
//!
//! Prepared reads of single rows ask [`Guardrails::guards_reads`] only, and prepared writes
//! [`Guardrails::guards_writes`]: a load each. If a guardrail that concerns them is on, they take
//! the general path, which checks the guardrail.

mod feature;
mod limit;
mod names;
mod settings;
mod warnings;

use std::{
    fmt::Display,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
    },
};

use espalier_runtime::{
    log_limit::{LogLimit, Quoted},
    time,
};

pub use self::{
    feature::Feature,
    limit::{Level, Limit},
    names::{CONSISTENCY_LEVELS, Names, Verdict},
    settings::{Setting, SettingError},
    warnings::Warnings,
};

/// The stored value of a threshold that is off.
const OFF: i64 = -1;

thread_local! {
    /// The log lines that refused statements cause: ten a minute on each shard. Arbitrary.
    static REFUSALS: LogLimit = const { LogLimit::at_most(10) };
}

/// The guardrails of a node with their present values.
#[derive(Debug)]
pub struct Guardrails {
    limits: [Thresholds; Limit::COUNT],
    features: [Switches; Feature::COUNT],
    names: RwLock<[NameSets; Names::COUNT]>,
    guards_reads: AtomicBool,
    guards_writes: AtomicBool,
}

/// The thresholds of one limit by [`Level`], in its unit; [`OFF`] if there is none.
type Thresholds = [AtomicI64; 2];

const _: () = assert!(Level::Warn as usize == 0 && Level::Fail as usize == 1);

/// The switches of one feature.
#[derive(Debug)]
struct Switches {
    is_enabled: AtomicBool,
    is_warned: AtomicBool,
}

/// The values of one set guardrail by [`Verdict`], in the order in which they were given.
type NameSets = [Vec<String>; Verdict::ALL.len()];

const _: () = assert!(Verdict::Warned as usize == 0 && Verdict::Ignored as usize == 1);

/// The refusal of a request by a guardrail, with Cassandra's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

impl Default for Guardrails {
    /// Returns Cassandra's defaults.
    fn default() -> Self {
        let limits = Limit::ALL
            .map(|limit| <[i64; 2]>::from(limit.definition().defaults).map(AtomicI64::new));
        let features = Feature::ALL.map(|feature| Switches {
            is_enabled: AtomicBool::new(true),
            is_warned: AtomicBool::new(feature.definition().warned.is_some()),
        });
        Self {
            limits,
            features,
            names: RwLock::default(),
            guards_reads: AtomicBool::new(false),
            guards_writes: AtomicBool::new(false),
        }
    }
}

impl Guardrails {
    /// Returns guardrails without any threshold.
    pub fn unlimited() -> Self {
        let guardrails = Self::default();
        for threshold in guardrails.limits.iter().flatten() {
            threshold.store(OFF, Relaxed);
        }
        guardrails
    }

    /// Returns whether a guardrail may concern a read of one row.
    #[inline]
    pub fn guards_reads(&self) -> bool {
        self.guards_reads.load(Relaxed)
    }

    /// Returns whether a guardrail may concern a write.
    #[inline]
    pub fn guards_writes(&self) -> bool {
        self.guards_writes.load(Relaxed)
    }

    /// Returns whether a limit has a threshold.
    pub fn is_limited(&self, limit: Limit) -> bool {
        self.thresholds(limit) != [OFF; 2]
    }

    /// Returns the threshold of a level, if there is one.
    pub fn threshold(&self, limit: Limit, level: Level) -> Option<i64> {
        let value = self.limits[limit as usize][level as usize].load(Relaxed);
        (value != OFF).then_some(value)
    }

    /// Returns the thresholds of a limit by [`Level`].
    fn thresholds(&self, limit: Limit) -> [i64; 2] {
        self.limits[limit as usize].each_ref().map(|threshold| threshold.load(Relaxed))
    }

    /// Compares a value with the thresholds of a limit. `what` names the object that has the value.
    /// The unit of the value is the limit's: a number, bytes, or µs since 1970.
    ///
    /// # Errors
    /// The value is beyond the threshold for a refusal. The text is also a warning.
    pub fn check(
        &self,
        limit: Limit,
        value: i64,
        what: impl Display,
        warnings: Option<&Warnings>,
    ) -> Result<(), Violation> {
        if !self.is_limited(limit) {
            return Ok(());
        }
        match self.exceeded(limit, value) {
            None => Ok(()),
            Some((level, threshold)) => {
                let text = limit.message(level, &what, value, threshold);
                report(level == Level::Fail, text, warnings)
            }
        }
    }

    /// Returns the level that a value exceeds, and its threshold in the value's unit.
    pub fn exceeded(&self, limit: Limit, value: i64) -> Option<(Level, i64)> {
        [Level::Fail, Level::Warn].into_iter().find_map(|level| {
            let threshold = self.threshold(limit, level)?;
            let threshold = limit.absolute(threshold, time::now_micros);
            limit.is_beyond(value, threshold).then_some((level, threshold))
        })
    }

    /// Checks that a feature is enabled.
    ///
    /// # Errors
    /// The feature is switched off.
    pub fn require(&self, feature: Feature, warnings: Option<&Warnings>) -> Result<(), Violation> {
        self.require_as(feature, feature.definition().what, warnings)
    }

    /// Checks that a feature is enabled, which messages call `what`.
    ///
    /// # Errors
    /// The feature is switched off.
    pub fn require_as(
        &self,
        feature: Feature,
        what: &str,
        warnings: Option<&Warnings>,
    ) -> Result<(), Violation> {
        let is_enabled = self.is_enabled(feature);
        if is_enabled && !self.features[feature as usize].is_warned.load(Relaxed) {
            return Ok(());
        }
        report(!is_enabled, feature.message(is_enabled, what), warnings)
    }

    /// Returns whether a feature is enabled.
    #[inline]
    pub fn is_enabled(&self, feature: Feature) -> bool {
        self.features[feature as usize].is_enabled.load(Relaxed)
    }

    /// Checks values. Returns the values that the caller must ignore.
    ///
    /// # Errors
    /// A value is disallowed.
    pub fn judge(
        &self,
        names: Names,
        given: &[&str],
        warnings: Option<&Warnings>,
    ) -> Result<Vec<String>, Violation> {
        let sets = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let sets = &sets[names as usize];
        let among = |set: &[String]| -> Vec<String> {
            let mut found: Vec<&str> = given.to_vec();
            found.retain(|name| set.iter().any(|known| known == name));
            names.sort(&mut found);
            found.into_iter().map(str::to_owned).collect()
        };
        for verdict in [Verdict::Disallowed, Verdict::Ignored, Verdict::Warned] {
            let set = &sets[verdict as usize];
            let found = among(set);
            if !found.is_empty() {
                let text = names.message(verdict, &found, set);
                report(verdict == Verdict::Disallowed, text, warnings)?;
            }
        }
        Ok(among(&sets[Verdict::Ignored as usize]))
    }

    /// Derives the summaries for single-row statements from the present values.
    fn summarise(&self) {
        let is_limited = |limit: &Limit| self.is_limited(*limit);
        let is_off = |feature: &Feature| !self.is_enabled(*feature);
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let has_names = |which: Names| {
            let [warned, _, disallowed] = &names[which as usize];
            !warned.is_empty() || !disallowed.is_empty()
        };
        let reads = Limit::OF_READS.iter().any(is_limited)
            || Feature::OF_READS.iter().any(is_off)
            || has_names(Names::ReadConsistencyLevels);
        let writes = Limit::OF_WRITES.iter().any(is_limited)
            || Feature::OF_WRITES.iter().any(is_off)
            || has_names(Names::WriteConsistencyLevels);
        self.guards_reads.store(reads, Relaxed);
        self.guards_writes.store(writes, Relaxed);
    }
}

/// Warns about a violation, and refuses it if it is a failure. As in Cassandra, the client gets the
/// text of a refusal as a warning too.
fn report(is_failure: bool, text: String, warnings: Option<&Warnings>) -> Result<(), Violation> {
    if let Some(warnings) = warnings {
        warnings.add(text.clone());
    }
    if is_failure {
        if let Some(left_out) = REFUSALS.with(|refusals| refusals.due("refused statement")) {
            tracing::info!(reason = %Quoted(&text), left_out, "guardrail refused a statement");
        }
        return Err(Violation(text));
    }
    Ok(())
}
