//! What was found, before anybody has an opinion about it.

use super::local::Here;
use super::outside::Outside;
use crate::config::Config;
use crate::report::ProblemReport;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Facts {
    /// What the configuration itself wants an operator to know.
    pub notes: Vec<String>,
    /// The version, and a sentence about it where there is one to say.
    pub git: Result<(String, Option<String>), String>,
    pub roots: Vec<DataRoot>,
    pub disks: Vec<Disk>,
    pub lock: Lock,
    pub key: Option<KeyFile>,
    pub files: Files,
    /// Used bytes and the budget, where the store could be asked.
    pub store: Option<(u64, u64)>,
    pub proxy: Proxy,
    pub public: Public,
    pub clocks: Vec<Clock>,
    /// As the server lists them, or its data.
    pub problems: Vec<ProblemReport>,
}

/// One of the two data directories.
#[derive(Debug, Clone)]
pub struct DataRoot {
    pub path: PathBuf,
    /// The setting that names it.
    pub setting: &'static str,
    pub trouble: Option<Trouble>,
    /// Not there yet; the first start makes it.
    pub is_new: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    NotADirectory,
    /// It, or the directory it would be made in.
    NotWritable(PathBuf),
    /// It holds something else, as far as can be told.
    Foreign(String),
    /// `A` and `a` are one name there.
    CaseInsensitive,
    /// What is written here cannot be moved to its place in one step.
    TwoFilesystems(PathBuf),
    Unreadable(String),
}

#[derive(Debug, Clone)]
pub struct Disk {
    pub path: PathBuf,
    pub free_bytes: u64,
    pub needed_bytes: u64,
    /// The setting that says how much is needed, if one does.
    pub setting: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lock {
    /// Nobody uses the data.
    Free,
    /// A server that answers.
    Running,
    /// Somebody who does not.
    Held(PathBuf),
}

#[derive(Debug, Clone)]
pub struct KeyFile {
    pub path: PathBuf,
    pub mode: u32,
}

/// How many files and sockets may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files {
    /// `None` for any number.
    pub max: Option<u64>,
    /// What the running server may, and not only whoever asks.
    pub of_server: bool,
}

/// Who stands between the public and the port.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub bind: SocketAddr,
    /// The public name is not simply the address of the port.
    pub is_expected: bool,
    pub trusted: Vec<IpNet>,
}

#[derive(Debug, Clone)]
pub struct Public {
    /// `host:port/base`
    pub address: String,
    /// Is there a name at all that others could know?
    pub is_named: bool,
    pub is_running: bool,
    /// How many addresses the name leads to; `None` where there is none to look up.
    pub dns: Option<Result<usize, String>>,
    pub info: Reach<Shown>,
    /// Our own key, as hex, and what tells our process from others.
    pub key: Option<String>,
    pub instance: Option<String>,
    pub socket: Reach<()>,
    /// The status of the answer to a large body.
    pub body: Reach<u16>,
    pub body_bytes: usize,
    /// Whether git's question for protocol version 2 arrived.
    pub git_v2: Reach<bool>,
}

/// What came of trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach<T> {
    /// There was no point in trying, or nothing to try it with.
    Untried(String),
    Got(T),
    Failed(String),
}

/// What the public address says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    pub key: Option<String>,
    pub instance: Option<String>,
}

/// Somebody else's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    pub host: String,
    /// How far it is ahead of ours.
    pub ahead_secs: i64,
}

pub(super) fn together(config: &Config, here: Here, outside: Outside) -> Facts {
    let bind = config.bind_address;
    // Nobody but a proxy can give a name its certificate.
    let port = format!(":{}", bind.port());
    let is_direct = config.service.is_bare_address()
        && config.service.authority().to_string().ends_with(&port)
        && !bind.ip().is_loopback();
    Facts {
        notes: config.notes.clone(),
        git: here.git,
        roots: here.roots,
        disks: here.disks,
        lock: here.lock,
        key: here.key_file,
        files: here.files,
        store: here.store,
        proxy: Proxy {
            bind,
            is_expected: here.is_named && !is_direct,
            trusted: config.trusted_proxies.clone(),
        },
        public: outside.public,
        clocks: outside.clocks,
        problems: here.problems,
    }
}
