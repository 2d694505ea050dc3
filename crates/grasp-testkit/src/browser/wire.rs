//! The line to the browser: questions by number, answers in any order, and news in between, each of
//! which belongs to one tab.

use super::seen::Log;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

const CAP: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Wire {
    said: mpsc::UnboundedSender<String>,
    desk: Arc<Desk>,
    number: AtomicU64,
    tasks: [JoinHandle<()>; 2],
}

/// Who waits for an answer, and who for news.
#[derive(Debug, Default)]
struct Desk {
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Value>>>,
    tabs: Mutex<BTreeMap<String, Arc<Log>>>,
}

impl Wire {
    pub(super) async fn connect(url: &str) -> Arc<Self> {
        let connecting = tokio_tungstenite::connect_async(url);
        let (socket, _) = timeout(CAP, connecting).await.expect("in time").expect("it listens");
        let (mut sink, mut stream) = socket.split();
        let (said, mut saying) = mpsc::unbounded_channel::<String>();
        let desk = Arc::new(Desk::default());
        let speaks = tokio::spawn(async move {
            while let Some(text) = saying.recv().await {
                if sink.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
        });
        let (at, back) = (Arc::clone(&desk), said.clone());
        let listens = tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Message::Text(text) = message {
                    at.hears(&text, &back);
                }
            }
            // Whoever still waits learns that nothing will come.
            at.waiting.lock().expect("nobody panicked").clear();
        });
        Arc::new(Self { said, desk, number: AtomicU64::new(1), tasks: [speaks, listens] })
    }

    /// The answer, or what was wrong with the question.
    pub(super) async fn tries(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, String> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        self.desk.waiting.lock().expect("nobody panicked").insert(number, answered);
        self.sends(&question(number, session, method, &params));
        let heard = timeout(CAP, answer).await;
        let heard = heard.unwrap_or_else(|_| panic!("chromium does not answer {method}"));
        let mut heard = heard.unwrap_or_else(|_| panic!("chromium is gone, asked for {method}"));
        match heard.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(heard["result"].take()),
        }
    }

    pub(super) async fn asks(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let answer = self.tries(session, method, params).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Without waiting for what comes of it.
    pub(super) fn tells(&self, method: &str, params: &Value) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        self.sends(&question(number, None, method, params));
    }

    /// From now on news of this tab are kept there.
    pub(super) fn follows(&self, session: &str, log: Arc<Log>) {
        self.desk.tabs.lock().expect("nobody panicked").insert(session.to_owned(), log);
    }

    pub(super) fn forgets(&self, session: &str) {
        self.desk.tabs.lock().expect("nobody panicked").remove(session);
    }

    fn sends(&self, message: &Value) {
        // A line that is gone shows when the answer is missing.
        let _ = self.said.send(message.to_string());
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Desk {
    fn hears(&self, text: &str, back: &mpsc::UnboundedSender<String>) {
        let message: Value = serde_json::from_str(text).expect("chromium speaks JSON");
        if let Some(number) = message["id"].as_u64() {
            let waiting = self.waiting.lock().expect("nobody panicked").remove(&number);
            if let Some(waiting) = waiting {
                let _ = waiting.send(message);
            }
            return;
        }
        let Some(session) = message["sessionId"].as_str() else { return };
        let method = message["method"].as_str().unwrap_or_default();
        if method == "Page.javascriptDialogOpening" {
            // It would stop the page for good.
            let params = json!({"accept": false});
            let closes = question(0, Some(session), "Page.handleJavaScriptDialog", &params);
            let _ = back.send(closes.to_string());
        }
        let log = self.tabs.lock().expect("nobody panicked").get(session).cloned();
        if let Some(log) = log {
            log.hears(method, &message["params"]);
        }
    }
}

fn question(number: u64, session: Option<&str>, method: &str, params: &Value) -> Value {
    let mut message = json!({"id": number, "method": method, "params": params});
    if let Some(session) = session {
        message["sessionId"] = json!(session);
    }
    message
}
