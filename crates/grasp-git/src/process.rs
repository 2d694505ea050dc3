//! The only place that starts git: which program, with which settings, environment and limits. What a
//! process is asked to do comes as typed values and paths of the layout; ids go over its input.

mod leftovers;
mod running;
mod version;

pub use leftovers::end_leftovers;
pub use running::{Exit, Running};
pub use version::Version;

use crate::advertise::Protocol;
use crate::disk_reserve::{DiskReserve, NoRoom};
use crate::gate::PackLimits;
use crate::gitconfig;
use crate::layout::Layout;
use crate::quarantine::PackLinks;
use running::Care;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setpriority_process};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

const GIB: u64 = 1 << 30;
/// Names the settings file to every git process; also what they are known by.
const SETTINGS_VARIABLE: &str = "GIT_CONFIG_GLOBAL";
/// Runs a program whose whole process group ends when the input of this script does, which is when the
/// server ends or is killed. For work that needs no input and would go on without a server.
const WITH_THE_SERVER: &str = "exec 3<&0 </dev/null; \
    { read -r line <&3; kill -KILL 0; } >/dev/null 2>&1 & exec \"$@\" 3<&-";
const ENVIRONMENT: [(&str, &str); 17] = [
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("XDG_CONFIG_HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS", "/bin/false"),
    ("GIT_SSH_COMMAND", "/bin/false"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ADVICE", "0"),
];
/// Fetches and pushes yield to the relay; maintenance yields to everyone.
const NICE: i32 = 5;
const NICE_TIDY: i32 = 15;
/// An idle client is left after this long, by upload-pack itself. Longer than any silence that the server
/// bears, or upload-pack would cut slow clients first.
const UPLOAD_IDLE_SECS_MAX: u64 = 35 * 60;
/// Faults of old histories that hurt nobody and that people cannot mend.
const STRICT: &str =
    "--strict=badTimezone=ignore,missingSpaceBeforeDate=ignore,zeroPaddedFilemode=ignore";
/// On top of the base, for every push that may be this large: source code is indexed at 8 MiB/s here.
const RECEIVE_BYTES_PER_CPU_SEC: u64 = 2 << 20;
/// Between telling a process that its time is up and ending it.
const CPU_GRACE_SECS: u64 = 5;
const VERSION_BYTES_MAX: u64 = 4 << 10;
const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// What one git process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitLimits {
    pub memory_bytes_max: u64,
    pub open_files_max: u64,
    /// The largest pack maintenance may write; what a push writes is bounded by its own limits.
    pub file_bytes_max: u64,
    pub serve_cpu_secs_max: u64,
    /// For a small push; a larger one gets more.
    pub receive_cpu_secs_max: u64,
    pub tidy_cpu_secs_max: u64,
    pub serve_deadline: Duration,
    pub tidy_deadline: Duration,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 4 * GIB,
            open_files_max: 256,
            file_bytes_max: 64 * GIB,
            serve_cpu_secs_max: 300,
            receive_cpu_secs_max: 120,
            tidy_cpu_secs_max: 3_600,
            serve_deadline: Duration::from_secs(60 * 60),
            tidy_deadline: Duration::from_secs(2 * 60 * 60),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("the path of git must be absolute, but is {}", .0.display())]
    Relative(PathBuf),
    #[error("{} did not say which git it is but {said:?}; set the path of a git program", path.display())]
    NotGit { path: PathBuf, said: String },
    #[error("git {0} is too old; install 2.39 or newer and set its path")]
    TooOld(Version),
    #[error("cannot write git's settings {}: {source}", path.display())]
    Settings { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NoRoom(NoRoom),
    #[error("cannot run git {what}: {source}")]
    Start { what: &'static str, source: io::Error },
    #[error("git {what} took longer than {secs} s and was ended")]
    Deadline { what: &'static str, secs: u64 },
    #[error("git {what} was ended before it was done")]
    Abandoned { what: &'static str },
    #[error("git {what} failed: {}", last_words(stderr, *code, *signal))]
    Failed { what: &'static str, code: Option<i32>, signal: Option<i32>, stderr: String },
}

/// Text of a child that may reach a person: one line, without control characters, this long.
const LAST_WORDS_LEN_MAX: usize = 200;

fn last_words(stderr: &str, code: Option<i32>, signal: Option<i32>) -> String {
    let line = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    match (line, code, signal) {
        (Some(line), _, _) => {
            line.chars().filter(|c| !c.is_control()).take(LAST_WORDS_LEN_MAX).collect()
        }
        (None, _, Some(signal)) => format!("ended by signal {signal}"),
        (None, code, None) => format!("exit code {}", code.unwrap_or_default()),
    }
}

#[derive(Debug, Clone)]
pub struct Git {
    program: Arc<Program>,
    disk: DiskReserve,
}

#[derive(Debug)]
struct Program {
    binary: PathBuf,
    version: Version,
    gitconfig: PathBuf,
    tmp: PathBuf,
    limits: GitLimits,
}

/// One process to be.
#[derive(Debug)]
struct Job {
    what: &'static str,
    args: Vec<OsString>,
    protocol: Protocol,
    /// It reads no input, and its group is killed when that ends.
    ends_with_input: bool,
    cpu_secs_max: u64,
    file_bytes_max: u64,
    nice: i32,
    deadline: Duration,
}

impl Git {
    /// Looks at the program once and writes the settings its processes will get.
    pub async fn find(binary: &Path, layout: &Layout, limits: GitLimits) -> Result<Self, GitError> {
        if !binary.is_absolute() {
            return Err(GitError::Relative(binary.to_owned()));
        }
        let mut program = Program {
            binary: binary.to_owned(),
            version: Version { major: 0, minor: 0, patch: 0 },
            gitconfig: layout.gitconfig(),
            tmp: layout.tmp(),
            limits,
        };
        let said = program.ask_version().await?;
        program.version = Version::parse(&said)
            .ok_or_else(|| GitError::NotGit { path: binary.to_owned(), said })?;
        if !program.version.is_supported() {
            return Err(GitError::TooOld(program.version));
        }
        let (for_file, version) = (layout.clone(), program.version);
        let written = tokio::task::spawn_blocking(move || gitconfig::write(&for_file, version));
        let written = written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|source| GitError::Settings { path: layout.gitconfig(), source })?;
        Ok(Self { program: Arc::new(program), disk: DiskReserve::unlimited() })
    }

    /// Its processes write only what this has room for.
    pub fn with_disk_reserve(self, disk: DiskReserve) -> Self {
        Self { disk, ..self }
    }

    pub fn disk(&self) -> &DiskReserve {
        &self.disk
    }

    pub fn version(&self) -> Version {
        self.program.version
    }

    /// What an operator should know about this git.
    pub fn warnings(&self) -> Vec<String> {
        self.program.version.warning().into_iter().collect()
    }

    /// Serves one request of a fetch: the request goes in, the answer comes out.
    pub fn upload_pack(&self, dir: &Path, protocol: Protocol) -> Result<Running, GitError> {
        let timeout = format!("--timeout={UPLOAD_IDLE_SECS_MAX}");
        let args = ["upload-pack", "--strict", &timeout, "--stateless-rpc"].map(OsString::from);
        let args = args.into_iter().chain([dir.into()]).collect();
        self.program.start(&Job { protocol, ..self.serve("upload-pack", args) })
    }

    /// Checks a pack and writes it to `pack`, which lies in the repository `dir`.
    pub(crate) fn index_pack(
        &self,
        dir: &Path,
        pack: &Path,
        limits: &PackLimits,
        links: PackLinks,
    ) -> Result<Running, GitError> {
        let max = format!("--max-input-size={}", limits.bytes_max);
        let args = ["index-pack", "--stdin", "--fix-thin", &max].map(OsString::from);
        let strict = (links == PackLinks::Checked).then(|| STRICT.into());
        let args = [git_dir(dir)].into_iter().chain(args).chain(strict).chain([pack.into()]);
        let args = args.collect();
        self.program.start(&Job {
            cpu_secs_max: self.program.limits.receive_cpu_secs_max
                + limits.bytes_max / RECEIVE_BYTES_PER_CPU_SEC,
            file_bytes_max: limits.file_bytes_max(),
            deadline: limits.deadline,
            ..self.serve("index-pack", args)
        })
    }

    /// Packs what the revisions on its input reach.
    pub(crate) fn pack_objects(&self, dir: &Path) -> Result<Running, GitError> {
        let args =
            ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "--quiet"];
        let args = [git_dir(dir)].into_iter().chain(args.map(OsString::from)).collect();
        self.program.start(&self.serve("pack-objects", args))
    }

    /// Names what the revisions on its input reach.
    pub(crate) fn rev_list(&self, dir: &Path) -> Result<Running, GitError> {
        let args = ["rev-list", "--objects", "--no-object-names", "--stdin"];
        let args = [git_dir(dir)].into_iter().chain(args.map(OsString::from)).collect();
        self.program.start(&self.serve("rev-list", args))
    }

    /// One step of maintenance, waited for.
    pub(crate) async fn tidy(
        &self,
        what: &'static str,
        dir: &Path,
        args: &[&str],
    ) -> Result<(), GitError> {
        let args = [git_dir(dir)].into_iter().chain(args.iter().map(OsString::from)).collect();
        let limits = &self.program.limits;
        let job = Job {
            ends_with_input: true,
            cpu_secs_max: limits.tidy_cpu_secs_max,
            nice: NICE_TIDY,
            deadline: limits.tidy_deadline,
            ..self.serve(what, args)
        };
        self.program.start(&job)?.finish_with_input().await
    }

    fn serve(&self, what: &'static str, args: Vec<OsString>) -> Job {
        let limits = &self.program.limits;
        Job {
            what,
            args,
            protocol: Protocol::V0,
            ends_with_input: false,
            cpu_secs_max: limits.serve_cpu_secs_max,
            file_bytes_max: limits.file_bytes_max,
            nice: NICE,
            deadline: limits.serve_deadline,
        }
    }
}

fn git_dir(dir: &Path) -> OsString {
    let mut arg = OsString::from("--git-dir=");
    arg.push(dir);
    arg
}

impl Program {
    async fn ask_version(&self) -> Result<String, GitError> {
        let what = "version";
        let failed = |source| GitError::Start { what, source };
        let running = self.start(&Job {
            what,
            args: vec![what.into()],
            protocol: Protocol::V0,
            ends_with_input: false,
            cpu_secs_max: self.limits.serve_cpu_secs_max,
            file_bytes_max: self.limits.file_bytes_max,
            nice: NICE,
            deadline: VERSION_DEADLINE,
        })?;
        let mut said = Vec::new();
        let mut stdout = running.stdout.take(VERSION_BYTES_MAX);
        stdout.read_to_end(&mut said).await.map_err(failed)?;
        running.exit.finish().await?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn start(&self, job: &Job) -> Result<Running, GitError> {
        let what = job.what;
        let failed = |source| GitError::Start { what, source };
        let mut child = self.command(job).spawn().map_err(failed)?;
        self.limit(&child, job).map_err(failed)?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(failed(io::Error::other("its streams are missing")));
        };
        let exit = Care { what, deadline: job.deadline }.begin(child, stderr);
        Ok(Running { stdin, stdout, exit })
    }

    fn command(&self, job: &Job) -> Command {
        let mut command = if job.ends_with_input {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", WITH_THE_SERVER, "sh"]).arg(&self.binary);
            shell
        } else {
            Command::new(&self.binary)
        };
        command.args(&job.args).env_clear().envs(ENVIRONMENT);
        command.env(SETTINGS_VARIABLE, &self.gitconfig).env("TMPDIR", &self.tmp);
        match job.protocol {
            Protocol::V0 => {}
            Protocol::V1 => drop(command.env("GIT_PROTOCOL", "version=1")),
            Protocol::V2 => drop(command.env("GIT_PROTOCOL", "version=2")),
        }
        command.current_dir(OsStr::new("/")).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Set from outside, before anything is sent to the child: a hook between fork and exec would make
    /// starting a process as slow as this server is large, and a wrapper program costs another start.
    fn limit(&self, child: &Child, job: &Job) -> io::Result<()> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(id) = id else { return Ok(()) };
        for (resource, max, grace) in [
            (Resource::Core, 0, 0),
            (Resource::Nofile, self.limits.open_files_max, 0),
            (Resource::As, self.limits.memory_bytes_max, 0),
            (Resource::Cpu, job.cpu_secs_max, CPU_GRACE_SECS),
            (Resource::Fsize, job.file_bytes_max, 0),
        ] {
            // What this server may not exceed itself cannot be granted to a child.
            let own = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let (current, maximum) = (own.min(max), own.min(max.saturating_add(grace)));
            let bounds = Rlimit { current: Some(current), maximum: Some(maximum) };
            prlimit(Some(id), resource, bounds)?;
        }
        // A courtesy: refused if this server is nicer still.
        let _ = setpriority_process(Some(id), job.nice);
        Ok(())
    }
}
