//! NIP-01 filters: parsed strictly, matched without allocating. A list that is present but empty
//! matches nothing; a field we do not understand is refused rather than ignored, because an answer
//! that pretends to honour it would be wrong.

use crate::event::Event;
use crate::id::{EventId, PubKey};
use crate::sorted_list::SortedList;
use crate::{Kind, Timestamp};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    pub ids: Option<SortedList<EventId>>,
    pub authors: Option<SortedList<PubKey>>,
    pub kinds: Option<SortedList<Kind>>,
    /// By tag letter; case matters.
    pub tags: BTreeMap<u8, SortedList<String>>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub limit: Option<u64>,
}

/// The start of the error that means "understood, but not offered here".
pub const UNSUPPORTED: &str = "unsupported filter field";

impl Filter {
    /// Everything but `limit`, which counts results and not events.
    pub fn matches(&self, event: &Event) -> bool {
        self.since.is_none_or(|since| event.created_at >= since)
            && self.until.is_none_or(|until| event.created_at <= until)
            && allows(&self.kinds, &event.kind)
            && allows(&self.authors, &event.pubkey)
            && allows(&self.ids, &event.id)
            && self.tags.iter().all(|(letter, wanted)| {
                let hit = |value: &str| wanted.binary_search_by(|w| w.as_str().cmp(value)).is_ok();
                let mut with_letter = event.tags.iter().filter(|t| t.letter() == Some(*letter));
                with_letter.any(|tag| tag.value().is_some_and(hit))
            })
    }

    /// True if no event can ever match.
    pub fn is_void(&self) -> bool {
        let empty_window = matches!((self.since, self.until), (Some(s), Some(u)) if s > u);
        empty_window
            || self.ids.as_ref().is_some_and(|list| list.is_empty())
            || self.authors.as_ref().is_some_and(|list| list.is_empty())
            || self.kinds.as_ref().is_some_and(|list| list.is_empty())
            || self.tags.values().any(|list| list.is_empty())
    }

    /// Roughly what it costs to keep this filter in memory, with its place in an index of live
    /// subscriptions.
    pub fn retained_bytes(&self) -> usize {
        const INDEX_KEY: usize = 48;
        let len = |n: Option<usize>, each: usize| n.unwrap_or(0) * (each + INDEX_KEY);
        let values = self.tags.values().flatten();
        let text: usize = values.map(|value| value.len() + size_of::<String>() + INDEX_KEY).sum();
        size_of::<Self>()
            + len(self.ids.as_ref().map(|list| list.len()), size_of::<EventId>())
            + len(self.authors.as_ref().map(|list| list.len()), size_of::<PubKey>())
            + len(self.kinds.as_ref().map(|list| list.len()), size_of::<Kind>())
            + text
    }
}

/// As it is sent to another relay: only the fields that say something.
impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(ids) = &self.ids {
            map.serialize_entry("ids", ids)?;
        }
        if let Some(authors) = &self.authors {
            map.serialize_entry("authors", authors)?;
        }
        if let Some(kinds) = &self.kinds {
            map.serialize_entry("kinds", kinds)?;
        }
        for (letter, values) in &self.tags {
            map.serialize_entry(&format!("#{}", char::from(*letter)), values)?;
        }
        if let Some(since) = &self.since {
            map.serialize_entry("since", since)?;
        }
        if let Some(until) = &self.until {
            map.serialize_entry("until", until)?;
        }
        if let Some(limit) = &self.limit {
            map.serialize_entry("limit", limit)?;
        }
        map.end()
    }
}

fn allows<T: Ord>(list: &Option<SortedList<T>>, value: &T) -> bool {
    list.as_ref().is_none_or(|list| list.has(value))
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(FilterVisitor)
    }
}

struct FilterVisitor;

impl<'de> Visitor<'de> for FilterVisitor {
    type Value = Filter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a filter object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Filter, A::Error> {
        let mut filter = Filter::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_bytes() {
                b"ids" => once(&mut filter.ids, "ids", map.next_value()?)?,
                b"authors" => once(&mut filter.authors, "authors", map.next_value()?)?,
                b"kinds" => once(&mut filter.kinds, "kinds", map.next_value()?)?,
                b"since" => once(&mut filter.since, "since", map.next_value()?)?,
                b"until" => once(&mut filter.until, "until", map.next_value()?)?,
                b"limit" => once(&mut filter.limit, "limit", map.next_value()?)?,
                [b'#', letter] if letter.is_ascii_alphabetic() => {
                    if filter.tags.insert(*letter, map.next_value()?).is_some() {
                        return Err(de::Error::custom("duplicate tag in filter"));
                    }
                }
                _ => {
                    let shown: String = key.chars().filter(|c| !c.is_control()).take(32).collect();
                    return Err(de::Error::custom(format!("{UNSUPPORTED} `{shown}`")));
                }
            }
        }
        Ok(filter)
    }
}

fn once<T, E: de::Error>(slot: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    if slot.replace(value).is_some() {
        return Err(E::duplicate_field(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Filter, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn lists_are_sorted_and_unique() {
        let filter = parse(r##"{"kinds":[3,1,3],"#e":["b","a","b"],"limit":0}"##).unwrap();
        assert_eq!(filter.kinds.as_deref(), Some(&[Kind(1), Kind(3)][..]));
        assert_eq!(*filter.tags[&b'e'], ["a", "b"]);
        assert_eq!(filter.limit, Some(0));
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let text =
            r##"{"ids":[],"kinds":[1],"#A":["x"],"#a":["y"],"since":1,"until":2,"limit":0}"##;
        let filter = parse(text).unwrap();
        assert_eq!(serde_json::to_string(&filter).unwrap(), text);
        assert_eq!(serde_json::to_string(&Filter::default()).unwrap(), "{}");
    }

    #[test]
    fn what_we_cannot_honour_is_refused() {
        for bad in [
            r#"{"search":"x"}"#,
            r##"{"#ee":["x"]}"##,
            r##"{"#1":["x"]}"##,
            r#"{"kinds":[1],"kinds":[2]}"#,
            r##"{"#e":["a"],"#e":["b"]}"##,
            r#"{"ids":["abcd"]}"#,
            r#"{"kinds":[-1]}"#,
            r#"{"kinds":["1"]}"#,
            r#"{"limit":1.5}"#,
            r#"{"since":-1}"#,
            "[]",
            "1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(r#"{"search":"x"}"#).unwrap_err().to_string().contains(UNSUPPORTED));
    }

    #[test]
    fn an_empty_list_matches_nothing() {
        assert!(parse(r#"{"ids":[]}"#).unwrap().is_void());
        assert!(parse(r##"{"#e":[]}"##).unwrap().is_void());
        assert!(parse(r#"{"since":2,"until":1}"#).unwrap().is_void());
        assert!(!parse("{}").unwrap().is_void());
    }
}
