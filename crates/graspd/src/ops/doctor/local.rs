//! What can be found out on this machine. Nothing is changed: what has to be tried is tried with files
//! that are gone afterwards, and only in directories that are ours already.

use super::facts::{DataRoot, Disk, Files, KeyFile, Lock, Trouble};
use crate::config::{Backend, Config};
use crate::datadir::{KEY, LOCK, MARKER, Root};
use crate::ops::client::Client;
use crate::ops::source::{Place, Source};
use crate::report::{ProblemReport, Status};
use grasp_git::{Git, GitLimits, Layout};
use rustix::fs::{Access, FlockOperation, access, flock, statvfs};
use rustix::process::{Resource, getrlimit};
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What this machine shows.
#[derive(Debug)]
pub(super) struct Here {
    pub(super) git: Result<(String, Option<String>), String>,
    pub(super) roots: Vec<DataRoot>,
    pub(super) disks: Vec<Disk>,
    pub(super) lock: Lock,
    pub(super) key_file: Option<KeyFile>,
    pub(super) files: Files,
    pub(super) store: Option<(u64, u64)>,
    pub(super) problems: Vec<ProblemReport>,
    /// The operator chose a public name.
    pub(super) is_named: bool,
    /// Whoever can be asked about the data.
    pub(super) source: Option<Source>,
}

/// What the event store should have left besides.
const RELAY_FREE_BYTES: u64 = 256 << 20;
/// In front of something nobody can guess.
const PROBE: &str = ".graspd-doctor-";

pub(super) async fn gather(config: &Config) -> Here {
    let roots = match config.backend {
        Backend::Memory => Vec::new(),
        Backend::Lmdb => vec![
            data_root(&config.relay_data_path, "NGIT_RELAY_DATA_PATH", Root::Events),
            data_root(&config.git_data_path, "NGIT_GIT_DATA_PATH", Root::Git),
        ],
    };
    let client = Client::find(&config.relay_data_path).await.ok().flatten();
    let lock = lock(&config.relay_data_path, client.is_some());
    let pid = match &client {
        Some(client) => client.pid().await,
        None => None,
    };
    let is_ours = roots.iter().all(|root| root.trouble.is_none() && !root.is_new);
    let source = match (client, &lock) {
        (Some(client), _) => Some(Source::Running(client)),
        (None, Lock::Free) if is_ours => Source::open(config).await.ok(),
        _ => None,
    };
    let status = match &source {
        Some(source) => source.ask::<Status>(&Place::Status).await.ok().flatten(),
        None => None,
    };
    Here {
        git: git(config).await,
        disks: disks(config),
        lock,
        key_file: key_file(&config.relay_data_path.join(KEY)),
        files: files(pid),
        store: status.as_ref().map(|it| (it.server.disk_used_bytes, it.server.disk_budget_bytes)),
        problems: status.map(|it| it.problem_details).unwrap_or_default(),
        is_named: is_named(config),
        roots,
        source,
    }
}

/// Without a name the server goes by the address it listens on.
fn is_named(config: &Config) -> bool {
    let mut bind = config.bind_address;
    if bind.ip().is_unspecified() {
        bind.set_ip(match bind.is_ipv6() {
            true => std::net::Ipv6Addr::LOCALHOST.into(),
            false => std::net::Ipv4Addr::LOCALHOST.into(),
        });
    }
    config.service.authority().to_string() != bind.to_string()
}

/// In a place of its own, so that the server's settings for git stay as they are.
async fn git(config: &Config) -> Result<(String, Option<String>), String> {
    let path = std::env::var_os("PATH");
    let program = config.git.program(path.as_deref(), |program| program.is_file());
    let program = program.ok_or("git is not installed")?;
    let place = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let layout = Layout::new(place.path().to_owned());
    layout.prepare().map_err(|error| error.to_string())?;
    let found = Git::find(&program, &layout, GitLimits::default()).await;
    let found = found.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok((found.version().to_string(), found.warnings().into_iter().next()))
}

fn data_root(path: &Path, setting: &'static str, root: Root) -> DataRoot {
    let (trouble, is_new) = match fs::metadata(path) {
        Ok(it) if !it.is_dir() => (Some(Trouble::NotADirectory), false),
        Ok(_) => inside(path, root),
        Err(error) if error.kind() == ErrorKind::NotFound => (not_makable(path), true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            (Some(Trouble::NotADirectory), false)
        }
        Err(error) => (Some(Trouble::Unreadable(error.to_string())), false),
    };
    DataRoot { path: path.to_owned(), setting, trouble, is_new }
}

/// Can it be made where it should be?
fn not_makable(path: &Path) -> Option<Trouble> {
    let parent = standing(path);
    if !parent.is_dir() {
        return Some(Trouble::NotADirectory);
    }
    let may = access(&parent, Access::WRITE_OK | Access::EXEC_OK);
    may.is_err().then_some(Trouble::NotWritable(parent))
}

/// The part of a path that is there already.
fn standing(path: &Path) -> PathBuf {
    let there = path.ancestors().find(|part| !part.as_os_str().is_empty() && part.exists());
    there.unwrap_or(Path::new(".")).to_owned()
}

