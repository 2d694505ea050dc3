//! A real browser, as the people who look at our pages have one: Debian's `chromium`, without a
//! window, told what to do over its DevTools protocol. It knows nothing of our pages. Everything it
//! complains about and everything it asks of anybody is kept, so that a test can look.

mod base64;
mod seen;
mod tab;
mod wire;

pub use seen::{Asked, Seen};
pub use tab::Tab;

use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;
use wire::Wire;

const PLACES: [&str; 2] = ["/usr/bin/chromium", "/usr/local/bin/chromium"];
/// A cold start on a busy machine.
const START_CAP: Duration = Duration::from_secs(120);

/// Headless, with a new profile, and silent: it asks nobody for anything on its own account.
const ARGUMENTS: [&str; 16] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--window-size=1280,900",
];

/// Gone, with all its tabs, when it is dropped.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    profile: TempDir,
    wire: Option<Arc<Wire>>,
}

impl Browser {
    pub async fn start() -> Self {
        let found = PLACES.iter().find(|path| Path::new(path).exists());
        let binary = found.unwrap_or_else(|| {
            panic!("there is no chromium in {PLACES:?}: run scripts/test, which installs it")
        });
        let profile = tempfile::tempdir().expect("a temporary directory");
        let process = starts(binary, profile.path());
        let mut browser = Self { process, profile, wire: None };
        let url = browser.says_where_it_listens().await;
        browser.wire = Some(Wire::connect(&url).await);
        browser
    }

    /// A new tab on an empty page, which shares nothing with other tabs.
    pub async fn page(&self) -> Tab {
        let wire = self.wire.as_ref().expect("it has started");
        let context = wire.asks(None, "Target.createBrowserContext", json!({})).await;
        let place = json!({"url": "about:blank", "browserContextId": context["browserContextId"]});
        let target = wire.asks(None, "Target.createTarget", place).await;
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = wire.asks(None, "Target.attachToTarget", target).await;
        let [session, context] = [&session["sessionId"], &context["browserContextId"]]
            .map(|name| name.as_str().expect("a name").to_owned());
        Tab::opened(Arc::clone(wire), session, context).await
    }

    /// The browser writes its address into its profile once it can be talked to.
    async fn says_where_it_listens(&mut self) -> String {
        let file = self.profile.path().join("DevToolsActivePort");
        let written = async {
            loop {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                let mut lines = text.lines();
                if let (Some(port), Some(path)) = (lines.next(), lines.next()) {
                    return format!("ws://127.0.0.1:{port}{path}");
                }
                let ended = self.process.try_wait().expect("it is ours to wait for");
                assert!(ended.is_none(), "chromium ended at once: {}", self.complaints());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let address = timeout(START_CAP, written).await;
        address.unwrap_or_else(|_| panic!("chromium does not listen: {}", self.complaints()))
    }

    fn complaints(&self) -> String {
        std::fs::read_to_string(complaints(self.profile.path())).unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The whole group: what it started must not write into a profile that is being removed.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn starts(binary: &str, profile: &Path) -> Child {
    use std::os::unix::process::CommandExt;
    let stderr = File::create(complaints(profile)).expect("a writable profile");
    let mut command = Command::new(binary);
    command.args(ARGUMENTS).arg(format!("--user-data-dir={}", profile.display()));
    command.arg("about:blank").env("HOME", profile).env("TZ", "UTC").current_dir(profile);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
    command.spawn().expect("chromium starts")
}

fn complaints(profile: &Path) -> std::path::PathBuf {
    profile.join("complaints")
}
