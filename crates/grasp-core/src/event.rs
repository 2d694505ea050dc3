//! Events: parsed strictly, hashed exactly as NIP-01 says, and verified by our own code.
//! A `VerifiedEvent` is the only form the rest of the server stores or serves; it carries the
//! canonical JSON, so that every reader can recompute the id from the bytes it is given.

use crate::id::{Coordinate, EventId, PubKey, Signature};
use crate::json::{push_array, push_string};
use crate::{Kind, Timestamp};
use bytes::Bytes;
use secp256k1::{XOnlyPublicKey, schnorr};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;

/// One tag: a name and its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tag(pub Vec<String>);

impl Tag {
    pub fn name(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The first value: the only one filters look at.
    pub fn value(&self) -> Option<&str> {
        self.0.get(1).map(String::as_str)
    }

    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().skip(1).map(String::as_str)
    }

    /// The name as a single ASCII letter, which is what makes a tag queryable.
    pub fn letter(&self) -> Option<u8> {
        match self.name().as_bytes() {
            [letter] if letter.is_ascii_alphabetic() => Some(*letter),
            _ => None,
        }
    }
}

/// A structurally valid event. Nothing is known yet about its id and signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Event {
    pub id: EventId,
    pub pubkey: PubKey,
    pub created_at: Timestamp,
    pub kind: Kind,
    pub tags: Vec<Tag>,
    pub content: String,
    pub sig: Signature,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectOnly)
    }
}

/// A derived parser also takes a bare array of values, which no other relay would and which is
/// shorter than the canonical form.
struct ObjectOnly;

impl<'de> Visitor<'de> for ObjectOnly {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Event, A::Error> {
        Event::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Why an event is not what it claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forged {
    #[error("the id is not the hash of the event")]
    Id,
    #[error("the public key is not on the curve")]
    Key,
    #[error("the signature does not match")]
    Signature,
}

impl Event {
    /// Unknown fields are dropped; duplicate or missing ones, floats, upper-case hex and lone
    /// surrogates are errors.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The bytes we store and serve: field order and escapes are fixed.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(self.content.len() + 400 + self.tags.len() * 80);
        out.push_str("{\"id\":\"");
        crate::id::hex_push(&mut out, self.id.as_bytes());
        out.push_str("\",\"pubkey\":\"");
        crate::id::hex_push(&mut out, self.pubkey.as_bytes());
        out.push_str("\",\"created_at\":");
        out.push_str(&self.created_at.to_string());
        out.push_str(",\"kind\":");
        out.push_str(&self.kind.to_string());
        out.push_str(",\"tags\":");
        self.push_tags(&mut out);
        out.push_str(",\"content\":");
        push_string(&mut out, &self.content);
        out.push_str(",\"sig\":\"");
        crate::id::hex_push(&mut out, self.sig.as_bytes());
        out.push_str("\"}");
        out
    }

    fn push_tags(&self, out: &mut String) {
        push_array(out, &self.tags, |out, tag| {
            push_array(out, &tag.0, |out, value| push_string(out, value));
        });
    }

    /// The id this event should have.
    pub fn hash(&self) -> EventId {
        let mut text = String::with_capacity(self.content.len() + 128 + self.tags.len() * 80);
        text.push_str("[0,\"");
        crate::id::hex_push(&mut text, self.pubkey.as_bytes());
        text.push_str("\",");
        text.push_str(&self.created_at.to_string());
        text.push(',');
        text.push_str(&self.kind.to_string());
        text.push(',');
        self.push_tags(&mut text);
        text.push(',');
        push_string(&mut text, &self.content);
        text.push(']');
        EventId::from_bytes(Sha256::digest(text.as_bytes()).into())
    }

    /// Checks id, then signature: the cheap lie is found first.
    pub fn verify(self) -> Result<VerifiedEvent, Forged> {
        self.verify_with(&mut KeyRing::default())
    }

    /// The same for somebody who verifies many events of the same authors.
    pub fn verify_with(self, ring: &mut KeyRing) -> Result<VerifiedEvent, Forged> {
        if self.hash() != self.id {
            return Err(Forged::Id);
        }
        let key = ring.key(&self.pubkey)?;
        let sig = schnorr::Signature::from_byte_array(*self.sig.as_bytes());
        secp256k1::schnorr::verify(&sig, self.id.as_bytes(), &key)
            .map_err(|_| Forged::Signature)?;
        let json = Bytes::from(self.to_json());
        Ok(VerifiedEvent { event: self, json })
    }

    /// The first value of the first tag with this name.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|tag| tag.name() == name).and_then(Tag::value)
    }

    pub fn tags_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Tag> {
        self.tags.iter().filter(move |tag| tag.name() == name)
    }

    /// The `d` value, empty when absent, as NIP-01 treats it.
    pub fn d(&self) -> &str {
        self.tag("d").unwrap_or("")
    }

