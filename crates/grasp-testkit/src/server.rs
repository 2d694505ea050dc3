//! A real server process on a port of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Server {
    process: Child,
    binary: PathBuf,
    settings: Vec<(String, String)>,
    data: TempDir,
    /// `127.0.0.1:port`
    pub address: String,
    /// What it printed before it was ready.
    pub greeting: Vec<String>,
}

impl Server {
    /// Starts `binary` on a free port with a new data directory and these variables.
    pub async fn start(binary: &Path, settings: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().expect("a temporary directory");
        let settings: Vec<(String, String)> =
            settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (process, address, greeting) = launch(binary, &settings, data.path()).await;
        Self { process, binary: binary.to_owned(), settings, data, address, greeting }
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub fn data_path(&self) -> &Path {
        self.data.path()
    }

    pub fn pid(&self) -> u32 {
        self.process.id().expect("the server runs")
    }

    /// SIGKILL: no goodbye, no flush.
    pub async fn kill(&mut self) {
        self.process.kill().await.expect("a running process can be killed");
    }

    /// Asks it to stop (SIGTERM) and returns whether it ended well.
    pub async fn stop(&mut self) -> bool {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(sent.is_ok_and(|status| status.success()));
        let ended = timeout(CAP, self.process.wait()).await.expect("the server stops");
        ended.is_ok_and(|status| status.success())
    }

    /// Starts again on the same data, on a new port, after `kill` or `stop`.
    pub async fn restart(&mut self) {
        let (process, address, greeting) =
            launch(&self.binary, &self.settings, self.data.path()).await;
        self.process = process;
        self.address = address;
        self.greeting = greeting;
    }

    /// A command of the same program on the same data, with the same settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).envs(environment(&self.settings, self.data.path()));
        command.current_dir(self.data.path());
        command
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

async fn launch(
    binary: &Path,
    settings: &[(String, String)],
    data: &Path,
) -> (Child, String, Vec<String>) {
    let mut process = Command::new(binary)
        .envs(environment(settings, data))
        .current_dir(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the server's binary runs");
    let stdout = process.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(stdout).lines();
    let mut greeting = Vec::new();
    let address = timeout(CAP, async {
        while let Ok(Some(line)) = lines.next_line().await {
            let relay = line
                .trim()
                .strip_prefix("relay")
                .and_then(|rest| rest.trim().strip_prefix("ws://"));
            let address = relay.map(str::to_owned);
            greeting.push(line);
            if let Some(address) = address {
                return address;
            }
        }
        panic!("the server ended before it was ready; it said {greeting:?}");
    });
    let address = address.await.expect("the server says where it listens");
    // Somebody has to read on, or a talkative server would block on a full pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (process, address, greeting)
}
