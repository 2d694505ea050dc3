//! Who an announcement names, and in which role. Reads `M`, `m` and `o` records with their
//! boundaries, or the older `maintainers` list when there are none. A record we do not understand
//! grants nothing, and a record about its own author that grants nothing is a resignation.

use crate::event::{Event, Tag};
use crate::id::PubKey;
use std::collections::BTreeSet;

/// Both lists are sorted and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles {
    /// Active `M`; may name the author.
    pub leads: Vec<PubKey>,
    /// Everyone else who is active as `M` or `m`, or by `maintainers`. Never the author.
    pub active: Vec<PubKey>,
    /// False once the author's own record says otherwise, whatever others list.
    pub author_active: bool,
}

impl Roles {
    /// Keys beyond this many are not looked at; leads come first.
    pub const LISTED_MAX: usize = 100;

    pub fn of(event: &Event) -> Self {
        let records: Vec<Record<'_>> = event.tags.iter().filter_map(Record::read).collect();
        if records.is_empty() {
            Self::legacy(event)
        } else {
            Self::recorded(event.pubkey, &records)
        }
    }

    pub fn lists(&self, key: &PubKey) -> bool {
        self.active.binary_search(key).is_ok()
    }

    fn legacy(event: &Event) -> Self {
        let listed = event.tags_named("maintainers").flat_map(Tag::values);
        let keys = listed.filter_map(|value| value.parse().ok());
        let active = first_few(keys.filter(|key| *key != event.pubkey));
        Self { leads: Vec::new(), active: sorted(active), author_active: true }
    }

    fn recorded(author: PubKey, records: &[Record<'_>]) -> Self {
        let granted = |role| {
            let of_role = move |record: &&Record<'_>| record.role == role && record.active;
            records.iter().filter(of_role).filter_map(Record::key)
        };
        let leads = first_few(granted(Role::Lead));
        let all = granted(Role::Lead).chain(granted(Role::Maintainer));
        let active = first_few(all.clone().filter(|key| *key != author));
        let own = author.to_hex();
        let unsaid = !records.iter().any(|record| record.who == own);
        let author_active = unsaid || all.clone().any(|key| key == author);
        Self { leads: sorted(leads), active: sorted(active), author_active }
    }
}

fn first_few(keys: impl Iterator<Item = PubKey>) -> BTreeSet<PubKey> {
    let mut found = BTreeSet::new();
    for key in keys {
        if found.len() == Roles::LISTED_MAX {
            break;
        }
        found.insert(key);
    }
    found
}

fn sorted(keys: BTreeSet<PubKey>) -> Vec<PubKey> {
    keys.into_iter().collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Lead,
    Maintainer,
    /// Statuses and labels only; never a say in state.
    Moderator,
}

struct Record<'a> {
    role: Role,
    who: &'a str,
    active: bool,
}

impl<'a> Record<'a> {
    fn read(tag: &'a Tag) -> Option<Self> {
        let role = match tag.name() {
            "M" => Role::Lead,
            "m" => Role::Maintainer,
            "o" => Role::Moderator,
            _ => return None,
        };
        let boundaries = tag.0.get(2..).unwrap_or_default();
        Some(Self { role, who: tag.value().unwrap_or_default(), active: is_active(boundaries) })
    }

    fn key(&self) -> Option<PubKey> {
        self.who.parse().ok()
    }
}

/// Boundaries are start, end, start, end... in unix seconds. None at all means always, an odd
/// number means begun and not ended. `defer` can only stand for a last end, so a record that uses
/// it is never active; neither is one with anything else in it.
fn is_active(boundaries: &[String]) -> bool {
    let is_seconds =
        |value: &String| value.bytes().all(|c| c.is_ascii_digit()) && value.parse::<u64>().is_ok();
    boundaries.iter().all(is_seconds) && (boundaries.is_empty() || boundaries.len() % 2 == 1)
}
