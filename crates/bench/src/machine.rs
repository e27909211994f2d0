//! Describes the machine and the build of a measurement.

use espalier_runtime::{cpu, driver_notice, memory};
use serde_json::{Value, json};

/// The machine of a measurement.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The processor's name for itself.
    pub processor: String,
    /// The processors that this process may use.
    pub cpus: Vec<usize>,
    /// The machine's memory, or the part of it that a control group allows.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The runtime's notice about anything that is slower here than elsewhere.
    pub notice: Option<String>,
    /// Seconds since 1970.
    pub time_s: i64,
}

impl Machine {
    /// Describes this machine.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu_info = read("/proc/cpuinfo");
        let model = cpu_info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim());
        Self {
            processor: model.unwrap_or("unknown processor").to_owned(),
            cpus: cpu::allowed_cpus(),
            memory_bytes: memory::total_bytes(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            notice: driver_notice().map(str::to_owned),
            time_s: espalier_runtime::time::now_seconds(),
        }
    }

    /// Returns the description as a member of a JSON report.
    pub fn json(&self) -> Value {
        json!({
            "processor": self.processor,
            "cpus": self.cpus,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "notice": self.notice,
            "time_s": self.time_s,
        })
    }

    /// Returns the description as one line of text.
    pub fn line(&self) -> String {
        let of = if self.cpus.len() == 1 { "processor" } else { "processors" };
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        format!(
            "{} {of} ({}), {gib:.0} GiB, Linux {}",
            self.cpus.len(),
            self.processor,
            self.kernel
        )
    }
}

/// Returns the kind of build of this program.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Returns the build as a member of a JSON report.
pub fn program_json() -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION"), "build": build() })
}
