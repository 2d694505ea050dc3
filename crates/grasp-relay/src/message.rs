//! What a client may say, parsed strictly and straight into typed values. What cannot be read is
//! answered to whom it concerns: the event, the subscription or, when neither is known, the room.

use crate::SubId;
use grasp_core::{Event, EventId, Filter, filter::UNSUPPORTED};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientMessage {
    Event(Box<Event>),
    Req { sub: SubId, filters: Vec<Filter> },
    Close(SubId),
    Count { sub: SubId, filters: Vec<Filter> },
    Auth(Box<Event>),
    NegOpen { sub: SubId, filter: Box<Filter>, message: Vec<u8> },
    NegMsg { sub: SubId, message: Vec<u8> },
    NegClose(SubId),
}

/// Whom a refusal concerns, which decides its form on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addressee {
    /// EVENT and AUTH: one OK false.
    Event(EventId),
    /// REQ: CLOSED.
    Subscription(SubId),
    /// COUNT: CLOSED, though no subscription of that name ends by it.
    Count(SubId),
    /// NEG-OPEN and NEG-MSG: NEG-ERR.
    Reconciliation(SubId),
    /// Nothing readable: NOTICE.
    Nobody,
}

/// A message we refuse, with a machine-readable prefix and a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Malformed {
    pub to: Addressee,
    pub why: String,
}

impl ClientMessage {
    /// More than any operator allows; it keeps a message of empty filters from growing in memory.
    pub const FILTERS_MAX: usize = 256;

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut json = serde_json::Deserializer::from_str(text);
        let parsed = json.deserialize_seq(Envelope);
        let parsed = parsed.and_then(|message| json.end().map(|()| message));
        parsed.map_err(|error| Malformed { to: Addressee::of(text), why: sentence(&error) })
    }
}

impl Addressee {
    /// Reads no more of a message than is needed to know whom to answer.
    pub fn of(text: &str) -> Self {
        let mut found = Self::Nobody;
        // An error only means that nothing further can be read; what was found stands.
        let _ = serde_json::Deserializer::from_str(text).deserialize_seq(Whom(&mut found));
        found
    }
}

fn sentence(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let prefix = if text.starts_with(UNSUPPORTED) { "unsupported" } else { "invalid" };
    format!("{prefix}: {}", excerpt(&text, 120))
}

/// Foreign text, fit to be shown: short and without control characters.
pub(crate) fn excerpt(text: &str, chars_max: usize) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(chars_max).collect();
    if text.chars().nth(chars_max).is_some() {
        shown.push('…');
    }
    shown
}

#[derive(Clone, Copy)]
enum Verb {
    Event,
    Req,
    Close,
    Count,
    Auth,
    NegOpen,
    NegMsg,
    NegClose,
}

impl<'de> de::Deserialize<'de> for Verb {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(VerbVisitor)
    }
}

struct VerbVisitor;

impl Visitor<'_> for VerbVisitor {
    type Value = Verb;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message type such as \"EVENT\" or \"REQ\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Verb, E> {
        Ok(match text {
            "EVENT" => Verb::Event,
            "REQ" => Verb::Req,
            "CLOSE" => Verb::Close,
            "COUNT" => Verb::Count,
            "AUTH" => Verb::Auth,
            "NEG-OPEN" => Verb::NegOpen,
            "NEG-MSG" => Verb::NegMsg,
            "NEG-CLOSE" => Verb::NegClose,
            other => {
                let shown = excerpt(other, 32);
                return Err(E::custom(format_args!("unknown message type `{shown}`")));
            }
        })
    }
}

struct Envelope;

impl<'de> Visitor<'de> for Envelope {
    type Value = ClientMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message: a JSON array that starts with its type")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ClientMessage, A::Error> {
        let verb = next(&mut seq, "its type")?;
        let message = match verb {
            Verb::Event => ClientMessage::Event(next(&mut seq, "an event")?),
            Verb::Auth => ClientMessage::Auth(next(&mut seq, "an event")?),
            Verb::Close => ClientMessage::Close(next_sub(&mut seq)?),
            Verb::NegClose => ClientMessage::NegClose(next_sub(&mut seq)?),
            Verb::Req => {
                ClientMessage::Req { sub: next_sub(&mut seq)?, filters: next_filters(&mut seq)? }
            }
            Verb::Count => {
                ClientMessage::Count { sub: next_sub(&mut seq)?, filters: next_filters(&mut seq)? }
            }
            Verb::NegOpen => ClientMessage::NegOpen {
                sub: next_sub(&mut seq)?,
                filter: next(&mut seq, "a filter")?,
                message: next_hex(&mut seq)?,
            },
            Verb::NegMsg => {
                ClientMessage::NegMsg { sub: next_sub(&mut seq)?, message: next_hex(&mut seq)? }
            }
        };
        match seq.next_element::<IgnoredAny>()? {
            None => Ok(message),
            Some(_) => Err(de::Error::custom("the message has more elements than its type allows")),
        }
    }
}

pub(crate) fn next<'de, A: SeqAccess<'de>, T: de::Deserialize<'de>>(
    seq: &mut A,
    what: &'static str,
) -> Result<T, A::Error> {
    let missing = || de::Error::custom(format_args!("the message lacks {what}"));
    seq.next_element()?.ok_or_else(missing)
}

pub(crate) fn next_sub<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<SubId, A::Error> {
    next(seq, "a subscription id")
}

fn next_filters<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<Vec<Filter>, A::Error> {
    let mut filters = vec![next(seq, "a filter")?];
    while let Some(filter) = seq.next_element()? {
        if filters.len() == ClientMessage::FILTERS_MAX {
            return Err(de::Error::custom("far too many filters in one message"));
        }
        filters.push(filter);
    }
    Ok(filters)
}

pub(crate) fn next_hex<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<Vec<u8>, A::Error> {
    next::<_, Hex>(seq, "a negentropy message").map(|hex| hex.0)
}

struct Hex(Vec<u8>);

impl<'de> de::Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(HexVisitor)
    }
}

struct HexVisitor;

impl Visitor<'_> for HexVisitor {
    type Value = Hex;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a negentropy message in hex")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Hex, E> {
        let digits = |pair: &[u8]| {
            let [high, low] = pair else { return None };
            let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
            Some(digit(*high)? << 4 | digit(*low)?)
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
        bytes.map(Hex).ok_or_else(|| E::custom("the negentropy message is not hex"))
    }
}

struct Whom<'a>(&'a mut Addressee);

impl<'de> Visitor<'de> for Whom<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let to: fn(SubId) -> Addressee = match next(&mut seq, "its type")? {
            Verb::Event | Verb::Auth => {
                return seq.next_element_seed(IdOnly(self.0)).map(|_| ());
            }
            Verb::Req => Addressee::Subscription,
            Verb::Count => Addressee::Count,
            Verb::NegOpen | Verb::NegMsg => Addressee::Reconciliation,
            Verb::Close | Verb::NegClose => return Ok(()),
        };
        *self.0 = to(next_sub(&mut seq)?);
        Ok(())
    }
}

/// Finds the id of an event that is otherwise broken.
struct IdOnly<'a>(&'a mut Addressee);

impl<'de> DeserializeSeed<'de> for IdOnly<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IdOnly<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != "id" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            // Upper case is refused in an event, yet its sender still waits for an OK.
            let id = map.next_value::<String>()?.to_ascii_lowercase();
            if let Ok(id) = id.parse() {
                *self.0 = Addressee::Event(id);
            }
            return Ok(());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
