//! The third element of EOSE (NIP-67): an array of words, or one word as older relays send it. Words
//! that are not known, and values that are no words, mean nothing.

use super::Cut;
use crate::reply::Hint;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

pub(super) struct EoseHint(pub(super) Option<Hint>);

impl<'de> Deserialize<'de> for EoseHint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(HintVisitor)
    }
}

struct HintVisitor;

impl<'de> Visitor<'de> for HintVisitor {
    type Value = EoseHint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of hints")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<EoseHint, A::Error> {
        let mut hint = None;
        while let Some(word) = seq.next_element::<Cut>()? {
            hint = hint.or(Hint::parse(&word.0));
        }
        Ok(EoseHint(hint))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<EoseHint, E> {
        Ok(EoseHint(Hint::parse(word)))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<EoseHint, E> {
        Ok(EoseHint(None))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<EoseHint, E> {
        Ok(EoseHint(None))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<EoseHint, E> {
        Ok(EoseHint(None))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<EoseHint, E> {
        Ok(EoseHint(None))
    }

    fn visit_unit<E: Error>(self) -> Result<EoseHint, E> {
        Ok(EoseHint(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EoseHint, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(EoseHint(None))
    }
}
