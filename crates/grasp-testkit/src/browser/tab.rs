//! One tab, and what somebody in front of it can do and see.

use super::base64;
use super::seen::{Log, Seen};
use super::wire::Wire;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(60);

/// Closed when it is dropped.
#[derive(Debug)]
pub struct Tab {
    wire: Arc<Wire>,
    session: String,
    context: String,
    log: Arc<Log>,
}

impl Tab {
    pub(super) async fn opened(wire: Arc<Wire>, session: String, context: String) -> Self {
        let log = Arc::new(Log::default());
        wire.follows(&session, Arc::clone(&log));
        let tab = Self { wire, session, context, log };
        for domain in ["Page", "Network", "Runtime", "Log", "Audits"] {
            tab.asks(&format!("{domain}.enable"), json!({})).await;
        }
        tab.asks("Page.setLifecycleEventsEnabled", json!({"enabled": true})).await;
        tab
    }

    /// Opens an address and waits until everything on it is loaded; says the status it came with.
    pub async fn goes_to(&self, url: &str) -> u16 {
        let answer = self.asks("Page.navigate", json!({"url": url})).await;
        assert!(answer["errorText"].is_null(), "{url}: {}", answer["errorText"]);
        let load = answer["loaderId"].as_str().expect("a new page, not a place on this one");
        let status = self.log.until(|seen| {
            seen.loaded.iter().find(|name| *name == load)?;
            let page = |it: &&super::Asked| it.load == load && it.what == "Document";
            seen.asked.iter().rev().find(page)?.status
        });
        let status = timeout(CAP, status).await;
        status.unwrap_or_else(|_| panic!("{url} is never loaded: {:?}", self.seen()))
    }

    /// What an expression is worth on this page; promises are waited for.
    pub async fn evaluates(&self, expression: &str) -> Value {
        let answer = self.tries(expression).await;
        answer.unwrap_or_else(|error| panic!("`{expression}`: {error}"))
    }

    async fn tries(&self, expression: &str) -> Result<Value, String> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.wire.tries(Some(&self.session), "Runtime.evaluate", params).await?;
        match answer.get("exceptionDetails") {
            Some(exception) => Err(exception.to_string()),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// What is to be read in the first element that matches.
    pub async fn text(&self, selector: &str) -> String {
        let selector = json!(selector);
        let text = self.evaluates(&format!("document.querySelector({selector})?.innerText")).await;
        let text = text.as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("nothing matches {selector}"))
    }

    /// How many elements match.
    pub async fn counts(&self, selector: &str) -> u64 {
        let counted = format!("document.querySelectorAll({}).length", json!(selector));
        self.evaluates(&counted).await.as_u64().expect("a number")
    }

    /// Waits until this is true on the page.
    pub async fn until(&self, condition: &str) {
        let expression = format!("Boolean({condition})");
        let waiting = async {
            // Between two pages there is nobody to ask.
            while self.tries(&expression).await != Ok(Value::Bool(true)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = timeout(CAP, waiting).await;
        assert!(seen.is_ok(), "never true: {condition}; {:?}", self.seen().console);
    }

    /// The whole page as PNG, also what is below the edge.
    pub async fn screenshot(&self) -> Vec<u8> {
        let params = json!({"format": "png", "captureBeyondViewport": true});
        let answer = self.asks("Page.captureScreenshot", params).await;
        base64::decoded(answer["data"].as_str().expect("a picture"))
    }

    /// From the next page on.
    pub async fn without_javascript(&self) {
        self.asks("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    }

    pub async fn is_dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.asks("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    pub async fn is_phone(&self) {
        let phone = json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true});
        self.asks("Emulation.setDeviceMetricsOverride", phone).await;
    }

    /// Moves the focus on, as people without a mouse do.
    pub async fn presses_tab(&self) {
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({
                "type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9,
            });
            self.asks("Input.dispatchKeyEvent", key).await;
        }
    }

    /// Everything since the tab was opened.
    pub fn seen(&self) -> Seen {
        self.log.seen()
    }

    /// What the page and the browser complained about.
    pub fn console(&self) -> Vec<String> {
        self.seen().console
    }

    /// What `alert` and its relatives said.
    pub fn dialogs(&self) -> Vec<String> {
        self.seen().dialogs
    }

    async fn asks(&self, method: &str, params: Value) -> Value {
        self.wire.asks(Some(&self.session), method, params).await
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        self.wire.forgets(&self.session);
        let context = json!({"browserContextId": self.context});
        self.wire.tells("Target.disposeBrowserContext", &context);
    }
}
