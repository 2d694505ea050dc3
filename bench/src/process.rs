//! What Linux tells about a process: its own memory, its threads' time, its descriptors.

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Memory that belongs to the process alone: the mapped store is the page cache's, not ours.
pub(crate) fn anonymous_mb(pid: u32) -> Result<f64> {
    status_mb(pid, "RssAnon:")
}

/// All of its pages that are in memory, mapped files included.
pub(crate) fn resident_mb(pid: u32) -> Result<f64> {
    status_mb(pid, "VmRSS:")
}

/// The most that was ever resident, since [`forget_peak`].
pub(crate) fn peak_mb(pid: u32) -> Result<f64> {
    status_mb(pid, "VmHWM:")
}

pub(crate) fn forget_peak(pid: u32) -> Result<()> {
    // proc(5): 5 resets the peak resident set size.
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("the kernel keeps its peak")
}

fn status_mb(pid: u32, field: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|n| n.parse().ok());
    let kib: f64 = kib.with_context(|| format!("this kernel does not tell {field}"))?;
    Ok(kib * 1024.0 / 1_000_000.0)
}

/// How many wanted a core lately: over 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    let line = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    line.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// `/proc` counts time in these, on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time so far, by thread name without its number.
pub(crate) fn thread_times(pid: u32) -> Result<BTreeMap<String, Duration>> {
    let mut times = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end while we look.
        let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else { continue };
        if let Some((name, ticks)) = name_and_ticks(&stat) {
            *times.entry(name).or_insert(Duration::ZERO) += TICK * ticks;
        }
    }
    Ok(times)
}

/// Processor time of this thread so far: what others did to the machine is not in it.
pub(crate) fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Processor time of a process and of all the children it has waited for.
pub(crate) fn family_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, tail) = stat.rsplit_once(')').context("a process has a name")?;
    // Fields 14 to 17 of the line: its own user and system time, and its children's.
    let ticks = tail.split_whitespace().skip(11).take(4).map(str::parse::<u32>);
    Ok(TICK * ticks.sum::<Result<u32, _>>()?)
}

/// Processor time of the whole machine so far: busy, and all there was.
pub(crate) fn machine_times() -> Result<(Duration, Duration)> {
    let stat = fs::read_to_string("/proc/stat")?;
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let ticks: Vec<u32> = fields.map(str::parse).collect::<Result<_, _>>()?;
    let all: u32 = ticks.iter().sum();
    // Idle, and idle while the disk works.
    let idle: u32 = ticks.iter().skip(3).take(2).sum();
    Ok((TICK * (all - idle), TICK * all))
}

fn name_and_ticks(stat: &str) -> Option<(String, u32)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    // Fields 14 and 15 of the line: user and system time.
    let mut fields = tail.split_whitespace().skip(11).map_while(|field| field.parse::<u32>().ok());
    Some((name.to_owned(), fields.next()? + fields.next()?))
}

/// Raises the limit on open files as far as this process may; children inherit it.
pub(crate) fn raise_descriptors() -> Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(limit.maximum.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX))
}

/// Waits until whoever started this process hangs up or ends.
pub(crate) async fn input_ended() -> Result<()> {
    let read = || std::io::stdin().read_line(&mut String::new());
    tokio::task::spawn_blocking(read).await??;
    Ok(())
}

/// Processor, cores and kernel, in one line.
pub(crate) fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, {} cores, Linux {}", model.trim(), cores(), kernel.trim())
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_its_name_even_with_brackets_in_it() {
        let stat = "7 (verify-12) S 1 7 7 0 -1 4 5 0 0 0 30 12 0 0 20 0 9 0 1 2 3";
        assert_eq!(name_and_ticks(stat), Some(("verify".into(), 42)));
        let odd = "7 (a) b) S 1 7 7 0 -1 4 5 0 0 0 1 1 0 0";
        assert_eq!(name_and_ticks(odd), Some(("a) b".into(), 2)));
    }

    #[test]
    fn this_process_has_memory_and_threads() {
        let pid = std::process::id();
        let (anonymous, resident) = (anonymous_mb(pid).unwrap(), resident_mb(pid).unwrap());
        assert!(anonymous > 0.0 && resident > anonymous && peak_mb(pid).unwrap() >= anonymous);
        assert!(!thread_times(std::process::id()).unwrap().is_empty());
    }

    #[test]
    fn what_was_needed_for_a_moment_is_remembered_until_told_otherwise() {
        let pid = std::process::id();
        let before = peak_mb(pid).unwrap();
        drop(std::hint::black_box(vec![1_u8; 100_000_000]));
        assert!(peak_mb(pid).unwrap() > before + 50.0);
        forget_peak(pid).unwrap();
        assert!(peak_mb(pid).unwrap() < before + 50.0);
    }
}
