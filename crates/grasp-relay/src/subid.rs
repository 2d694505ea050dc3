//! The name a client gives to a subscription, a count or a reconciliation. It is foreign text, so
//! it is bounded here and escaped wherever it is written.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::sync::Arc;

/// Never empty; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubId(Arc<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subscription id has 1 to {} characters", SubId::CHARS_MAX)]
pub struct BadSubId;

impl SubId {
    /// What can be remembered at all. What is allowed is `Limits::subid_chars_max`; the room
    /// between the two lets a refusal name the subscription it refuses.
    pub const CHARS_MAX: usize = 256;

    pub fn parse(text: &str) -> Result<Self, BadSubId> {
        let fits = text.chars().nth(Self::CHARS_MAX).is_none();
        (fits && !text.is_empty()).then(|| Self(text.into())).ok_or(BadSubId)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn chars(&self) -> usize {
        self.0.chars().count()
    }
}

impl fmt::Display for SubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SubId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = SubId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a subscription id")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SubId, E> {
                SubId::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_neither_empty_nor_endless_and_counts_characters_not_bytes() {
        assert_eq!(SubId::parse(""), Err(BadSubId));
        assert!(SubId::parse(&"é".repeat(SubId::CHARS_MAX)).is_ok());
        assert_eq!(SubId::parse(&"é".repeat(SubId::CHARS_MAX + 1)), Err(BadSubId));
    }
}
