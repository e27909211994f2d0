//! Metrics of the scheduling groups of one shard.

use espalier_runtime::scheduling::group_reports;

use super::{Kind, Sample};

/// Appends the samples of the groups of the calling shard.
pub(crate) fn samples(shard: usize, samples: &mut Vec<Sample>) {
    for report in group_reports() {
        let labels = format!("shard=\"{shard}\",group=\"{}\"", report.group.name());
        let mut push = |name, help, kind, value: u64| {
            let (labels, value) = (labels.clone(), value as f64);
            samples.push(Sample { name, suffix: "", help, kind, labels, value });
        };
        push(
            "scylla_scheduler_runtime_ms",
            "Time for which tasks of the scheduling group held the core, in milliseconds.",
            Kind::Counter,
            report.run_us / 1000,
        );
        push(
            "scylla_scheduler_tasks_processed",
            "Task polls of the scheduling group.",
            Kind::Counter,
            report.polls,
        );
        push(
            "scylla_scheduler_shares",
            "Shares of the core that the scheduling group has; statements have 1000.",
            Kind::Gauge,
            u64::from(report.shares),
        );
        push(
            "espalier_scheduler_longest_task_us",
            "The longest time that a task of the scheduling group held the core, in microseconds.",
            Kind::Gauge,
            report.longest_us,
        );
    }
}
