//! Reports the memory that the process may use, and the memory that it uses.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the number of bytes of memory that the process may use: the machine's memory, or less if
/// a control group limits it.
pub fn total_bytes() -> u64 {
    let machine = machine_bytes();
    control_group_limit().map_or(machine, |limit| limit.min(machine))
}

/// Returns the bytes of memory of the machine.
pub fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // The types of the fields differ between platforms.
    #[allow(clippy::useless_conversion)]
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// Returns the bytes of memory that the process holds in RAM; 0 if the kernel does not report it.
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}

/// Returns the smallest memory limit, in bytes, of the control groups around the process; `None` if
/// there is no limit.
pub fn control_group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_below(Path::new("/sys/fs/cgroup"), &groups)
}

/// Returns the smallest limit below `mount`. `groups` is the content of `/proc/self/cgroup`: lines
/// of `number:controllers:path`, where version 2 has the number 0 and no controllers. Inside of a
/// container the path may not exist below the mount; the mount's root is then the container's own
/// group.
fn limit_below(mount: &Path, groups: &str) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, file) = if controllers.is_empty() {
            (mount.to_owned(), "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (mount.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        // A limit of any ancestor holds for the process too.
        let group: PathBuf = root.join(path.trim_start_matches('/'));
        let within = group.ancestors().take_while(|ancestor| ancestor.starts_with(&root));
        limits.extend(within.filter_map(|group| read_limit(&group.join(file))));
    }
    limits.into_iter().min()
}

/// Reads a limit. "max", and the huge number that version 1 gives for "no limit", count as no
/// limit.
fn read_limit(file: &Path) -> Option<u64> {
    const NO_LIMIT: u64 = 1 << 60;
    let limit: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (limit < NO_LIMIT).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_less_than_the_total() {
        let (resident, total) = (resident_bytes(), total_bytes());
        assert!(resident > 100_000, "{resident}");
        assert!(resident < total && total <= machine_bytes());
    }

    #[test]
    fn the_smallest_cgroup_limit_of_all_ancestors_counts() {
        let mount = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = mount.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("system/espalier/memory.max", "max\n");
        write("system/memory.max", "1000000\n");
        write("memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "2000000\n");
        let limit = |groups: &str| limit_below(mount.path(), groups);
        assert_eq!(limit("0::/system/espalier\n"), Some(1_000_000));
        assert_eq!(limit("0::/elsewhere\n"), None);
        assert_eq!(limit("5:cpu,memory:/docker\n3:cpuset:/docker\n"), Some(2_000_000));
        assert_eq!(limit("5:memory:/docker\n0::/system\n"), Some(1_000_000));
        assert_eq!(limit("nonsense"), None);
    }
}
