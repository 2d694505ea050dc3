//! A Nostr client that says exactly what it is told and checks nothing.

use futures_util::{SinkExt, StreamExt};
use grasp_core::{Event, EventId};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
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
        let connecting = tokio_tungstenite::connect_async(url);
        let (socket, _) = timeout(CAP, connecting).await.expect("in time").expect("a WebSocket");
        Self { socket }
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

    pub async fn publishes(&mut self, event: &Event) -> Reply {
        let event: Value = serde_json::from_str(&event.to_json()).expect("our own JSON");
        self.say(&json!(["EVENT", event])).await;
        self.answer_to(&event["id"].as_str().unwrap_or_default().parse().expect("an id")).await
    }

    /// Waits for the OK of one event, skipping other messages.
    pub async fn answer_to(&mut self, id: &EventId) -> Reply {
        let id = id.to_hex();
        loop {
            let message = self.heard().await;
            if message[0] == "OK" && message[1] == id.as_str() {
                let text = message[3].as_str().unwrap_or_default().to_owned();
                return Reply { ok: message[2] == true, text };
            }
        }
    }

    /// Asks, waits for EOSE, closes: the ids found, in the order they came.
    pub async fn asks(&mut self, filters: &[Value]) -> Vec<EventId> {
        let mut request = vec![json!("REQ"), json!("asks")];
        request.extend_from_slice(filters);
        self.say(&Value::Array(request)).await;
        let mut found = Vec::new();
        loop {
            let message = self.heard().await;
            match message[0].as_str() {
                Some("EVENT") if message[1] == "asks" => {
                    let id = message[2]["id"].as_str().unwrap_or_default();
                    found.push(id.parse().expect("an event id"));
                }
                Some("EOSE") if message[1] == "asks" => break,
                Some("CLOSED") if message[1] == "asks" => panic!("refused: {message}"),
                _ => {}
            }
        }
        self.say(&json!(["CLOSE", "asks"])).await;
        found
    }
}
