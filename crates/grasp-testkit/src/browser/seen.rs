//! What a tab met: what it asked of whom, what the page and the browser complained about, and
//! whether somebody opened a dialog.

use serde_json::Value;
use std::sync::Mutex;
use tokio::sync::Notify;

/// Everything since the tab was opened, in the order it happened.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub asked: Vec<Asked>,
    /// Errors, uncaught exceptions and whatever a policy forbade.
    pub console: Vec<String>,
    /// What `alert` and its relatives said.
    pub dialogs: Vec<String>,
    /// Loads that are over, by the name the browser gave them.
    pub(super) loaded: Vec<String>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub url: String,
    /// `Document`, `Stylesheet`, `Script`, `EventSource`, …
    pub what: String,
    /// The load it belongs to, by the name the browser gave it.
    pub load: String,
    /// Once it was answered.
    pub status: Option<u16>,
    request: String,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    seen: Mutex<Seen>,
    grew: Notify,
}

impl Log {
    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().expect("nobody panicked").clone()
    }

    pub(super) fn hears(&self, method: &str, params: &Value) {
        self.seen.lock().expect("nobody panicked").notes(method, params);
        self.grew.notify_waiters();
    }

    /// Waits until this is true of what was seen.
    pub(super) async fn until<T>(&self, found: impl Fn(&Seen) -> Option<T>) -> T {
        loop {
            let grew = self.grew.notified();
            tokio::pin!(grew);
            grew.as_mut().enable();
            if let Some(it) = found(&self.seen.lock().expect("nobody panicked")) {
                return it;
            }
            grew.await;
        }
    }
}

impl Seen {
    fn notes(&mut self, method: &str, params: &Value) {
        match method {
            "Network.requestWillBeSent" => self.asked.push(Asked {
                url: text(&params["request"]["url"]),
                what: text(&params["type"]),
                load: text(&params["loaderId"]),
                status: None,
                request: text(&params["requestId"]),
            }),
            "Network.responseReceived" => self.answered(params),
            "Page.lifecycleEvent" if params["name"] == "load" => {
                self.loaded.push(text(&params["loaderId"]));
            }
            "Page.javascriptDialogOpening" => self.dialogs.push(text(&params["message"])),
            _ => self.console.extend(complaint(method, params)),
        }
    }

    fn answered(&mut self, params: &Value) {
        let request = text(&params["requestId"]);
        let status = params["response"]["status"].as_u64().and_then(|it| u16::try_from(it).ok());
        if let Some(asked) = self.asked.iter_mut().rev().find(|asked| asked.request == request) {
            asked.status = status;
        }
    }
}

fn complaint(method: &str, params: &Value) -> Option<String> {
    match method {
        "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "assert" => {
            Some(format!("console: {}", params["args"]))
        }
        "Runtime.exceptionThrown" => Some(format!("exception: {}", params["exceptionDetails"])),
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            let entry = &params["entry"];
            Some(format!("log: {} {}", text(&entry["text"]), text(&entry["url"])))
        }
        "Audits.issueAdded" if params["issue"]["code"] == "ContentSecurityPolicyIssue" => {
            Some(format!("policy: {}", params["issue"]["details"]))
        }
        _ => None,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
