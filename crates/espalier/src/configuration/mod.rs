//! The settings of a node. This module reads the file, `--set` and the flags, and produces the
//! configurations of storage and server.
//!
//! A flag overrides `--set`, which overrides the file. An unknown key is an error, and so is a
//! known key that asks for something that does not exist here. The node logs each known key without
//! effect, so that it ignores no setting silently.
//!
//! | module | what it does |
//! | --- | --- |
//! | `document` | YAML as flat keys with lines |
//! | `settings` | the settings |
//! | `client_encryption` | TLS for clients and for the admin API |
//! | `known_keys` | keys of Cassandra and ScyllaDB that are not settings here |
//! | `guardrails` | settings of guardrails |
//! | `memtables` | kinds of memtables by name |
//! | `ring`, `rack` | a member of a Cassandra ring, its data centre and its rack |
//! | `replaced` | the Cassandra node whose place the node takes |
//! | `resolve` | defaults, and settings that depend on others |
//! | `shown` | the settings in effect, for `system_views.settings` |
//! | `error` | the errors |
//! | `suggestion` | the known key that is closest to an unknown one |

mod client_encryption;
mod document;
mod error;
mod guardrails;
mod known_keys;
mod memtables;
mod rack;
mod replaced;
mod resolve;
mod ring;
mod settings;
mod shown;
mod suggestion;

pub use error::ConfigurationError;
pub use rack::RACK_FILE_NAME;
pub use resolve::NodeConfiguration;
pub use shown::shown;

use std::collections::HashMap;
use std::path::Path;

use document::{Entry, Value};
use error::Origin;
use known_keys::Known;
use settings::Draft;

use espalier_storage::guardrails::Setting;

use crate::command_line::ServeArguments;

/// The settings that were given, and the keys that were ignored.
#[derive(Debug, Default)]
struct Given {
    draft: Draft,
    memtables: memtables::Definitions,
    guardrails: guardrails::Given,
    ring: ring::Given,
    /// The content of [`RACK_FILE_NAME`].
    rack_file: Option<Vec<u8>>,
    /// Each ignored key with the reason.
    ignored: Vec<(String, &'static str)>,
    /// The place at which the operator gave each setting, by its new name.
    origins: HashMap<&'static str, Origin>,
}

impl NodeConfiguration {
    /// Loads the settings of these arguments. `file` has the path and the content of the file of
    /// `--config`; `rack_file` is the content of [`RACK_FILE_NAME`] beside that file.
    ///
    /// # Errors
    /// Fails if the file is not YAML, if a setting is unknown, not supported here, malformed or
    /// given twice in the file, if it contradicts another one, or if the machine lacks the memory.
    pub fn load(
        arguments: &ServeArguments,
        file: Option<(&Path, &[u8])>,
        rack_file: Option<Vec<u8>>,
        machine: Machine,
    ) -> Result<Self, ConfigurationError> {
        let mut given = Given { rack_file, ..Given::default() };
        if let Some((path, content)) = file {
            for entry in document::parse_file(path, content)? {
                given.take(entry)?;
            }
        }
        for argument in &arguments.set {
            for entry in document::parse_set(argument)? {
                given.take(entry)?;
            }
        }
        resolve::resolve(arguments, given, machine)
    }
}

/// Flags that operators give as settings by mistake, each with the name of its setting.
const FLAGS: [(&str, &str); 2] = [("host", "rpc_address"), ("port", "native_transport_port")];

/// The properties of the machine on which the defaults depend.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Bytes of memory that the process may use.
    pub memory_bytes: u64,
    /// The number of threads that can run at the same time.
    pub parallelism: usize,
    /// The processors that the process may run on.
    pub allowed_cpus: Vec<usize>,
}

impl Machine {
    /// Returns the properties of this machine, within the limits of control group and affinity.
    pub fn here() -> Self {
        Self {
            memory_bytes: espalier_runtime::memory::total_bytes(),
            parallelism: espalier_runtime::cpu::available_parallelism(),
            allowed_cpus: espalier_runtime::cpu::allowed_cpus(),
        }
    }
}

/// Returns whether a key has known keys below it. A file may give such a section without content.
fn is_section(key: &str) -> bool {
    let is_below = |known: &str| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    settings::names().chain(known_keys::names()).chain(ring::keys()).any(is_below)
}

impl Given {
    fn take(&mut self, entry: Entry) -> Result<(), ConfigurationError> {
        let Entry { key, value, origin } = entry;
        if memtables::is_key(&key) {
            return self.memtables.take(&key, &value, origin);
        }
        if ring::is_key(&key) {
            self.ring.take(key, value, origin);
            return Ok(());
        }
        if let Some(setting) = Setting::find(&key) {
            return self.guardrails.take((setting, key), &value, origin);
        }
        let Some((setting, old)) = settings::find(&key) else {
            return self.take_known(key, &value, origin);
        };
        if value == Value::Null {
            return Ok(());
        }
        if let Some(first) = self.origins.get(setting.name)
            && matches!((first, &origin), (Origin::File { .. }, Origin::File { .. }))
        {
            let (key, first) = (setting.name.to_owned(), first.clone());
            return Err(ConfigurationError::Twice { key, first, second: origin });
        }
        if let Err(reason) = setting.set(&mut self.draft, &value, old) {
            let value = value.to_string();
            return Err(ConfigurationError::BadValue { origin, key, value, reason });
        }
        self.origins.insert(setting.name, origin);
        Ok(())
    }

    fn take_known(
        &mut self,
        key: String,
        value: &Value,
        origin: Origin,
    ) -> Result<(), ConfigurationError> {
        match known_keys::look_up(&key) {
            None if *value == Value::Null && is_section(&key) => Ok(()),
            None => {
                let known = settings::names().chain(guardrails::names());
                let known =
                    known.chain(known_keys::names()).chain([memtables::NAME]).chain(ring::keys());
                let flag = FLAGS.iter().find(|(flag, _)| *flag == key).map(|(_, name)| *name);
                let suggestion = flag.or_else(|| suggestion::closest(&key, known));
                let suggestion = suggestion.map(str::to_owned);
                Err(ConfigurationError::UnknownKey { origin, key, suggestion })
            }
            Some(_) if *value == Value::Null => Ok(()),
            Some(Known::Ignored(reason)) => {
                self.ignored.push((key, reason));
                Ok(())
            }
            Some(Known::Only(allowed)) if known_keys::allows(&allowed, value) => Ok(()),
            Some(Known::Only(allowed)) => Err(ConfigurationError::OnlyValue {
                origin,
                key,
                value: value.to_string(),
                allowed: allowed.join(" or "),
            }),
            Some(Known::Absent(reason)) => {
                Err(ConfigurationError::Absent { origin, key, reason: reason.to_owned() })
            }
        }
    }
}
