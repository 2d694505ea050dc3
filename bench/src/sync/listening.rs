//! What is stored where and when, and who hears of it when: one ledger for all servers.

use crate::wire::{Socket, connect, hear, hear_until, say};
use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use grasp_core::EventId;
use grasp_core::id::hex_decode;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

/// Something that happened on one of the servers.
#[derive(Debug)]
enum Note {
    Stored(EventId, Instant),
    Heard(usize, EventId, Instant),
    Refused(String),
}

#[derive(Debug)]
pub(super) struct Ledger {
    notes: mpsc::UnboundedReceiver<Note>,
    sender: mpsc::UnboundedSender<Note>,
    stored: HashMap<EventId, Instant>,
    heard: Vec<HashMap<EventId, Instant>>,
    tasks: JoinSet<()>,
}

impl Ledger {
    /// Somebody at each of these servers who hears of issues and comments as they are served.
    pub(super) async fn of(addresses: &[String]) -> Result<Self> {
        let (sender, notes) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for (server, address) in addresses.iter().enumerate() {
            let mut socket = connect(address).await?;
            say(&mut socket, "[\"REQ\",\"live\",{\"kinds\":[1621,1111],\"limit\":0}]").await?;
            hear_until(&mut socket, "[\"EOSE\"").await?;
            tasks.spawn(listen(socket, server, sender.clone()));
        }
        let heard = addresses.iter().map(|_| HashMap::new()).collect();
        Ok(Self { notes, sender, stored: HashMap::new(), heard, tasks })
    }

    /// Notes each OK on a connection that publishes.
    pub(super) fn reads(&mut self, answers: SplitStream<Socket>) {
        self.tasks.spawn(read_answers(answers, self.sender.clone()));
    }

    /// For what is stored without anybody being asked.
    pub(super) fn stores(&mut self, id: EventId) {
        self.stored.insert(id, Instant::now());
    }

    /// Waits until all of these are stored and heard on every server, or nothing has happened for
    /// some time. Returns how many times one of them did not arrive.
    pub(super) async fn awaits(&mut self, ids: &[EventId], patience: Duration) -> Result<usize> {
        let mut missing = HashSet::new();
        for (server, heard) in self.heard.iter().enumerate() {
            let not_heard = ids.iter().filter(|id| !heard.contains_key(*id));
            missing.extend(not_heard.map(|id| (server, *id)));
        }
        let mut unanswered: HashSet<EventId> =
            ids.iter().filter(|id| !self.stored.contains_key(*id)).copied().collect();
        while !missing.is_empty() || !unanswered.is_empty() {
            let Ok(note) = timeout(patience, self.notes.recv()).await else { break };
            match note.context("nobody listens")? {
                Note::Stored(id, at) => {
                    unanswered.remove(&id);
                    self.stored.insert(id, at);
                }
                Note::Heard(server, id, at) => {
                    missing.remove(&(server, id));
                    if let Some(heard) = self.heard.get_mut(server) {
                        heard.entry(id).or_insert(at);
                    }
                }
                Note::Refused(text) => anyhow::bail!("an event was not accepted: {text}"),
            }
        }
        ensure!(unanswered.is_empty(), "{} events were never answered", unanswered.len());
        Ok(missing.len())
    }

    /// From the moment an event was stored until this server told of it; `None` if it never did.
    pub(super) fn delay(&self, id: &EventId, server: usize) -> Option<Duration> {
        let (stored, heard) = (self.stored.get(id)?, self.heard.get(server)?.get(id)?);
        Some(heard.saturating_duration_since(*stored))
    }
}

/// Until the server is gone.
async fn listen(mut socket: Socket, server: usize, notes: mpsc::UnboundedSender<Note>) {
    while let Ok(text) = hear(&mut socket).await {
        let at = Instant::now();
        if let Some(id) = id_after(&text, "\"id\":\"") {
            let _ = notes.send(Note::Heard(server, id, at));
        }
    }
}

async fn read_answers(mut answers: SplitStream<Socket>, notes: mpsc::UnboundedSender<Note>) {
    while let Some(Ok(message)) = answers.next().await {
        let at = Instant::now();
        let Message::Text(text) = message else { continue };
        let note = match id_after(&text, "[\"OK\",\"") {
            Some(id) if text.contains("\",true,\"") => Note::Stored(id, at),
            _ => Note::Refused(text.to_string()),
        };
        let _ = notes.send(note);
    }
}

/// Reading the whole event would cost the servers the processor they share with us.
fn id_after(text: &str, start: &str) -> Option<EventId> {
    let at = text.find(start)? + start.len();
    hex_decode(text.get(at..at + 64)?).map(EventId::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        let id = EventId::from_bytes([7; 32]);
        let event = format!("[\"EVENT\",\"live\",{{\"id\":\"{}\",\"kind\":1}}]", id.to_hex());
        assert_eq!(id_after(&event, "\"id\":\""), Some(id));
        let answer = format!("[\"OK\",\"{}\",true,\"\"]", id.to_hex());
        assert_eq!(id_after(&answer, "[\"OK\",\""), Some(id));
        assert_eq!(id_after("[\"EOSE\",\"live\"]", "\"id\":\""), None);
    }
}
