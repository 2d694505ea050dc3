//! The other side of the conversation: what we say to a relay, and what a relay may say to us.
//! Strict about what is acted on, deaf to what is not; foreign text is cut before it is kept.
//! Invariant: a subscription's name and a challenge are exactly what was sent, or nothing.

mod eose_hint;

use crate::SubId;
use crate::message::{excerpt, next, next_hex, next_sub};
use crate::reply::Hint;
use eose_hint::EoseHint;
use grasp_core::id::hex_push;
use grasp_core::json::push_string;
use grasp_core::{Event, EventId, Filter};
use serde::de::{self, Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayMessage {
    Event {
        sub: SubId,
        event: Box<Event>,
    },
    Eose {
        sub: SubId,
        /// NIP-67: whether older events match.
        hint: Option<Hint>,
    },
    Closed {
        sub: SubId,
        text: String,
    },
    Notice(String),
    Ok {
        id: EventId,
        ok: bool,
        text: String,
    },
    /// The challenge of NIP-42, unchanged: it will be signed.
    Auth(String),
    NegMsg {
        sub: SubId,
        message: Vec<u8>,
    },
    NegErr {
        sub: SubId,
        text: String,
        /// How many events the relay compares at once, if it says so.
        limit: Option<u64>,
    },
    /// A count nobody asked for, or a word from another protocol.
    Other,
}

/// A message that cannot be read, with the subscription it belongs to as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unreadable message: {why}")]
pub struct Unreadable {
    pub sub: Option<SubId>,
    pub why: String,
}

impl RelayMessage {
    /// Of a relay's free text, no more is kept than this.
    pub const TEXT_CHARS_MAX: usize = 200;
    /// A longer challenge is refused: cutting it would mean signing something else.
    pub const CHALLENGE_BYTES_MAX: usize = 1024;

    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut json = serde_json::Deserializer::from_str(text);
        let parsed = json.deserialize_seq(Envelope);
        let parsed = parsed.and_then(|message| json.end().map(|()| message));
        parsed.map_err(|error| Unreadable {
            sub: subscription_of(text),
            why: excerpt(&error.to_string(), 120),
        })
    }
}

pub fn req(sub: &str, filters: &[Filter]) -> String {
    let mut out = open("REQ", sub);
    filters.iter().for_each(|filter| push_filter(&mut out, filter));
    closed(out)
}

pub fn close(sub: &str) -> String {
    closed(open("CLOSE", sub))
}

pub fn neg_open(sub: &str, filter: &Filter, message: &[u8]) -> String {
    let mut out = open("NEG-OPEN", sub);
    push_filter(&mut out, filter);
    push_hex(&mut out, message);
    closed(out)
}

pub fn neg_msg(sub: &str, message: &[u8]) -> String {
    let mut out = open("NEG-MSG", sub);
    push_hex(&mut out, message);
    closed(out)
}

pub fn neg_close(sub: &str) -> String {
    closed(open("NEG-CLOSE", sub))
}

/// `event` is the signed answer to a challenge (NIP-42).
pub fn auth(event: &Event) -> String {
    format!("[\"AUTH\",{}]", event.to_json())
}

fn open(verb: &str, sub: &str) -> String {
    let mut out = format!("[\"{verb}\",");
    push_string(&mut out, sub);
    out
}

fn closed(mut out: String) -> String {
    out.push(']');
    out
}

fn push_filter(out: &mut String, filter: &Filter) {
    out.push(',');
    // Lists of strings and numbers always serialise.
    out.push_str(&serde_json::to_string(filter).unwrap_or_default());
}

fn push_hex(out: &mut String, bytes: &[u8]) {
    out.reserve(bytes.len() * 2 + 4);
    out.push_str(",\"");
    hex_push(out, bytes);
    out.push('"');
}

#[derive(Clone, Copy)]
enum Verb {
    Event,
    Eose,
    Closed,
    Notice,
    Ok,
    Auth,
    NegMsg,
    NegErr,
    Other,
}

impl<'de> de::Deserialize<'de> for Verb {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text(|text: &str| {
            Ok(match text {
                "EVENT" => Self::Event,
                "EOSE" => Self::Eose,
                "CLOSED" => Self::Closed,
                "NOTICE" => Self::Notice,
                "OK" => Self::Ok,
                "AUTH" => Self::Auth,
                "NEG-MSG" => Self::NegMsg,
                "NEG-ERR" => Self::NegErr,
                _ => Self::Other,
            })
        }))
    }
}

