//! Collects the samples of one shard.

use super::{Kind, Sample};

/// Appends samples that have the label of one shard.
pub(crate) struct ShardSamples<'s> {
    shard: usize,
    samples: &'s mut Vec<Sample>,
}

impl<'s> ShardSamples<'s> {
    /// Creates a collector that appends samples of shard `shard` to `samples`.
    pub fn new(shard: usize, samples: &'s mut Vec<Sample>) -> Self {
        Self { shard, samples }
    }

    /// Appends a number that only grows.
    pub fn counter(&mut self, name: &'static str, value: u64, help: &'static str) {
        self.push(name, Kind::Counter, value, help);
    }

    /// Appends a number that goes up and down.
    pub fn gauge(&mut self, name: &'static str, value: u64, help: &'static str) {
        self.push(name, Kind::Gauge, value, help);
    }

    /// Appends a counter that has the label `kind` too.
    pub fn counter_of_kind(
        &mut self,
        name: &'static str,
        kind: &str,
        value: u64,
        help: &'static str,
    ) {
        let labels = format!("shard=\"{}\",kind=\"{kind}\"", self.shard);
        let (kind, value) = (Kind::Counter, value as f64);
        self.samples.push(Sample { name, suffix: "", help, kind, labels, value });
    }

    fn push(&mut self, name: &'static str, kind: Kind, value: u64, help: &'static str) {
        let labels = format!("shard=\"{}\"", self.shard);
        self.samples.push(Sample { name, suffix: "", help, kind, labels, value: value as f64 });
    }
}
