//! A real server process on a port of its own, and the directory it lives in.

use grasp_core::VerifiedEvent;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Notify;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);

/// A data directory and the settings to run with, whether or not a server runs on it.
#[derive(Debug)]
pub struct Home {
    binary: PathBuf,
    settings: Vec<(String, String)>,
    data: TempDir,
    descriptors_max: Option<u32>,
}

impl Home {
    /// A new directory, with nothing in it.
    pub fn new(binary: &Path, settings: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().expect("a temporary directory");
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self { binary: binary.to_owned(), settings, data, descriptors_max: None }
    }

    /// The server will be able to open this many files and sockets.
    pub fn with_descriptors(mut self, max: u32) -> Self {
        self.descriptors_max = Some(max);
        self
    }

    /// From the next start on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    pub fn path(&self) -> &Path {
        self.data.path()
    }

    /// The directory of the event store and the relay's key.
    pub fn relay_path(&self) -> PathBuf {
        self.path().join("relay")
    }

    /// A command of the program on this data, with these settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = match self.descriptors_max {
            None => Command::new(&self.binary),
            Some(max) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {max}; exec \"$0\" \"$@\"")]);
                shell.arg(&self.binary);
                shell
            }
        };
        command.args(args).envs(environment(&self.settings, self.path()));
        command.current_dir(self.path()).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a command that is expected to end by itself.
    pub async fn runs(&self, args: &[&str]) -> Output {
        let ended = timeout(CAP, self.command(args).output()).await;
        ended.expect("the command ends").expect("the server's binary runs")
    }

    /// What an operator imports is served without asking the rules.
    pub async fn imports(&self, events: &[VerifiedEvent]) {
        let file = self.path().join("import.jsonl");
        std::fs::write(&file, json_lines(events)).expect("a writable directory");
        let path = file.display().to_string();
        let output = self.runs(&["events", "import", &path]).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub async fn serve(self) -> Server {
        Server::launch(self).await
    }
}

/// Events as `graspd events` reads and writes them.
pub fn json_lines(events: &[VerifiedEvent]) -> String {
    events.iter().map(|event| event.to_json() + "\n").collect()
}

#[derive(Debug)]
pub struct Server {
    process: Child,
    home: Home,
    log: Arc<Log>,
    /// `127.0.0.1:port`, followed by the base path.
    pub address: String,
    /// What it printed before it was ready.
    pub greeting: Vec<String>,
}

impl Server {
    /// Starts `binary` on a free port with a new data directory and these variables.
    pub async fn start(binary: &Path, settings: &[(&str, &str)]) -> Self {
        Home::new(binary, settings).serve().await
    }

    async fn launch(home: Home) -> Self {
        let mut process =
            home.command(&[]).stdout(Stdio::piped()).spawn().expect("the server's binary runs");
        let stdout = process.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(stdout).lines();
        let mut greeting = Vec::new();
        let address = timeout(CAP, greeted(&mut lines, &mut greeting)).await;
        let address = address.expect("the server says where it listens");
        let address =
            address.unwrap_or_else(|| panic!("it ended before it was ready: {greeting:?}"));
        // Somebody has to read on, or a talkative server would block on a full pipe.
        let log = Arc::new(Log::default());
        tokio::spawn(Arc::clone(&log).follow(lines));
        Self { process, home, log, address, greeting }
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn data_path(&self) -> &Path {
        self.home.path()
    }

    pub fn pid(&self) -> u32 {
        self.process.id().expect("the server runs")
    }

    /// Memory that is the process's own, without the mapped event store.
    pub fn anonymous_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.expect("the kernel tells it")
    }

    /// SIGKILL: no goodbye, no flush.
    pub async fn kill(&mut self) {
        self.process.kill().await.expect("a running process can be killed");
    }

    /// SIGTERM, without waiting.
    pub async fn terminate(&self) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Waits for its end and returns whether it ended well.
    pub async fn ended(&mut self) -> bool {
        let ended = timeout(CAP, self.process.wait()).await.expect("the server stops");
        ended.is_ok_and(|status| status.success())
    }

    /// Asks it to stop (SIGTERM) and returns whether it ended well.
    pub async fn stop(&mut self) -> bool {
        self.terminate().await;
        self.ended().await
    }

    /// Leaves the directory of a server that was stopped.
    pub fn into_home(self) -> Home {
        self.home
    }

    /// Starts again on the same data, on a new port, after `kill` or `stop`.
    pub async fn restart(&mut self) {
        let vacant = Home::new(&self.home.binary, &[]);
        let home = std::mem::replace(&mut self.home, vacant);
        *self = Self::launch(home).await;
    }

    /// The same on the same port, for those who know it by its address.
    pub async fn restart_in_place(&mut self) {
        let place = self.address.split('/').next().unwrap_or_default().to_owned();
        self.home.set("NGIT_BIND_ADDRESS", &place);
        self.restart().await;
    }

    /// A command of the same program on the same data, with the same settings.
    pub fn command(&self, args: &[&str]) -> Command {
        self.home.command(args)
    }

    /// What it said so far, after its greeting.
    pub fn log(&self) -> Vec<String> {
        self.log.lines()
    }

    /// Waits until a line with this text is in the log.
    pub async fn logs(&self, text: &str) {
        let seen = timeout(CAP, self.log.shows(text)).await;
        assert!(seen.is_ok(), "no line says `{text}` in {:?}", self.log.lines());
    }
}

/// What the server said after its greeting.
#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grew: Notify,
}

impl Log {
    async fn follow(self: Arc<Self>, mut lines: Lines<BufReader<ChildStdout>>) {
        while let Ok(Some(line)) = lines.next_line().await {
            self.lines.lock().expect("nobody panicked").push(line);
            self.grew.notify_waiters();
        }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("nobody panicked").clone()
    }

    async fn shows(&self, text: &str) {
        loop {
            let grew = self.grew.notified();
            tokio::pin!(grew);
            grew.as_mut().enable();
            if self.lines().iter().any(|line| line.contains(text)) {
                return;
            }
            grew.await;
        }
    }
}

fn environment(settings: &[(String, String)], data: &Path) -> Vec<(String, String)> {
    let path = |name: &str| data.join(name).display().to_string();
    let mut environment = vec![
        ("NGIT_BIND_ADDRESS".to_owned(), "127.0.0.1:0".to_owned()),
        ("NGIT_RELAY_DATA_PATH".to_owned(), path("relay")),
        ("NGIT_GIT_DATA_PATH".to_owned(), path("git")),
    ];
    environment.extend_from_slice(settings);
    environment
}

/// The address in the greeting; `None` if the output ends without one.
async fn greeted(
    lines: &mut Lines<BufReader<ChildStdout>>,
    greeting: &mut Vec<String>,
) -> Option<String> {
    while let Ok(Some(line)) = lines.next_line().await {
        let relay = line.trim().strip_prefix("relay").map(str::trim);
        let address = relay.and_then(|url| url.strip_prefix("ws://")).map(str::to_owned);
        greeting.push(line);
        if address.is_some() {
            return address;
        }
    }
    None
}
