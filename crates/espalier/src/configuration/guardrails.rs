//! The settings of guardrails. Storage knows their names and values; this module reads them from
//! the file and from `--set`.

use std::sync::Arc;

use espalier_storage::guardrails::{Guardrails, Setting};

use super::document::Value;
use super::error::{ConfigurationError, Origin};

/// The given settings, in their order: a later value replaces an earlier one.
#[derive(Debug, Default)]
pub struct Given(Vec<(Setting, String, Origin)>);

/// Returns all names, new and old.
pub fn names() -> impl Iterator<Item = &'static str> {
    Setting::all().flat_map(|setting| std::iter::once(setting.name).chain(setting.old_name))
}

impl Given {
    /// Adds a setting.
    ///
    /// # Errors
    /// Fails if the value is a map.
    pub fn take(
        &mut self,
        (setting, key): (Setting, String),
        value: &Value,
        origin: Origin,
    ) -> Result<(), ConfigurationError> {
        let text = match value {
            Value::Scalar(text) if setting.old_name == Some(key.as_str()) => format!("{text}KiB"),
            Value::Scalar(_) | Value::List(_) | Value::Null => value.to_string(),
            Value::Map(_) => {
                return Err(bad(&key, value.to_string(), origin, "expected one value"));
            }
        };
        let text = if *value == Value::Null { "null".to_owned() } else { text };
        self.0.push((setting, text, origin));
        Ok(())
    }

    /// Returns the guardrails with these settings.
    ///
    /// # Errors
    /// Fails if a value is not of its setting's kind, or if a limit would refuse before it warns.
    pub fn resolve(self) -> Result<Arc<Guardrails>, ConfigurationError> {
        let guardrails = Guardrails::default();
        // First each setting is set alone, so that an error names its place. Then all are set
        // together, because the thresholds of one limit may come in any order.
        for (setting, text, origin) in &self.0 {
            let alone = Guardrails::unlimited();
            if let Err(error) = alone.set(&[(*setting, text)]) {
                return Err(bad(setting.name, text.clone(), origin.clone(), &error.to_string()));
            }
        }
        let all: Vec<_> =
            self.0.iter().map(|(setting, text, _)| (*setting, text.as_str())).collect();
        guardrails
            .set(&all)
            .map_err(|error| ConfigurationError::Inconsistent(error.to_string()))?;
        Ok(Arc::new(guardrails))
    }
}

fn bad(key: &str, value: String, origin: Origin, reason: &str) -> ConfigurationError {
    ConfigurationError::BadValue { origin, key: key.to_owned(), value, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guardrail_is_described() {
        let document = include_str!("../../../../docs/settings.md");
        for setting in Setting::all() {
            let name = format!("`{}`", setting.name);
            assert!(document.contains(&name), "{name} is not in docs/settings.md");
        }
    }

    #[test]
    fn thresholds_may_come_in_any_order() {
        let take = |texts: &[(&str, &str)]| {
            let mut given = Given::default();
            for (name, text) in texts {
                let setting = Setting::find(name).unwrap();
                let value = Value::Scalar((*text).to_owned());
                given.take((setting, (*name).to_owned()), &value, Origin::Set).unwrap();
            }
            given.resolve().map_err(|error| error.to_string())
        };
        let guardrails = take(&[
            ("batch_size_warn_threshold_in_kb", "100"),
            ("batch_size_fail_threshold", "200KiB"),
        ]);
        let guardrails = guardrails.unwrap();
        let setting = Setting::find("batch_size_warn_threshold").unwrap();
        assert_eq!(guardrails.show(setting).as_deref(), Some("100KiB"));
        let error = take(&[("batch_size_warn_threshold", "100KiB")]).unwrap_err();
        assert!(error.contains("batch_size_warn_threshold"), "{error}");
        let error = take(&[("page_size_warn_threshold", "much")]).unwrap_err();
        assert!(error.starts_with("--set: page_size_warn_threshold: much"), "{error}");
    }
}
