//! The text format of Prometheus (version 0.0.4).

use std::fmt::Write;

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric's name.
    pub name: &'static str,
    /// A sentence about it.
    pub help: &'static str,
    /// What the number means.
    pub kind: Kind,
    /// Labels with their values, as they stand between braces.
    pub labels: String,
    /// The number.
    pub value: f64,
}

/// The text of all samples, those of one metric together as the format demands.
pub fn render(mut samples: Vec<Sample>) -> String {
    samples.sort_by_key(|sample| sample.name);
    let mut text = String::with_capacity(samples.len() * 80);
    let mut last = "";
    for sample in &samples {
        if sample.name != last {
            let kind = match sample.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            let (name, help) = (sample.name, sample.help);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            last = name;
        }
        let (name, labels, value) = (sample.name, &sample.labels, sample.value);
        let _ = match labels.is_empty() {
            true => writeln!(text, "{name} {value}"),
            false => writeln!(text, "{name}{{{labels}}} {value}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_metric_stand_together() {
        let sample = |name, labels: &str, value| Sample {
            name,
            help: "Help.",
            kind: Kind::Counter,
            labels: labels.to_owned(),
            value,
        };
        let samples = vec![
            sample("b", "shard=\"0\"", 1.0),
            sample("a", "", 2.5),
            sample("b", "shard=\"1\"", 3.0),
        ];
        let expected = "\
# HELP a Help.
# TYPE a counter
a 2.5
# HELP b Help.
# TYPE b counter
b{shard=\"0\"} 1
b{shard=\"1\"} 3
";
        assert_eq!(render(samples), expected);
    }
}