    /// The address under which this event replaces others, if its kind does that.
    pub fn coordinate(&self) -> Option<Coordinate> {
        let identifier = if self.kind.is_addressable() {
            self.d().to_owned()
        } else if self.kind.is_replaceable() {
            String::new()
        } else {
            return None;
        };
        Some(Coordinate { kind: self.kind, pubkey: self.pubkey, identifier })
    }

    /// NIP-40: when this event stops existing.
    pub fn expiration(&self) -> Option<Timestamp> {
        self.tag("expiration").and_then(|value| value.parse().ok()).map(Timestamp)
    }

    /// NIP-70: only its author may publish it. Values behind the name change nothing.
    pub fn is_protected(&self) -> bool {
        self.tags.iter().any(|tag| tag.name() == "-")
    }

    pub fn rank(&self) -> Rank {
        Rank { created_at: self.created_at, id: self.id }
    }
}

/// Keys already checked to be on the curve, which costs a tenth of a signature check.
#[derive(Debug, Default)]
pub struct KeyRing {
    keys: HashMap<PubKey, XOnlyPublicKey>,
}

impl KeyRing {
    const KEYS_MAX: usize = 4_096;

    fn key(&mut self, of: &PubKey) -> Result<XOnlyPublicKey, Forged> {
        if let Some(key) = self.keys.get(of) {
            return Ok(*key);
        }
        let key = XOnlyPublicKey::from_byte_array(*of.as_bytes()).map_err(|_| Forged::Key)?;
        if self.keys.len() == Self::KEYS_MAX {
            self.keys.clear();
        }
        self.keys.insert(*of, key);
        Ok(key)
    }
}

/// What decides between two versions of one thing. This is the only comparison: stored events,
/// held ones, states and deletions all go through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    pub created_at: Timestamp,
    pub id: EventId,
}

impl Rank {
    /// Later wins; in the same second the lower id wins.
    pub fn beats(&self, other: &Rank) -> bool {
        (other.created_at, self.id) < (self.created_at, other.id)
    }
}

/// An event whose id and signature hold, with its canonical JSON.
#[derive(Debug, Clone)]
pub struct VerifiedEvent {
    event: Event,
    json: Bytes,
}

impl VerifiedEvent {
    /// For bytes that we verified ourselves before we wrote them.
    pub fn from_stored(json: Bytes) -> Result<Self, serde_json::Error> {
        Ok(Self { event: Event::from_json(&json)?, json })
    }

    pub fn json(&self) -> &Bytes {
        &self.json
    }

    pub fn event(&self) -> &Event {
        &self.event
    }
}

impl Deref for VerifiedEvent {
    type Target = Event;
    fn deref(&self) -> &Event {
        &self.event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(created_at: u64, first: u8) -> Rank {
        let mut id = [0; 32];
        id[0] = first;
        Rank { created_at: Timestamp(created_at), id: EventId::from_bytes(id) }
    }

    #[test]
    fn later_wins_and_in_one_second_the_lower_id() {
        assert!(rank(2, 9).beats(&rank(1, 1)));
        assert!(!rank(1, 1).beats(&rank(2, 9)));
        assert!(rank(1, 1).beats(&rank(1, 2)));
        assert!(!rank(1, 2).beats(&rank(1, 1)));
        assert!(!rank(1, 1).beats(&rank(1, 1)));
    }

    fn template(middle: &str) -> String {
        format!(
            r#"{{"id":"{}","pubkey":"{}",{middle}"tags":[],"sig":"{}"}}"#,
            "a".repeat(64),
            "b".repeat(64),
            "c".repeat(128)
        )
    }

    #[test]
    fn parsing_is_strict() {
        let good = template(r#""created_at":1,"kind":1,"content":"x","extra":{"a":[1]},"#);
        assert!(Event::from_json(good.as_bytes()).is_ok());
        for bad in [
            r#""created_at":1,"created_at":1,"kind":1,"content":"x","#,
            r#""created_at":1.0,"kind":1,"content":"x","#,
            r#""created_at":1e3,"kind":1,"content":"x","#,
            r#""created_at":-0,"kind":1,"content":"x","#,
            r#""created_at":1,"kind":65536,"content":"x","#,
            r#""created_at":1,"kind":"1","content":"x","#,
            r#""created_at":1,"kind":1,"content":"\ud800","#,
            r#""created_at":1,"kind":1,"content":"\ud800\u0041","#,
            r#""created_at":1,"kind":1,"#,
        ] {
            assert!(Event::from_json(template(bad).as_bytes()).is_err(), "{bad}");
        }
        let upper = good.replace(&"a".repeat(64), &"A".repeat(64));
        assert!(Event::from_json(upper.as_bytes()).is_err());
        assert!(Event::from_json(format!("\u{feff}{good}").as_bytes()).is_err());
    }

    #[test]
    fn canonical_json_is_what_serde_and_javascript_write() {
        let text = "\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/\u{7f}é\u{2028}🦀";
        let mut ours = String::new();
        push_string(&mut ours, text);
        assert_eq!(ours, serde_json::to_string(text).unwrap());
    }
}
