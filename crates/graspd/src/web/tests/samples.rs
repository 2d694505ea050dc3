//! One of everything, with a given text wherever a text can be.

use crate::report::*;
use crate::web::{Site, home, no_repository, not_found, purgatory, relays, repos, repository};
use grasp_core::{EventId, Oid, PubKey, Time, Timestamp};

pub(super) const NOW: Time = Time(1_763_287_380_000);

pub(super) fn site() -> Site {
    Site { name: "Orchard".to_owned(), base_path: "/grasp".to_owned() }
}

pub(super) fn npub() -> String {
    PubKey::from_bytes([7; 32]).to_npub()
}

pub(super) fn event_id() -> EventId {
    "5a".repeat(32).parse().unwrap()
}

pub(super) fn status(text: &str) -> Status {
    let text = text.to_owned();
    Status {
        now: NOW,
        server: Server {
            name: text.clone(),
            description: text.clone(),
            npub: text.clone(),
            version: text.clone(),
            relay: text.clone(),
            clone: text.clone(),
            syncs: true,
            uptime_secs: Some(5),
            disk_used_bytes: 1 << 30,
            git_used_bytes: Some(3 << 30),
            disk_budget_bytes: 2 << 30,
        },
        totals: Totals { announcements: 1_234, ..Totals::default() },
        ledger: Ledger { equal: 3, they_lack: 1, ..Ledger::default() },
        problems: vec![text.clone()],
        problem_details: vec![],
        activity: vec![Activity {
            at: NOW,
            kind: text.clone(),
            text: text.clone(),
            repository: Some(text.clone()),
            name: Some(text),
            count: 12,
        }],
    }
}

pub(super) fn relay(text: &str) -> Relay {
    Relay {
        relay: text.to_owned(),
        connected: false,
        health: text.to_owned(),
        failures: 3,
        next_try: Some(NOW),
        last_alive: Some(NOW),
        uptime_percent: Some(99.5),
        refused: RelayRefusals::default(),
        attempts: 3,
        attempts_failed: 1,
        gaps: 1,
        gaps_sustained: 1,
        events_received: 5,
        repositories: 2,
        roots: 3,
        confirmed: 1,
        pending: 1,
        missing: 1,
        live_subscriptions: 1,
        compares: true,
        daily_at: Some(NOW),
        coverage_permille: Some(990),
        ledger: Ledger { equal: 1, ..Ledger::default() },
        timeline: (0..96).map(slot).collect(),
        explain: text.to_owned(),
    }
}

pub(super) fn slot(number: u64) -> Slot {
    let up_permille = [Some(1_000), Some(300), Some(0), None][usize::try_from(number % 4).unwrap()];
    Slot { at: Time(NOW.0 - number * 900_000), up_permille }
}

pub(super) fn line(text: &str) -> RepoLine {
    RepoLine {
        npub: npub(),
        identifier: text.to_owned(),
        name: text.to_owned(),
        description: text.to_owned(),
        announced_at: Timestamp(u64::MAX),
        state_at: Some(Timestamp(0)),
        ledger: Ledger { equal: 3, unverifiable: 1, ..Ledger::default() },
    }
}

pub(super) fn held(text: &str) -> Held {
    Held {
        id: event_id(),
        kind: 30_618,
        author: text.to_owned(),
        repositories: vec![text.to_owned(), format!("{}/{text}", npub())],
        phase: text.to_owned(),
        since: NOW,
        until: Time(NOW.0 + 725_000),
        missing: vec![Oid::from_bytes([1; 20])],
        missing_total: 9,
        tried: vec![Tried { host: text.to_owned(), at: Some(NOW), said: text.to_owned() }],
        next_try: Some(NOW),
        explain: text.to_owned(),
    }
}

pub(super) fn origin(text: &str) -> Origin {
    Origin {
        id: event_id(),
        kind: 30_617,
        author: text.to_owned(),
        created_at: Timestamp(1_763_287_000),
        source: text.to_owned(),
        relay: Some(text.to_owned()),
        received: NOW,
        released: None,
    }
}

pub(super) fn mirror(text: &str) -> Mirror {
    Mirror {
        place: text.to_owned(),
        relay: Some(text.to_owned()),
        clone: Some(text.to_owned()),
        verdict: Verdict::TheyLack,
        because: text.to_owned(),
        at: Some(NOW),
        since: Some(NOW),
        events: Some(EventsThere {
            at: NOW,
            both: 4,
            they_lack: 1,
            we_lack: 0,
            no_room: 0,
            coverage_permille: 800,
            fingerprint: text.to_owned(),
        }),
        refs: Some(RefsThere {
            at: NOW,
            equal: 1,
            they_lack: 0,
            we_lack: 0,
            unsigned: 1,
            unknown: 0,
            objects: Giving::Given,
        }),
    }
}

pub(super) fn repo(text: &str) -> Repo {
    Repo {
        now: NOW,
        npub: npub(),
        identifier: text.to_owned(),
        standing: text.to_owned(),
        name: text.to_owned(),
        description: text.to_owned(),
        web: vec![text.to_owned(), "https://acme.example/".to_owned()],
        maintainers: vec![text.to_owned()],
        clone: text.to_owned(),
        nostr: format!("nostr://{text}"),
        announcement: origin(text),
        state: Some(origin(text)),
        head: Some(text.to_owned()),
        refs: ["refs/heads/", "refs/tags/", ""]
            .map(|below| reference(&format!("{below}{text}")))
            .into(),
        refs_total: 7,
        events: 5,
        fingerprint: text.to_owned(),
        objects_missing: 2,
        threads: Threads { open: 2, all: 5, more: true },
        held: vec![held(text)],
        mirrors: vec![mirror(text)],
        explain: vec![text.to_owned()],
    }
}

pub(super) fn reference(name: &str) -> Ref {
    Ref { name: name.to_owned(), oid: Oid::from_bytes([2; 20]), signed: false }
}

/// Every page there is, with this text wherever a text can be.
pub(super) fn pages(site: &Site, text: &str) -> Vec<String> {
    let next = Some(text.to_owned());
    vec![
        home(site, &status(text)),
        relays(site, &Relays { now: NOW, relays: vec![relay(text)], next: next.clone() }),
        repos(site, &Repos { now: NOW, repositories: vec![line(text)], next: next.clone() }),
        repository(site, &repo(text), None),
        purgatory(site, &Purgatory { now: NOW, total: 9, held: vec![held(text)], next }),
        no_repository(site),
        not_found(site),
    ]
}