struct Envelope;

impl<'de> Visitor<'de> for Envelope {
    type Value = RelayMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message: a JSON array that starts with its type")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RelayMessage, A::Error> {
        let seq = &mut seq;
        let message = match next(seq, "its type")? {
            Verb::Event => {
                RelayMessage::Event { sub: next_sub(seq)?, event: next(seq, "an event")? }
            }
            Verb::Eose => RelayMessage::Eose { sub: next_sub(seq)?, hint: next_hint(seq)? },
            Verb::Closed => RelayMessage::Closed { sub: next_sub(seq)?, text: next_text(seq)? },
            Verb::Notice => RelayMessage::Notice(next_text(seq)?),
            Verb::Ok => RelayMessage::Ok {
                id: next(seq, "an event id")?,
                ok: next(seq, "a verdict")?,
                text: next_text(seq)?,
            },
            Verb::Auth => RelayMessage::Auth(next::<_, Challenge>(seq, "a challenge")?.0),
            Verb::NegMsg => RelayMessage::NegMsg { sub: next_sub(seq)?, message: next_hex(seq)? },
            Verb::NegErr => RelayMessage::NegErr {
                sub: next_sub(seq)?,
                text: next_text(seq)?,
                limit: next_number(seq)?,
            },
            Verb::Other => RelayMessage::Other,
        };
        // Relays add elements of their own; what was understood stays understood.
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(message)
    }
}

/// Older relays leave the text out, and a CLOSED must not be lost for that.
fn next_text<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<String, A::Error> {
    Ok(seq.next_element::<Cut>()?.map(|cut| cut.0).unwrap_or_default())
}

/// The number in this place. Any other value counts as no number.
fn next_number<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<Option<u64>, A::Error> {
    let value = seq.next_element::<serde_json::Value>()?;
    let as_text = |text: &str| text.parse().ok();
    Ok(value.and_then(|it| it.as_u64().or_else(|| it.as_str().and_then(as_text))))
}

fn next_hint<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<Option<Hint>, A::Error> {
    Ok(seq.next_element::<EoseHint>()?.and_then(|found| found.0))
}

struct Challenge(String);

impl<'de> de::Deserialize<'de> for Challenge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text(|text: &str| match text.len() {
            0 => Err("the challenge is empty"),
            1..=RelayMessage::CHALLENGE_BYTES_MAX => Ok(Self(text.to_owned())),
            _ => Err("the challenge is too long"),
        }))
    }
}

/// Foreign text, fit to be kept and shown. What is no text is as good as none.
struct Cut(String);

impl<'de> de::Deserialize<'de> for Cut {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CutVisitor)
    }
}

struct CutVisitor;

impl<'de> Visitor<'de> for CutVisitor {
    type Value = Cut;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sentence")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cut, E> {
        let plain = text.chars().filter(|c| !c.is_control());
        Ok(Cut(plain.take(RelayMessage::TEXT_CHARS_MAX).collect()))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Cut, E> {
        Ok(Cut(String::new()))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Cut, E> {
        Ok(Cut(String::new()))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Cut, E> {
        Ok(Cut(String::new()))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Cut, E> {
        Ok(Cut(String::new()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Cut, E> {
        Ok(Cut(String::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Cut, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Cut(String::new()))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Cut, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cut(String::new()))
    }
}

/// A string, read by a function that may refuse it.
struct Text<F>(F);

impl<T, F: FnOnce(&str) -> Result<T, &'static str>> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

/// Reads no more of a broken message than is needed to know whose it is.
fn subscription_of(text: &str) -> Option<SubId> {
    struct Whose<'a>(&'a mut Option<SubId>);

    impl<'de> Visitor<'de> for Whose<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
            match next(&mut seq, "its type")? {
                Verb::Notice | Verb::Ok | Verb::Auth | Verb::Other => {}
                _ => *self.0 = Some(next_sub(&mut seq)?),
            }
            Ok(())
        }
    }

    let mut found = None;
    // An error only means that nothing further can be read; what was found stands.
    let _ = serde_json::Deserializer::from_str(text).deserialize_seq(Whose(&mut found));
    found
}

#[cfg(test)]
mod tests;
