//! One event from another relay on its way through the door, and what came of it.

use crate::ingest::{Asker, Offer};
use grasp_core::event::Forged;
use grasp_core::policy::{Answer, RefusalClass};
use grasp_core::{Event, EventId, Kind, RelayUrl, Time, Timestamp};
use grasp_engine::{Errand, Sub};
use grasp_store::{Provenance, SourceKind};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What came of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Stored or held, and not known before.
    New,
    Known,
    Refused,
    /// It is wanted, and there is no room for it now.
    NoRoom,
    /// Our own store could not take it.
    Failed,
    Forged,
}

impl Fate {
    fn of(refusal: Option<RefusalClass>) -> Self {
        match refusal {
            None => Self::New,
            Some(RefusalClass::Known) => Self::Known,
            Some(RefusalClass::NoRoom) => Self::NoRoom,
            Some(RefusalClass::Fault) => Self::Failed,
            Some(RefusalClass::Passing | RefusalClass::UntilKnown | RefusalClass::Forever) => {
                Self::Refused
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) id: EventId,
    pub(super) fate: Fate,
    /// What was answered, if it was refused.
    pub(super) refusal: String,
    pub(super) sub: Sub,
    pub(super) source: SourceKind,
    pub(super) past: bool,
    pub(super) kind: Kind,
    pub(super) created_at: Timestamp,
    pub(super) errand: Option<Errand>,
    /// What it occupied on its way.
    pub(super) bytes: usize,
}

/// How an event came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) sub: Sub,
    pub(super) source: SourceKind,
    pub(super) bytes: usize,
    /// It came before the end of what was stored.
    pub(super) past: bool,
    /// Why it was asked for; nothing for what is heard live.
    pub(super) errand: Option<Errand>,
}

/// Waits for the answer, and passes it on to the link.
struct Waiting {
    verdicts: mpsc::UnboundedSender<Verdict>,
    way: Way,
    kind: Kind,
    created_at: Timestamp,
}

pub(super) fn offer(
    event: Box<Event>,
    relay: &RelayUrl,
    way: Way,
    verdicts: &mpsc::UnboundedSender<Verdict>,
    now: Time,
) -> Offer {
    let (kind, created_at) = (event.kind, event.created_at);
    let waiting = Waiting { verdicts: verdicts.clone(), way, kind, created_at };
    let relay = Some(relay.as_str().to_owned());
    let from = Provenance { source: way.source, relay, received: now, released: None };
    Offer { event, from, ip: None, asker: Arc::new(waiting) }
}

impl Waiting {
    fn send(&self, id: &EventId, fate: Fate, refusal: &str) {
        let Way { sub, source, bytes, past, errand } = self.way;
        let (id, kind, created_at) = (*id, self.kind, self.created_at);
        // A link that ended does not want to know any more.
        let _ = self.verdicts.send(Verdict {
            id,
            fate,
            refusal: refusal.to_owned(),
            sub,
            source,
            past,
            errand,
            kind,
            created_at,
            bytes,
        });
    }
}

impl Asker for Waiting {
    fn answer(&self, id: &EventId, answer: &Answer) {
        let fate = Fate::of(answer.refusal);
        self.send(id, fate, if fate == Fate::Refused { &answer.text } else { "" });
    }

    fn answer_forged(&self, id: &EventId, why: Forged) {
        tracing::debug!(%id, %why, "a forged copy");
        self.send(id, Fate::Forged, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::policy::{Prefix, Reason};
    use std::collections::BTreeMap;

    /// Every refusal there is, by what it says about the event.
    const CODES: [(RefusalClass, &[&str]); 6] = [
        (RefusalClass::Known, &["known", "held", "superseded", "same-second"]),
        (RefusalClass::Passing, &["expired-in-purgatory", "ephemeral-sync", "future"]),
        (
            RefusalClass::NoRoom,
            &[
                "aside-full",
                "burials-full",
                "grasp-lists-full",
                "held-full",
                "held-key-full",
                "proposals-full",
                "store-full",
            ],
        ),
        (RefusalClass::Fault, &["store-error", "wrong-facts"]),
        (
            RefusalClass::UntilKnown,
            &[
                "no-announcement",
                "not-authorised",
                "unrelated",
                "stranger",
                "not-whitelisted",
                "not-listing-us",
            ],
        ),
        (
            RefusalClass::Forever,
            &[
                "expired",
                "deleted",
                "vanished",
                "auth-kind",
                "protected",
                "private",
                "foreign-target",
                "author-blacklisted",
                "repository-blacklisted",
                "bad-identifier",
                "no-tip",
            ],
        ),
    ];

    const PREFIXES: [Prefix; 7] = [
        Prefix::Invalid,
        Prefix::Blocked,
        Prefix::Restricted,
        Prefix::Duplicate,
        Prefix::Error,
        Prefix::AuthRequired,
        Prefix::RateLimited,
    ];

    /// The reasons that are written in a source file, with their classes.
    fn reasons_in(source: &str) -> BTreeMap<String, RefusalClass> {
        let mut found = BTreeMap::new();
        for part in source.split("Prefix::").skip(1) {
            let (prefix, rest) = part.split_once(',').unwrap_or_default();
            let Some(prefix) = PREFIXES.into_iter().find(|it| format!("{it:?}") == prefix) else {
                continue;
            };
            let Some((code, rest)) =
                rest.trim_start().strip_prefix('"').and_then(|it| it.split_once('"'))
            else {
                continue;
            };
            let named = rest.split_once("in_class(").and_then(|(_, it)| it.split_once(')'));
            let named = named.map(|(name, _)| name.trim_start_matches("RefusalClass::"));
            let all = CODES.iter().map(|(class, _)| *class);
            let class = { all }.find(|class| named.is_some_and(|it| format!("{class:?}") == it));
            let class = class.unwrap_or_else(|| Reason::new(prefix, "", "").class());
            found.insert(code.to_owned(), class);
        }
        found
    }

    #[test]
    fn s30_every_refusal_has_a_class_and_no_room_never_counts_as_not_wanted() {
        let sources = [
            include_str!("../../../grasp-core/src/policy/reason.rs"),
            include_str!("../ingest/admit.rs"),
            include_str!("../ingest/room.rs"),
            include_str!("../ingest/claiming.rs"),
            include_str!("../ingest/writer.rs"),
        ];
        let written: BTreeMap<String, RefusalClass> =
            sources.into_iter().flat_map(reasons_in).collect();
        let each = CODES.iter().flat_map(|(class, codes)| codes.iter().map(|it| (*it, *class)));
        let expected: BTreeMap<String, RefusalClass> =
            each.map(|(code, class)| (code.to_owned(), class)).collect();
        assert_eq!(written, expected);
        for (code, class) in expected {
            let fate = Fate::of(Some(class));
            let right = match class {
                RefusalClass::Known => Fate::Known,
                RefusalClass::NoRoom => Fate::NoRoom,
                RefusalClass::Fault => Fate::Failed,
                _ => Fate::Refused,
            };
            assert_eq!(fate, right, "{code}");
        }
        assert_eq!(Fate::of(None), Fate::New);
    }
}
