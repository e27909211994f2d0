//! On what it was measured.

use espalier_runtime::{cpu, driver_notice, memory};
use serde_json::{Value, json};

/// The machine and the build.
#[derive(Clone, Debug)]
pub struct Machine {
    /// As the processor calls itself.
    pub processor: String,
    /// Which of them this process may use.
    pub cpus: Vec<usize>,
    /// That there is, or that a control group allows.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// What is slower here than elsewhere, as the runtime tells it.
    pub notice: Option<String>,
    /// Seconds since 1970.
    pub time_s: i64,
}

impl Machine {
    /// This one, now.
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

    /// As a member of a report.
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

    /// In words.
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

/// How the program was built.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// The build as a member of a report.
pub fn program_json() -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION"), "build": build() })
}
