//! Git processes that a killed server left behind. They are known by the settings file that only
//! children of this data directory have in their environment, also after another process took them
//! over. A container may have the same path, so only processes with our root directory count.

use super::SETTINGS_VARIABLE;
use crate::layout::Layout;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A killed process is gone at once unless the disk holds it up.
const GONE_AFTER_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Ends what an earlier server started on this data and returns how many processes that were. Blocking;
/// only for a server that has claimed the data, before it starts git itself.
pub fn end_leftovers(layout: &Layout) -> usize {
    let settings = layout.gitconfig();
    let mark = [SETTINGS_VARIABLE.as_bytes(), b"=", settings.as_os_str().as_bytes()].concat();
    let until = Instant::now() + GONE_AFTER_MAX;
    let mut ended = 0;
    // A process may start another one before its end, so it is looked again until there is none.
    loop {
        let found = kill_marked(&mark);
        if found == 0 || Instant::now() >= until {
            return ended;
        }
        ended = ended.max(found);
        sleep(LOOK_EVERY);
    }
}

fn kill_marked(mark: &[u8]) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let ids = processes.flatten().filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(Pid::from_raw).filter(|id| kill_if_marked(*id, mark)).count()
}

/// The process is held by a descriptor before it is looked at, so no stranger that gets its number
/// afterwards is killed.
fn kill_if_marked(id: Pid, mark: &[u8]) -> bool {
    let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return false };
    let known_as = Path::new("/proc").join(id.as_raw_nonzero().to_string());
    if !has_our_root(&known_as) {
        return false;
    }
    let environment = known_as.join("environ");
    // Empty once it is dead, unreadable if it belongs to another user.
    let Ok(environment) = fs::read(environment) else { return false };
    let is_ours = environment.split(|byte| *byte == 0).any(|variable| variable == mark);
    is_ours && pidfd_send_signal(process, Signal::KILL).is_ok()
}

/// Unknown if it belongs to another user.
fn has_our_root(process: &Path) -> bool {
    let place = |root: &Path| fs::metadata(root).map(|it| (it.dev(), it.ino())).ok();
    let root = place(&process.join("root"));
    root.is_some() && root == place(Path::new("/"))
}
