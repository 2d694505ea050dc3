//! What the control group of this process uses, its git children included. Only where the kernel tells
//! (version 2 of control groups); elsewhere there are no such figures rather than wrong ones.

use super::add;
use prometheus::{Counter, IntGauge, Registry, Result};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct CgroupMetrics {
    directory: PathBuf,
    cpu: Counter,
    memory: IntGauge,
}

const MOUNT: &str = "/sys/fs/cgroup";

impl CgroupMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Option<Self>> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let directory = path(&groups).map(|path| Path::new(MOUNT).join(path));
        directory.map_or(Ok(None), |it| Self::of(it, registry))
    }

    fn of(directory: PathBuf, registry: &Registry) -> Result<Option<Self>> {
        if cpu_secs(&directory).is_none() || memory_bytes(&directory).is_none() {
            return Ok(None);
        }
        let cpu = Counter::new(
            "ngit_cgroup_cpu_seconds_total",
            "Processor time of the control group, git included.",
        )?;
        let memory = IntGauge::new(
            "ngit_cgroup_memory_current_bytes",
            "Memory of the control group, git and file cache included.",
        )?;
        Ok(Some(Self { directory, cpu: add(registry, cpu)?, memory: add(registry, memory)? }))
    }

    pub(super) fn look(&self) {
        if let Some(secs) = cpu_secs(&self.directory) {
            self.cpu.inc_by((secs - self.cpu.get()).max(0.0));
        }
        if let Some(bytes) = memory_bytes(&self.directory) {
            self.memory.set(bytes);
        }
    }
}

/// Where we are, below the mount.
fn path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::/"))
}

fn cpu_secs(directory: &Path) -> Option<f64> {
    let stat = fs::read_to_string(directory.join("cpu.stat")).ok()?;
    let micros = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(micros.trim().parse::<f64>().ok()? / 1e6)
}

fn memory_bytes(directory: &Path) -> Option<i64> {
    fs::read_to_string(directory.join("memory.current")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_is_measured_where_the_kernel_tells() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::new();
        let tells = |cpu: u64, memory: u64| {
            let stat = format!("usage_usec {cpu}\nuser_usec 1\n");
            fs::write(directory.path().join("cpu.stat"), stat).unwrap();
            fs::write(directory.path().join("memory.current"), format!("{memory}\n")).unwrap();
        };
        let of = || CgroupMetrics::of(directory.path().to_owned(), &registry).unwrap();
        assert!(of().is_none() && registry.gather().is_empty(), "it tells nothing");
        tells(1_500_000, 4_096);
        let metrics = of().unwrap();
        metrics.look();
        assert_eq!((metrics.cpu.get(), metrics.memory.get()), (1.5, 4_096));
        tells(2_000_000, 1_024);
        metrics.look();
        assert_eq!((metrics.cpu.get(), metrics.memory.get()), (2.0, 1_024));
    }

    #[test]
    fn our_group_is_found_among_those_of_either_version() {
        assert_eq!(path("0::/\n"), Some(""));
        assert_eq!(
            path("2:cpu:/x\n0::/system.slice/graspd.service\n"),
            Some("system.slice/graspd.service")
        );
        assert_eq!(path("2:cpu:/x\n"), None);
    }
}
