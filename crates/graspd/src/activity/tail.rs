//! Reads what was stored since the last look, and puts it into words.

use super::{EVERY_REPOSITORY, HOME, PURGATORY, RELAYS};
use crate::ledger::{self, Tally};
use crate::node::Node;
use crate::report::text::{WORDS_MAX, shown};
use crate::report::{Activity, Identity, place};
use grasp_core::nip34::{Announcement, PullRequest};
use grasp_core::{Coordinate, Event, Kind, RepoId, Time};
use grasp_store::{EventStore, Result, Snapshot, Space, StoredEvent};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks, however much is stored.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What waits may go, and verdicts change, without anything being stored.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(5);
/// Rows read at a look; of a flood only the end is told.
const ROWS_MAX: u64 = 2_000;
const TOLD_MAX: usize = 20;

const KINDS: [Kind; 6] = [
    Kind::ANNOUNCEMENT,
    Kind::STATE,
    Kind::PATCH,
    Kind::PULL_REQUEST,
    Kind::PULL_REQUEST_UPDATE,
    Kind::ISSUE,
];

/// What the last look saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    serial: u64,
    waiting: u64,
    verdicts: Tally,
}

/// Ends with the server.
pub async fn run(node: Arc<Node>) {
    let mut seen = Seen { serial: node.hub.told_serial(), ..Seen::default() };
    loop {
        tokio::select! {
            () = node.closing.cancelled() => return,
            () = node.wake.rung_for_watchers() => {}
            () = tokio::time::sleep(LOOK_AT_LEAST_EVERY) => {}
        }
        let asked = node.tellers.ask(move |store| read(store, seen.serial));
        let Ok(Ok(news)) = asked.await else { continue };
        for it in &news.stored {
            node.activity.note(told(&node.reports.identity, it, node.clock.wall()));
        }
        let now = Seen { serial: news.serial, waiting: news.waiting, verdicts: news.verdicts };
        if now.serial != seen.serial {
            node.activity.touch(HOME);
        }
        if now.waiting != seen.waiting || news.stored.iter().any(|it| it.space == Space::Held) {
            node.activity.touch(PURGATORY);
            node.activity.touch(HOME);
        }
        if now.verdicts != seen.verdicts {
            [HOME, RELAYS, EVERY_REPOSITORY].iter().for_each(|topic| node.activity.touch(topic));
        }
        seen = now;
        node.activity.tell();
        tokio::select! {
            () = node.closing.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

struct News {
    serial: u64,
    waiting: u64,
    verdicts: Tally,
    stored: Vec<Arrival>,
}

/// An event, where it was put, and the repository it is about.
struct Arrival {
    space: Space,
    stored: StoredEvent,
    about: Option<(RepoId, String)>,
}

fn read(store: &dyn EventStore, after: u64) -> Result<News> {
    let snapshot = store.read()?;
    let serial = snapshot.last_serial()?;
    let first = (after + 1).max(serial.saturating_sub(ROWS_MAX));
    let mut stored = Vec::new();
    for space in [Space::Served, Space::Held] {
        let mut last = VecDeque::with_capacity(TOLD_MAX);
        let mut sink = |it: StoredEvent| {
            if last.len() == TOLD_MAX {
                last.pop_front();
            }
            last.push_back((space, it));
        };
        snapshot.walk(space, first..=serial, &KINDS, usize::MAX, &mut sink)?;
        stored.extend(last);
    }
    stored.sort_by_key(|(_, it)| it.serial);
    let told = stored.split_off(stored.len().saturating_sub(TOLD_MAX));
    let stored = told.into_iter().map(|(space, stored)| {
        let about = match repository(&stored.event) {
            Some(repo) => Some((repo.clone(), name(&*snapshot, &repo, &stored.event)?)),
            None => None,
        };
        Ok(Arrival { space, stored, about })
    });
    let stored = stored.collect::<Result<Vec<Arrival>>>()?;
    let waiting = snapshot.events_in(Space::Held)? + snapshot.events_in(Space::Wanted)?;
    Ok(News { serial, waiting, verdicts: ledger::tally(&*snapshot)?, stored })
}

/// What its owner calls it; its identifier, where it has no name.
fn name(store: &dyn Snapshot, repo: &RepoId, event: &Event) -> Result<String> {
    let announced = match event.kind {
        Kind::ANNOUNCEMENT => Announcement::parse(event).ok(),
        _ => {
            let served = store.current(Space::Served, &repo.coordinate())?;
            served.and_then(|it| Announcement::parse(&it.event).ok())
        }
    };
    let named = announced.and_then(|it| it.name).map(|name| shown(&name, WORDS_MAX));
    let identifier = || shown(repo.identifier.as_str(), WORDS_MAX);
    Ok(named.filter(|name| !name.is_empty()).unwrap_or_else(identifier))
}

fn told(identity: &Identity, arrival: &Arrival, now: Time) -> Activity {
    let it = &arrival.stored;
    let name = arrival.about.as_ref().map(|(_, name)| name.clone());
    let called = name.as_deref().unwrap_or("a repository");
    let waits = if arrival.space == Space::Held { ", which waits for its git data" } else { "" };
    let came = match &it.provenance.relay {
        Some(relay) => format!(" (from {})", identity.shown_relay(relay)),
        None => String::new(),
    };
    let (kind, text) = match (it.event.kind, it.provenance.released) {
        (Kind::STATE, Some(_)) => {
            ("release", format!("the git data of {called} is here: its refs moved"))
        }
        (Kind::ANNOUNCEMENT, Some(_)) => ("release", format!("{called} is served")),
        (Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE, Some(_)) => {
            ("release", format!("the commits of a pull request to {called} are here"))
        }
        (Kind::ANNOUNCEMENT, None) => ("event", format!("{called} was announced{waits}{came}")),
        (Kind::STATE, None) => ("event", format!("a state of {called} was signed{waits}{came}")),
        (Kind::ISSUE, _) => ("event", format!("an issue in {called}{came}")),
        (Kind::PATCH, _) => ("event", format!("a patch for {called}{came}")),
        _ => ("event", format!("a pull request to {called}{waits}{came}")),
    };
    let repository = arrival.about.as_ref().map(|(repo, _)| place(repo));
    Activity { at: now, kind: kind.into(), text, repository, name, count: 1 }
}

fn repository(event: &Event) -> Option<RepoId> {
    match event.kind {
        Kind::ANNOUNCEMENT => Announcement::parse(event).ok().map(|it| it.repo),
        Kind::STATE => {
            let identifier = event.d().parse().ok()?;
            Some(RepoId { owner: event.pubkey, identifier })
        }
        Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE => {
            PullRequest::parse(event).ok()?.targets.first().cloned()
        }
        _ => {
            let mut named = event.tags_named("a").filter_map(|tag| tag.value()?.parse().ok());
            named.find_map(|coordinate: Coordinate| coordinate.repo())
        }
    }
}
