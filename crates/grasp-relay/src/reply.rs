//! What we may say, written straight into the text that goes on the wire. Every foreign or free
//! text is escaped; stored events are passed on as the bytes they are.

use crate::SubId;
use grasp_core::EventId;
use grasp_core::id::hex_push;
use grasp_core::json::push_string;

/// NIP-67: whether anything older than what was sent matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Nothing is left.
    Finish,
    /// The limit cut the answer short.
    More,
}

impl Hint {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::More => "more",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Finish, Self::More].into_iter().find(|hint| hint.as_str() == word)
    }
}

pub fn ok(id: &EventId, accepted: bool, message: &str) -> String {
    let mut out = String::with_capacity(90 + message.len());
    out.push_str("[\"OK\",\"");
    hex_push(&mut out, id.as_bytes());
    out.push_str(if accepted { "\",true," } else { "\",false," });
    push_string(&mut out, message);
    out.push(']');
    out
}

/// `json` is a stored event, written as it is.
pub fn event(sub: &SubId, json: &[u8]) -> String {
    let mut out = String::with_capacity(json.len() + sub.as_str().len() + 16);
    open(&mut out, "EVENT", sub);
    out.push(',');
    match std::str::from_utf8(json) {
        Ok(json) => out.push_str(json),
        // Stored events are UTF-8. Should the disk disagree, one event suffers and not the frame.
        Err(_) => out.push_str(&String::from_utf8_lossy(json)),
    }
    out.push(']');
    out
}

/// The hint goes as an array of one word.
pub fn eose(sub: &SubId, hint: Option<Hint>) -> String {
    let mut out = String::with_capacity(sub.as_str().len() + 24);
    open(&mut out, "EOSE", sub);
    if let Some(hint) = hint {
        out.push_str(",[");
        push_string(&mut out, hint.as_str());
        out.push(']');
    }
    out.push(']');
    out
}

pub fn closed(sub: &SubId, message: &str) -> String {
    about(sub, "CLOSED", message)
}

pub fn neg_err(sub: &SubId, message: &str) -> String {
    about(sub, "NEG-ERR", message)
}

pub fn neg_msg(sub: &SubId, message: &[u8]) -> String {
    let mut out = String::with_capacity(message.len() * 2 + sub.as_str().len() + 20);
    open(&mut out, "NEG-MSG", sub);
    out.push_str(",\"");
    hex_push(&mut out, message);
    out.push_str("\"]");
    out
}

pub fn count(sub: &SubId, count: u64) -> String {
    let mut out = String::with_capacity(100);
    open(&mut out, "COUNT", sub);
    out.push_str(",{\"count\":");
    out.push_str(&count.to_string());
    out.push_str("}]");
    out
}

pub fn notice(message: &str) -> String {
    plain("NOTICE", message)
}

/// NIP-42: the challenge a client signs to prove who it is.
pub fn auth(challenge: &str) -> String {
    plain("AUTH", challenge)
}

fn plain(verb: &str, text: &str) -> String {
    let mut out = String::with_capacity(verb.len() + text.len() + 10);
    out.push_str("[\"");
    out.push_str(verb);
    out.push_str("\",");
    push_string(&mut out, text);
    out.push(']');
    out
}

fn about(sub: &SubId, verb: &str, text: &str) -> String {
    let mut out = String::with_capacity(sub.as_str().len() + text.len() + 20);
    open(&mut out, verb, sub);
    out.push(',');
    push_string(&mut out, text);
    out.push(']');
    out
}

fn open(out: &mut String, verb: &str, sub: &SubId) {
    out.push_str("[\"");
    out.push_str(verb);
    out.push_str("\",");
    push_string(out, sub.as_str());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn every_frame_is_json_whatever_the_client_calls_its_subscription() {
        let name = "a\"b\\\u{1}\né";
        let sub = SubId::parse(name).unwrap();
        let id = EventId::from_bytes([0xab; 32]);
        let stored = br#"{"id":"x"}"#;
        for (frame, value) in [
            (ok(&id, true, ""), json!(["OK", "ab".repeat(32), true, ""])),
            (ok(&id, false, "a \"b\""), json!(["OK", "ab".repeat(32), false, "a \"b\""])),
            (event(&sub, stored), json!(["EVENT", name, {"id": "x"}])),
            (eose(&sub, None), json!(["EOSE", name])),
            (eose(&sub, Some(Hint::Finish)), json!(["EOSE", name, ["finish"]])),
            (eose(&sub, Some(Hint::More)), json!(["EOSE", name, ["more"]])),
            (closed(&sub, "error: x"), json!(["CLOSED", name, "error: x"])),
            (neg_err(&sub, "closed: x"), json!(["NEG-ERR", name, "closed: x"])),
            (neg_msg(&sub, &[0x61, 0xff]), json!(["NEG-MSG", name, "61ff"])),
            (count(&sub, 7), json!(["COUNT", name, {"count": 7}])),
            (notice("x\ny"), json!(["NOTICE", "x\ny"])),
            (auth("c"), json!(["AUTH", "c"])),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&frame).unwrap(), value);
        }
    }

    #[test]
    fn an_event_frame_is_written_into_one_allocation() {
        let sub = SubId::parse("subscription").unwrap();
        let json = vec![b'x'; 1000];
        let frame = event(&sub, &json);
        assert!(frame.capacity() < json.len() + 64, "{}", frame.capacity());
    }
}