/// What is wrong with a directory that is there, and whether a first start is still to come.
fn inside(path: &Path, root: Root) -> (Option<Trouble>, bool) {
    match fs::read_to_string(path.join(MARKER)) {
        Ok(found) if found == root.marker() => (untrustworthy(path), false),
        Ok(found) => (Some(Trouble::Foreign(format!("`{}`", found.trim()))), false),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            (Some(Trouble::Unreadable(error.to_string())), false)
        }
        Err(_) => match crate::datadir::stranger_in(path) {
            Err(error) => (Some(Trouble::Unreadable(error.to_string())), false),
            Ok(Some(name)) => (Some(Trouble::Foreign(format!("`{name}`"))), false),
            Ok(None) => {
                let may = access(path, Access::WRITE_OK | Access::EXEC_OK);
                (may.is_err().then(|| Trouble::NotWritable(path.to_owned())), true)
            }
        },
    }
}

/// Writes, looks for the same name in capitals, and moves it.
fn untrustworthy(path: &Path) -> Option<Trouble> {
    if let Some(elsewhere) = mounted_inside(path) {
        return Some(Trouble::TwoFilesystems(elsewhere));
    }
    match is_blind_to_case(path) {
        Ok(true) => Some(Trouble::CaseInsensitive),
        Ok(false) => None,
        Err(_) => Some(Trouble::NotWritable(path.to_owned())),
    }
}

/// The file is new and for us alone, so nothing that lies there already is written to.
fn is_blind_to_case(root: &Path) -> std::io::Result<bool> {
    let mut probe = tempfile::Builder::new().prefix(PROBE).tempfile_in(root)?;
    probe.write_all(b"x")?;
    let name = probe.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_blind = root.join(name.to_uppercase()).exists();
    let moved = root.join(format!("{name}-moved"));
    fs::rename(probe.path(), &moved)?;
    fs::remove_file(&moved)?;
    Ok(is_blind)
}

/// Of the server, if it runs: the shell that asks is often allowed something else.
fn files(server: Option<i32>) -> Files {
    let limits = server.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/limits")).ok());
    match limits.as_deref().and_then(open_files) {
        Some(max) => Files { max, of_server: true },
        None => Files { max: getrlimit(Resource::Nofile).maximum, of_server: false },
    }
}

/// What a process may have open, as `/proc` tells it: the softer of two limits.
fn open_files(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// A directory of ours that is on another filesystem than the rest.
fn mounted_inside(path: &Path) -> Option<PathBuf> {
    let device = fs::metadata(path).ok()?.dev();
    let entries = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
    let mut directories = entries.filter(|entry| entry.is_dir());
    directories.find(|entry| fs::metadata(entry).is_ok_and(|it| it.dev() != device))
}

fn disks(config: &Config) -> Vec<Disk> {
    if config.backend == Backend::Memory {
        return Vec::new();
    }
    let (git_min, setting) = (config.git.free_bytes_min, Some("NGIT_GIT_MIN_FREE_BYTES"));
    let roots = [
        (&config.relay_data_path, RELAY_FREE_BYTES, None),
        (&config.git_data_path, git_min, setting),
    ];
    let disk = |(path, needed_bytes, setting): (&PathBuf, u64, Option<&'static str>)| {
        let it = statvfs(standing(path)).ok()?;
        let free_bytes = it.f_bavail.saturating_mul(it.f_frsize);
        Some(Disk { path: path.clone(), free_bytes, needed_bytes, setting })
    };
    roots.into_iter().filter_map(disk).collect()
}

fn lock(root: &Path, is_answered: bool) -> Lock {
    if is_answered {
        return Lock::Running;
    }
    let path = root.join(LOCK);
    let Ok(file) = File::open(&path) else { return Lock::Free };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Lock::Free,
        Err(_) => Lock::Held(path),
    }
}

fn key_file(path: &Path) -> Option<KeyFile> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    Some(KeyFile { path: path.to_owned(), mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_may_open_is_read_from_its_limits() {
        let limits = "Limit          Soft Limit  Hard Limit  Units\n\
                      Max processes  7           8           processes\n\
                      Max open files 1024        524288      files\n";
        assert_eq!(open_files(limits), Some(Some(1_024)));
        assert_eq!(open_files("Max open files  unlimited  unlimited  files"), Some(None));
        assert_eq!(open_files("Max processes 7 8 processes"), None);
        assert_eq!(open_files("Max open files many"), None);
        assert!(files(i32::try_from(std::process::id()).ok()).of_server);
        assert!(!files(None).of_server);
    }

    #[test]
    fn a_directory_is_tried_without_touching_what_lies_there() {
        let place = tempfile::tempdir().unwrap();
        let (root, kept) = (place.path().join("root"), place.path().join("kept"));
        fs::create_dir(&root).unwrap();
        fs::write(&kept, "as it was").unwrap();
        std::os::unix::fs::symlink(&kept, root.join(".graspd-doctor")).unwrap();
        std::os::unix::fs::symlink(&kept, root.join(PROBE)).unwrap();
        assert!(untrustworthy(&root).is_none());
        assert_eq!(fs::read_to_string(&kept).unwrap(), "as it was");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 2, "nothing is left behind");
    }
}
