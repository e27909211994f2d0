//! The options of the audit log have the names of Cassandra's `audit_logging_options`.

use std::path::PathBuf;
use std::time::Duration;

use espalier_cql::audit::AuditCategory;

use super::AuditEntry;

/// Keyspaces whose statements the log leaves out by default, as in Cassandra.
const DEFAULT_EXCLUDED: &str = "system,system_schema,system_virtual_schema";

/// The options of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// `enabled`.
    pub enabled: bool,
    /// `logger`: the destination of entries.
    pub logger: AuditLogger,
    /// `audit_logs_dir`.
    pub directory: PathBuf,
    /// `included_keyspaces` and `excluded_keyspaces`.
    pub keyspaces: Selection,
    /// `included_categories` and `excluded_categories`.
    pub categories: Selection,
    /// `included_users` and `excluded_users`.
    pub users: Selection,
    /// `roll_cycle`: the period of the files.
    pub roll_cycle: RollCycle,
    /// `block`: true if a request waits while the queue is full; otherwise the log drops its entry.
    pub block: bool,
    /// `max_queue_weight`: the maximum bytes of entries that wait to be written.
    pub max_queue_bytes: usize,
    /// `max_log_size`: the maximum bytes of all files together. The writer removes older files.
    pub max_log_bytes: u64,
}

/// The destinations of entries, by the names of Cassandra's classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLogger {
    /// Files of JSON lines (BinAuditLogger, which writes a binary format in Cassandra).
    Files,
    /// The node's log (FileAuditLogger).
    Log,
    /// None (NoOpAuditLogger).
    Nowhere,
}

/// The period after which a new file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RollCycle {
    Minutely,
    Hourly,
    Daily,
}

/// The names whose entries the audit log records. A name that is both included and excluded is
/// excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The included names; all if empty.
    pub included: Vec<String>,
    /// The excluded names.
    pub excluded: Vec<String>,
}

impl AuditOptions {
    /// Returns Cassandra's defaults with a smaller queue, and with files in `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let excluded = names(DEFAULT_EXCLUDED);
        Self {
            enabled: false,
            logger: AuditLogger::Files,
            directory: directory.into(),
            keyspaces: Selection { included: Vec::new(), excluded },
            categories: Selection::default(),
            users: Selection::default(),
            roll_cycle: RollCycle::Hourly,
            block: true,
            max_queue_bytes: 16 << 20,
            max_log_bytes: 16 << 30,
        }
    }

    /// Sets an option by its name in `audit_logging_options`. Returns false if there is no such
    /// option, and for `audit_logs_dir`, which only the settings file has.
    ///
    /// # Errors
    /// Fails with the reason if the value is not allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let switch = || match value {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        };
        let number = || value.parse::<u64>().map_err(|_| "expected a number of bytes".to_owned());
        match name {
            "enabled" => self.enabled = switch()?,
            "logger" => self.logger = AuditLogger::named(value)?,
            "included_keyspaces" => self.keyspaces.included = names(value),
            "excluded_keyspaces" => self.keyspaces.excluded = names(value),
            "included_categories" => self.categories.included = categories(value)?,
            "excluded_categories" => self.categories.excluded = categories(value)?,
            "included_users" => self.users.included = names(value),
            "excluded_users" => self.users.excluded = names(value),
            "roll_cycle" => self.roll_cycle = RollCycle::named(value)?,
            "block" => self.block = switch()?,
            "max_queue_weight" => self.max_queue_bytes = number()?.max(1) as usize,
            "max_log_size" => self.max_log_bytes = number()?,
            "archive_command" if value.is_empty() => {}
            "archive_command" => {
                return Err("this node runs no commands; take the files from audit_logs_dir".into());
            }
            // The node runs no archive command, so it has no retries.
            "max_archive_retries" => drop(number()?),
            "allow_nodetool_archive_command" => drop(switch()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns names and values, as `nodetool getauditlog` prints them.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let list = |names: &[String]| names.join(",");
        vec![
            ("enabled", self.enabled.to_string()),
            ("logger", self.logger.class().to_owned()),
            ("audit_logs_dir", self.directory.display().to_string()),
            ("archive_command", String::new()),
            ("roll_cycle", self.roll_cycle.name().to_owned()),
            ("block", self.block.to_string()),
            ("max_log_size", self.max_log_bytes.to_string()),
            ("max_queue_weight", self.max_queue_bytes.to_string()),
            ("max_archive_retries", "0".to_owned()),
            ("included_keyspaces", list(&self.keyspaces.included)),
            ("excluded_keyspaces", list(&self.keyspaces.excluded)),
            ("included_categories", list(&self.categories.included)),
            ("excluded_categories", list(&self.categories.excluded)),
            ("included_users", list(&self.users.included)),
            ("excluded_users", list(&self.users.excluded)),
        ]
    }

    /// Returns whether the audit log records an entry: the options select one of its keyspaces, its
    /// category and its user. No list of the options names a missing keyspace or user.
    pub(super) fn takes(&self, entry: &AuditEntry<'_>) -> bool {
        let takes = |keyspace: Option<&str>| {
            if entry.has_failed {
                // The client chooses the keyspace of a failure, so `excluded` must not hide it.
                self.keyspaces.includes(keyspace)
            } else {
                self.keyspaces.takes(keyspace)
            }
        };
        let is_selected = match entry.keyspaces {
            [] => takes(None),
            keyspaces => keyspaces.iter().any(|one| takes(Some(one))),
        };
        is_selected
            && self.categories.takes(Some(entry.category.name()))
            && self.users.takes(entry.user)
    }
}

