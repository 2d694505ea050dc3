//! The two servers: this very program, each in a process and a directory of its own, on a free port.

use crate::control::{SYNC, SyncRequest};
use crate::ops::client::Client;
use crate::ops::source::Place;
use crate::report::Repo;
use anyhow::{Context, Result, bail};
use grasp_core::RepoId;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

pub(super) struct Server {
    pub(super) name: &'static str,
    /// `127.0.0.1:port`
    pub(super) address: String,
    /// Where its data lies.
    home: PathBuf,
    client: Client,
    process: Child,
}

const START_TIME_MAX: Duration = Duration::from_secs(20);
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
const LOG_LINES: usize = 5;

impl Server {
    /// With somebody to follow from the beginning.
    pub(super) async fn start(
        place: &Path,
        name: &'static str,
        follows: Option<&Self>,
    ) -> Result<Self> {
        let home = place.join(name);
        fs::create_dir_all(&home)?;
        let log = home.join("server.log");
        let program = std::env::current_exe().context("this program cannot be found")?;
        let mut process = Command::new(program)
            .arg("serve")
            .env_clear()
            .envs(settings(&home, name, follows))
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .context("a server could not be started")?;
        let stdout = process.stdout.take().context("a server has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let greeted = timeout(START_TIME_MAX, address(&mut lines)).await;
        let Ok(Some(address)) = greeted else {
            bail!("the {name} server does not start: {}", last_words(&log));
        };
        // Somebody has to read on, or a talkative server would wait for ever.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let client = Client::find(&home.join("relay")).await?;
        let client = client.context("the server has no control socket")?;
        Ok(Self { name, address, home, client, process })
    }

    /// A command for this server, as a shell takes it.
    pub(super) fn command(&self, words: &str) -> String {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("graspd"));
        let data = |name: &str| quoted(&self.home.join(name));
        let (relay, git) = (data("relay"), data("git"));
        let program = quoted(&program);
        format!("{program} {words} --relay-data-path {relay} --git-data-path {git}")
    }

    pub(super) fn relay(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(super) fn clone_url(&self, repo: &RepoId) -> String {
        let (npub, name) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
        format!("http://{}/{npub}/{name}.git", self.address)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What it says of a repository; nothing while it knows nothing.
    pub(super) async fn tells(&self, repo: &RepoId) -> Option<Repo> {
        let answer = self.client.get(&Place::Repo(repo.clone()).path()).await.ok()??;
        serde_json::from_slice(&answer).ok()
    }

    /// It may be busy with that already.
    pub(super) async fn compare(&self, repo: &RepoId) {
        let what = SyncRequest { repository: Some(repo.to_string()), ..SyncRequest::default() };
        if let Ok(json) = serde_json::to_string(&what) {
            let _ = self.client.post(SYNC, json).await;
        }
    }

    pub(super) async fn stop(mut self) {
        if let Some(pid) = self.process.id()
            && let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        // What does not end by itself ends with this value.
        let _ = timeout(STOP_TIME_MAX, self.process.wait()).await;
    }
}

/// Nothing of this machine's own configuration, and as little waiting as the settings allow.
fn settings(home: &Path, name: &str, follows: Option<&Server>) -> Vec<(OsString, OsString)> {
    let path = |name: &str| home.join(name).display().to_string();
    let mut settings = vec![
        ("NGIT_BIND_ADDRESS", "127.0.0.1:0".to_owned()),
        ("NGIT_RELAY_DATA_PATH", path("relay")),
        ("NGIT_GIT_DATA_PATH", path("git")),
        ("NGIT_RELAY_NAME", format!("{name} demo server")),
        ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true".to_owned()),
        ("NGIT_SYNC_BATCH_WINDOW_MS", "200".to_owned()),
        ("NGIT_GIT_MIN_FREE_BYTES", "0".to_owned()),
        ("NGIT_DRAIN_SECS", "1".to_owned()),
    ];
    if let Some(server) = follows {
        settings.push(("NGIT_SYNC_BOOTSTRAP_RELAY_URL", server.relay()));
    }
    let kept = ["PATH", "TMPDIR", "LANG"].into_iter();
    let kept = kept.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    settings.into_iter().map(|(name, value)| (name.into(), value.into())).chain(kept).collect()
}

/// As one word for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Where it says that it listens; `None` if it ends without saying so.
async fn address(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    while let Ok(Some(line)) = lines.next_line().await {
        let url = line.trim().strip_prefix("relay").map(str::trim);
        if let Some(address) = url.and_then(|url| url.strip_prefix("ws://")) {
            return Some(address.to_owned());
        }
    }
    None
}

fn last_words(log: &PathBuf) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(LOG_LINES).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}
