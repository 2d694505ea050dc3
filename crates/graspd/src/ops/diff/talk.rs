//! A conversation with a relay, one question at a time: events page by page, or what differs by NIP-77.
//! Bounded in time and size; what a relay sends unasked is passed over.

use super::Item;
use crate::report::text::{WORDS_MAX, shown};
use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use grasp_core::{Event, EventId, Filter, Timestamp};
use grasp_relay::RelayMessage;
use grasp_relay::client;
use grasp_relay::neg::{Difference, IdSet, Initiator, Step};
use grasp_relay::reply::Hint;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

pub(super) struct Talk<S> {
    socket: WebSocketStream<S>,
    /// Every question has a name of its own.
    asked: u64,
    /// It understood a comparison before, or has not been asked yet.
    compares: bool,
}

/// The conversation is over; another may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it hung up")]
struct HungUp;

/// Is this why there is no answer?
pub(super) fn hung_up(error: &anyhow::Error) -> bool {
    error.downcast_ref::<HungUp>().is_some()
}

/// Without a word for so long, there is nothing to come.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const EVENTS_MAX: usize = 500_000;
const PAGE_EVENTS: u64 = 500;
const FRAME_BYTES: usize = 60_000;
const ROUNDS_MAX: usize = 10_000;
const PAGES_MAX: usize = 10_000;

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    pub(super) fn new(socket: WebSocketStream<S>) -> Self {
        Self { socket, asked: 0, compares: true }
    }

    /// The same partner, met again.
    pub(super) fn resume(&mut self, socket: WebSocketStream<S>) {
        self.socket = socket;
    }

    /// All events that match, each once, verified.
    pub(super) async fn events(&mut self, filter: &Filter) -> Result<Vec<Event>> {
        let mut found: BTreeMap<EventId, Event> = BTreeMap::new();
        let mut until = None;
        for _ in 0..PAGES_MAX {
            let asked = Filter { until, limit: Some(PAGE_EVENTS), ..filter.clone() };
            let (page, hint) = self.page(&asked).await?;
            let oldest = page.iter().map(|event| event.created_at).min();
            let before = found.len();
            found.extend(page.into_iter().map(|event| (event.id, event)));
            if found.len() > EVENTS_MAX {
                bail!("there are more than {EVENTS_MAX} events");
            }
            match next_page(oldest, until, found.len() > before, hint) {
                Some(next) => until = Some(next),
                None => return Ok(found.into_values().collect()),
            }
        }
        bail!("it does not come to an end")
    }

    /// What only one side has. By NIP-77 where that is spoken, otherwise by reading all of it.
    pub(super) async fn differs(&mut self, filter: &Filter, ours: &[Item]) -> Result<Difference> {
        if self.compares
            && let Some(difference) = self.compare(filter, ours).await?
        {
            return Ok(difference);
        }
        self.compares = false;
        let theirs: std::collections::BTreeSet<EventId> =
            self.events(filter).await?.into_iter().map(|event| event.id).collect();
        let mut difference = Difference::default();
        difference.have.extend(ours.iter().map(|it| it.id).filter(|id| !theirs.contains(id)));
        let ours: std::collections::BTreeSet<EventId> = ours.iter().map(|it| it.id).collect();
        difference.need.extend(theirs.into_iter().filter(|id| !ours.contains(id)));
        Ok(difference)
    }

    async fn page(&mut self, filter: &Filter) -> Result<(Vec<Event>, Option<Hint>)> {
        let sub = self.name();
        self.say(client::req(&sub, std::slice::from_ref(filter))).await?;
        let mut events = Vec::new();
        loop {
            match self.hear().await? {
                RelayMessage::Event { sub: of, event } if of.as_str() == sub => {
                    // A forged event is no event, and one that was not asked for says nothing.
                    if let Ok(event) = event.verify()
                        && filter.matches(event.event())
                    {
                        events.push(event.event().clone());
                    }
                }
                RelayMessage::Eose { sub: of, hint } if of.as_str() == sub => {
                    self.say(client::close(&sub)).await?;
                    return Ok((events, hint));
                }
                RelayMessage::Closed { sub: of, text } if of.as_str() == sub => {
                    bail!("it does not answer: {}", shown(&text, WORDS_MAX))
                }
                _ => {}
            }
        }
    }

    /// `None`: it does not compare, or not this.
    async fn compare(&mut self, filter: &Filter, ours: &[Item]) -> Result<Option<Difference>> {
        let items = ours.iter().map(|it| (it.created_at, it.id));
        let mut side = Initiator::new(IdSet::collect(items, usize::MAX)?, FRAME_BYTES)?;
        let sub = self.name();
        self.say(client::neg_open(&sub, filter, &side.initiate()?)).await?;
        for _ in 0..ROUNDS_MAX {
            let message = match self.answer(&sub).await? {
                Some(message) => message,
                None => return Ok(None),
            };
            match side.handle_answer(&message) {
                Ok(Step::Send(next)) => self.say(client::neg_msg(&sub, &next)).await?,
                Ok(Step::Done(difference)) => {
                    self.say(client::neg_close(&sub)).await?;
                    return Ok(Some(difference));
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn answer(&mut self, sub: &str) -> Result<Option<Vec<u8>>> {
        loop {
            match timeout(SILENCE_MAX, self.hear()).await {
                Err(_) => return Ok(None),
                Ok(heard) => match heard? {
                    RelayMessage::NegMsg { sub: of, message } if of.as_str() == sub => {
                        return Ok(Some(message));
                    }
                    RelayMessage::NegErr { sub: of, .. } | RelayMessage::Closed { sub: of, .. }
                        if of.as_str() == sub =>
                    {
                        return Ok(None);
                    }
                    // Relays that do not know the word say so only in a notice.
                    RelayMessage::Notice(_) => return Ok(None),
                    _ => {}
                },
            }
        }
    }

    async fn say(&mut self, text: String) -> Result<()> {
        let sent = timeout(SILENCE_MAX, self.socket.send(Message::text(text))).await;
        Ok(sent.context("it does not read")?.map_err(|_| HungUp)?)
    }

    async fn hear(&mut self) -> Result<RelayMessage> {
        loop {
            let next = timeout(SILENCE_MAX, self.socket.next()).await;
            match next.context("it does not answer")?.ok_or(HungUp)?.map_err(|_| HungUp)? {
                Message::Text(text) => {
                    if let Ok(message) = RelayMessage::parse(&text) {
                        return Ok(message);
                    }
                }
                Message::Close(_) => return Err(HungUp.into()),
                _ => {}
            }
        }
    }

    fn name(&mut self) -> String {
        self.asked += 1;
        format!("diff-{}", self.asked)
    }
}

/// Up to when to ask next; `None` at the end. Pages may repeat the second in which they meet.
fn next_page(
    oldest: Option<Timestamp>,
    until: Option<Timestamp>,
    grew: bool,
    hint: Option<Hint>,
) -> Option<Timestamp> {
    let oldest = oldest.filter(|_| hint != Some(Hint::Finish))?;
    match grew && until != Some(oldest) {
        true => Some(oldest),
        // Nothing but what is known already: the next second down.
        false => oldest.0.checked_sub(1).map(Timestamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_back_in_time_and_never_stand_still() {
        let at = |secs| Some(Timestamp(secs));
        assert_eq!(next_page(at(50), None, true, None), at(50));
        assert_eq!(next_page(at(50), at(90), true, Some(Hint::More)), at(50));
        assert_eq!(next_page(at(50), at(50), true, None), at(49), "a second with many events");
        assert_eq!(next_page(at(50), at(50), false, None), at(49));
        assert_eq!(next_page(at(0), at(0), false, None), None);
        assert_eq!(next_page(at(50), None, true, Some(Hint::Finish)), None);
        assert_eq!(next_page(None, at(50), false, None), None);
    }
}
