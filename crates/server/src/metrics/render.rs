//! Renders the text format of Prometheus (version 0.0.4).

use std::fmt::Write;

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The number only grows.
    Counter,
    /// The number goes up and down.
    Gauge,
    /// The numbers are counts by size: cumulative buckets, the sum, the count.
    Histogram,
}

/// One number of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric's name.
    pub name: &'static str,
    /// Suffix of the name: in a histogram, the role of this number.
    pub suffix: &'static str,
    /// The help text, one sentence.
    pub help: &'static str,
    /// The kind of the metric.
    pub kind: Kind,
    /// Labels with their values, as they are written between braces.
    pub labels: String,
    /// The number.
    pub value: f64,
}

/// Returns the text of all samples. The samples of one metric are together, as the format demands,
/// in the order in which they were given.
pub fn render(mut samples: Vec<Sample>) -> String {
    samples.sort_by_key(|sample| sample.name);
    let mut text = String::with_capacity(samples.len() * 80);
    let mut last = "";
    for sample in &samples {
        if sample.name != last {
            let kind = match sample.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let (name, help) = (sample.name, sample.help);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            last = name;
        }
        let Sample { name, suffix, labels, value, .. } = sample;
        let _ = if labels.is_empty() {
            writeln!(text, "{name}{suffix} {value}")
        } else {
            writeln!(text, "{name}{suffix}{{{labels}}} {value}")
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
            suffix: "",
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

    #[test]
    fn the_numbers_of_a_histogram_are_one_metric() {
        let sample = |suffix, labels: &str, value| Sample {
            name: "h",
            suffix,
            help: "Help.",
            kind: Kind::Histogram,
            labels: labels.to_owned(),
            value,
        };
        let samples = vec![
            sample("_bucket", "le=\"1\"", 1.0),
            sample("_bucket", "le=\"+Inf\"", 2.0),
            sample("_sum", "", 7.25),
            sample("_count", "", 2.0),
        ];
        let expected = "\
# HELP h Help.
# TYPE h histogram
h_bucket{le=\"1\"} 1
h_bucket{le=\"+Inf\"} 2
h_sum 7.25
h_count 2
";
        assert_eq!(render(samples), expected);
    }
}
