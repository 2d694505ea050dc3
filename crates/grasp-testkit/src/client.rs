//! A Nostr client that says exactly what it is told and checks nothing.

use futures_util::{SinkExt, StreamExt};
use grasp_core::{Event, EventId};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

const CAP: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Client {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// The answer to an EVENT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub ok: bool,
    pub text: String,
}

impl Client {
    pub async fn connect(url: &str) -> Self {
        Self::connect_with(url, &[]).await
    }

    /// With more headers in the handshake, such as a proxy adds.
    pub async fn connect_with(url: &str, headers: &[(&str, &str)]) -> Self {
        Self::try_connect(url, headers).await.expect("a WebSocket")
    }

    /// `None` if the server does not want to talk now.
    pub async fn try_connect(url: &str, headers: &[(&str, &str)]) -> Option<Self> {
        let mut request = url.into_client_request().expect("a WebSocket URL");
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a header name");
            let value: HeaderValue = value.parse().expect("a header value");
            request.headers_mut().append(name, value);
        }
        // Small messages go out at once.
        let connecting = tokio_tungstenite::connect_async_with_config(request, None, true);
        let (socket, _) = timeout(CAP, connecting).await.expect("in time").ok()?;
        Some(Self { socket })
    }

    pub async fn say(&mut self, message: &Value) {
        self.say_text(&message.to_string()).await;
    }

    pub async fn say_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.expect("the socket is open");
    }

    /// The next message; `None` once the server has closed the connection.
    pub async fn hear(&mut self) -> Option<Value> {
        loop {
            match timeout(CAP, self.socket.next()).await.expect("the server says something") {
                Some(Ok(Message::Text(text))) => {
                    return Some(serde_json::from_str(&text).expect("the server speaks JSON"));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next message, which must be there.
    pub async fn heard(&mut self) -> Value {
        self.hear().await.expect("the connection is open")
    }

    /// Everything up to and including the first message that begins with this verb.
    pub async fn heard_until(&mut self, verb: &str) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            let message = self.heard().await;
            let is_last = message[0] == verb;
            heard.push(message);
            if is_last {
                return heard;
            }
        }
    }

    /// What was under way before is heard before this returns: a question and its answer.
    pub async fn fence(&mut self) -> Vec<Value> {
        self.say(&json!(["COUNT", "fence", {"ids": []}])).await;
        let mut heard = self.heard_until("COUNT").await;
        heard.pop();
        heard
    }

    pub async fn publishes(&mut self, event: &Event) -> Reply {
        self.offers(event).await;
        self.answer_to(&event.id).await
    }

    /// Publishes without waiting for the answer.
    pub async fn offers(&mut self, event: &Event) {
        self.say_text(&format!("[\"EVENT\",{}]", event.to_json())).await;
    }

    /// Waits for the OK of one event, skipping other messages.
    pub async fn answer_to(&mut self, id: &EventId) -> Reply {
        let id = id.to_hex();
        loop {
            let message = self.heard().await;
            if message[0] == "OK" && message[1] == id.as_str() {
                return Reply::of(&message);
            }
        }
    }

    /// Asks, waits for EOSE, closes: the ids found, in the order they came.
    pub async fn asks(&mut self, filters: &[Value]) -> Vec<EventId> {
        let heard = self.subscribes("asks", filters).await;
        self.say(&json!(["CLOSE", "asks"])).await;
        let events = heard.iter().filter(|message| message[0] == "EVENT" && message[1] == "asks");
        events.map(event_id).collect()
    }

    /// Asks, waits for EOSE and stays subscribed: everything heard until then, EOSE included.
    pub async fn subscribes(&mut self, name: &str, filters: &[Value]) -> Vec<Value> {
        let mut request = vec![json!("REQ"), json!(name)];
        request.extend_from_slice(filters);
        self.say(&Value::Array(request)).await;
        let mut heard = Vec::new();
        loop {
            let message = self.heard().await;
            assert!(message[0] != "CLOSED" || message[1] != name, "refused: {message}");
            let is_last = message[0] == "EOSE" && message[1] == name;
            heard.push(message);
            if is_last {
                return heard;
            }
        }
    }

    pub async fn counts(&mut self, filters: &[Value]) -> u64 {
        let mut request = vec![json!("COUNT"), json!("counts")];
        request.extend_from_slice(filters);
        self.say(&Value::Array(request)).await;
        loop {
            let message = self.heard().await;
            assert!(message[0] != "CLOSED", "refused: {message}");
            if message[0] == "COUNT" && message[1] == "counts" {
                return message[2]["count"].as_u64().expect("a number");
            }
        }
    }
}

impl Reply {
    /// Reads an OK message.
    pub fn of(message: &Value) -> Self {
        let text = message[3].as_str().expect("OK has a text").to_owned();
        Self { ok: message[2].as_bool().expect("OK has a verdict"), text }
    }

    pub fn accepted(&self) -> bool {
        self.ok && self.text.is_empty()
    }

    pub fn refused(&self, with: &str) -> bool {
        !self.ok && self.text.starts_with(with)
    }
}

fn event_id(message: &Value) -> EventId {
    message[2]["id"].as_str().and_then(|id| id.parse().ok()).expect("an event with an id")
}