impl Selection {
    fn takes(&self, name: Option<&str>) -> bool {
        !holds(&self.excluded, name) && self.includes(name)
    }

    fn includes(&self, name: Option<&str>) -> bool {
        self.included.is_empty() || holds(&self.included, name)
    }
}

fn holds(names: &[String], name: Option<&str>) -> bool {
    names.iter().any(|one| Some(one.as_str()) == name)
}

impl AuditLogger {
    fn named(text: &str) -> Result<Self, String> {
        match text.rsplit('.').next().unwrap_or(text) {
            "BinAuditLogger" => Ok(Self::Files),
            "FileAuditLogger" => Ok(Self::Log),
            "NoOpAuditLogger" => Ok(Self::Nowhere),
            _ => Err("expected BinAuditLogger, FileAuditLogger or NoOpAuditLogger".to_owned()),
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Files => "BinAuditLogger",
            Self::Log => "FileAuditLogger",
            Self::Nowhere => "NoOpAuditLogger",
        }
    }
}

impl RollCycle {
    fn named(text: &str) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            "MINUTELY" => Ok(Self::Minutely),
            "HOURLY" => Ok(Self::Hourly),
            "DAILY" => Ok(Self::Daily),
            _ => Err("expected MINUTELY, HOURLY or DAILY".to_owned()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Minutely => "MINUTELY",
            Self::Hourly => "HOURLY",
            Self::Daily => "DAILY",
        }
    }

    /// Returns the length of a cycle. Cycles begin at multiples of this time, in UTC.
    pub(super) fn period(self) -> Duration {
        Duration::from_secs(match self {
            Self::Minutely => 60,
            Self::Hourly => 3_600,
            Self::Daily => 86_400,
        })
    }
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn categories(list: &str) -> Result<Vec<String>, String> {
    let found: Vec<String> = names(list).iter().map(|name| name.to_ascii_uppercase()).collect();
    let is_known = |name: &String| AuditCategory::ALL.iter().any(|known| known.name() == name);
    match found.iter().find(|name| !is_known(name)) {
        None => Ok(found),
        Some(unknown) => Err(format!(
            "category {unknown} not found in org.apache.cassandra.audit.AuditLogEntryCategory"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'e>(
        category: AuditCategory,
        keyspaces: &'e [String],
        user: Option<&'e str>,
    ) -> AuditEntry<'e> {
        AuditEntry { keyspaces, category, user, ..AuditEntry::new([127, 0, 0, 1].into()) }
    }

    #[test]
    fn entries_are_selected_by_keyspace_category_and_user() {
        let mut options = AuditOptions::new("audit");
        let takes = |options: &AuditOptions, keyspaces: &[&str], user| {
            let keyspaces: Vec<_> = keyspaces.iter().map(|&one| one.to_owned()).collect();
            options.takes(&entry(AuditCategory::Query, &keyspaces, user))
        };
        assert!(takes(&options, &["k"], Some("u")));
        assert!(takes(&options, &[], None));
        assert!(!takes(&options, &["system"], Some("u")));
        assert!(takes(&options, &["system", "k"], Some("u")));
        let system = ["system".to_owned()];
        let failed =
            AuditEntry { has_failed: true, ..entry(AuditCategory::Error, &system, Some("u")) };
        assert!(options.takes(&failed), "the keyspace of a failure does not hide it");
        options.set("included_users", "a, b").unwrap();
        assert!(!takes(&options, &["k"], Some("u")));
        assert!(!takes(&options, &["k"], None));
        assert!(takes(&options, &["k"], Some("b")));
        options.set("excluded_users", "b").unwrap();
        assert!(!takes(&options, &["k"], Some("b")));
        options.set("included_categories", "ddl,auth").unwrap();
        assert!(!takes(&options, &["k"], Some("a")));
        assert!(options.takes(&entry(AuditCategory::Ddl, &[], Some("a"))));
        options.set("included_keyspaces", "k").unwrap();
        assert!(!options.takes(&entry(AuditCategory::Ddl, &[], Some("a"))));
    }

    #[test]
    fn wrong_values_are_refused() {
        let mut options = AuditOptions::new("audit");
        for (name, value, reason) in [
            ("included_categories", "DDL,NONE", "category NONE not found"),
            ("logger", "Other", "expected BinAuditLogger"),
            ("roll_cycle", "WEEKLY", "expected MINUTELY"),
            ("block", "maybe", "expected true or false"),
            ("max_log_size", "much", "expected a number"),
            ("archive_command", "/bin/rm %path", "runs no commands"),
        ] {
            let error = options.set(name, value).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(options.set("nosuch", "x"), Ok(false));
        assert_eq!(options, AuditOptions::new("audit"));
        assert_eq!(options.set("logger", "org.apache.cassandra.audit.FileAuditLogger"), Ok(true));
        let shown = options.shown();
        assert!(shown.contains(&("logger", "FileAuditLogger".into())), "{shown:?}");
    }
}
