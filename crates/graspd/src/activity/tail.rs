//! Reads what was stored since the last look, and puts it into words.

use super::{EVERY_REPOSITORY, HOME, PURGATORY, RELAYS};
use crate::ledger::{self, Tally};
use crate::node::Node;
use crate::report::text::{WORDS_MAX, shown};
use crate::report::{Activity, Identity, place};
use grasp_core::nip34::{Announcement, PullRequest};
use grasp_core::{Coordinate, Event, Kind, RepoId, Time};
use grasp_store::{EventStore, Result, Space, StoredEvent};
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
            let activity = told(&node.reports.identity, it.0, &it.1, node.clock.now());
            node.activity.note(activity);
        }
        let now = Seen { serial: news.serial, waiting: news.waiting, verdicts: news.verdicts };
        if now.serial != seen.serial {
            node.activity.touch(HOME);
        }
        if now.waiting != seen.waiting || news.stored.iter().any(|it| it.0 == Space::Held) {
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
    stored: Vec<(Space, StoredEvent)>,
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
    let stored = stored.split_off(stored.len().saturating_sub(TOLD_MAX));
    let waiting = snapshot.events_in(Space::Held)? + snapshot.events_in(Space::Wanted)?;
    Ok(News { serial, waiting, verdicts: ledger::tally(&*snapshot)?, stored })
}

fn told(identity: &Identity, space: Space, it: &StoredEvent, now: Time) -> Activity {
    let repo = repository(&it.event);
    let name = repo
        .as_ref()
        .map_or("a repository".to_owned(), |repo| shown(repo.identifier.as_str(), WORDS_MAX));
    let waits = if space == Space::Held { ", which waits for its git data" } else { "" };
    let came = match &it.provenance.relay {
        Some(relay) => format!(" (from {})", identity.shown_relay(relay)),
        None => String::new(),
    };
    let (kind, text) = match (it.event.kind, it.provenance.released) {
        (Kind::STATE, Some(_)) => {
            ("release", format!("the git data of {name} is here: its refs moved"))
        }
        (Kind::ANNOUNCEMENT, Some(_)) => ("release", format!("{name} is served")),
        (Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE, Some(_)) => {
            ("release", format!("the commits of a pull request to {name} are here"))
        }
        (Kind::ANNOUNCEMENT, None) => ("event", format!("{name} was announced{waits}{came}")),
        (Kind::STATE, None) => ("event", format!("a state of {name} was signed{waits}{came}")),
        (Kind::ISSUE, _) => ("event", format!("an issue in {name}{came}")),
        (Kind::PATCH, _) => ("event", format!("a patch for {name}{came}")),
        _ => ("event", format!("a pull request to {name}{waits}{came}")),
    };
    let repository = repo.as_ref().map(place);
    Activity { at: now, kind: kind.into(), text, repository }
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
