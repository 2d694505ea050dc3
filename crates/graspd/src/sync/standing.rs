//! What comparisons showed for each repository in them (S-30): how much both have, and what they lack
//! of what we serve. What we lack is known of a repository only where it was asked about alone. It is
//! kept in mind until the engine says that it may be believed.

use super::compare::Difference;
use crate::ingest::{Ingest, Signatures};
use crate::ledger::{self, Counts, Fingerprint, Look, Peer, Seen, Why};
use crate::log_table::{LogLine, LogWriter};
use crate::metrics::LedgerMetrics;
use grasp_core::policy::Rules;
use grasp_core::{EventId, Filter, RelayUrl, RepoId, Time};
use grasp_store::{
    Budget, Cursor, EventStore, Hit, Progress, Result, Space, StoreError, Transaction, Want,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// What one comparison showed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    topic: Topic,
    counts: Vec<(RepoId, Counts)>,
    /// Of what both are said to have: it may be asked for.
    pub(super) sample: Vec<EventId>,
}

/// What of repositories is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Topic {
    /// Announcements and states, by their names.
    Signed,
    #[default]
    About,
}

/// What is known so far of repositories that are being looked at.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<(RepoId, Topic), (Counts, Time)>);

/// What a relay gave out lately and is not here.
#[derive(Debug, Default)]
pub(super) struct TurnedAway {
    /// Not wanted, for a reason that may pass.
    unwanted: RecentIds,
    /// Wanted, but there was no room for it.
    without_room: RecentIds,
}

/// The last ids of some sort, with the moment each of them came.
#[derive(Debug, Default)]
struct RecentIds {
    when: BTreeMap<EventId, Time>,
    in_order: BTreeSet<(Time, EventId)>,
}

const TURNED_AWAY_MAX: usize = 1_000;
const TURNED_AWAY_FOR: Duration = Duration::from_secs(3_600);
/// Of one repository, for a report: beyond that the figure is a lower bound.
const COUNTED_MAX: u64 = 100_000;
/// Ids that a relay is asked for to see whether it has what it says.
const SAMPLE_MAX: usize = 3;
const PAGE: Budget = Budget { steps: 20_000, bytes: usize::MAX };

impl Shown {
    /// Of what was `ours` when the comparison began. Nothing is said of several of which one lacks
    /// something here: the engine asks again when that is fetched, and about fewer of them if it is
    /// not to be had.
    pub(super) fn by(
        here: (&dyn EventStore, &Rules),
        (filter, repos): (&Filter, &[RepoId]),
        (ours, difference): (&HashSet<EventId>, &Difference),
        now: Time,
    ) -> Result<Self> {
        let no_room = u64::try_from(difference.without_room).unwrap_or(u64::MAX);
        let topic = match filter.tags.contains_key(&b'd') {
            true => Topic::Signed,
            false => Topic::About,
        };
        let we_lack = u64::try_from(difference.need.len()).unwrap_or(u64::MAX);
        if we_lack > 0 && repos.len() > 1 {
            return Ok(Self { topic, ..Self::default() });
        }
        let have: HashSet<&EventId> = difference.have.iter().collect();
        let (mut counts, mut sample) = (Vec::new(), Sample::new(now));
        let mut holdings = Holdings::new(here, u64::MAX, now);
        for repo in repos {
            let mut count = Counts { we_lack, no_room, ..Counts::default() };
            holdings.each_id(topic, repo, &mut |id| {
                if !ours.contains(&id) {
                    return;
                }
                count.fingerprint.add(&id);
                match have.contains(&id) {
                    true => count.they_lack += 1,
                    false => {
                        count.both += 1;
                        sample.sees(id);
                    }
                }
            })?;
            counts.push((repo.clone(), count));
        }
        Ok(Self { topic, counts, sample: sample.ids() })
    }

    /// Of what we serve of these repositories.
    pub(super) fn lacking(&self) -> usize {
        let all: u64 = self.counts.iter().map(|(_, counts)| counts.they_lack).sum();
        usize::try_from(all).unwrap_or(usize::MAX)
    }
}

impl Found {
    pub(super) fn add(&mut self, shown: Shown, now: Time) {
        let Shown { topic, counts, .. } = shown;
        for (repo, counts) in counts {
            // What was signed comes first, so the rest is of an earlier time.
            if topic == Topic::Signed {
                self.0.remove(&(repo.clone(), Topic::About));
            }
            self.0.insert((repo, topic), (counts, now));
        }
    }

    /// All that is known of these, as old as its older part; nothing of those of which only a part is.
    pub(super) fn take(&mut self, repos: Vec<RepoId>) -> Vec<(RepoId, Counts, Time)> {
        let mut all = Vec::new();
        for repo in repos {
            let signed = self.0.remove(&(repo.clone(), Topic::Signed));
            let about = self.0.remove(&(repo.clone(), Topic::About));
            if let (Some((signed, at)), Some((about, later))) = (signed, about) {
                all.push((repo, signed.plus(&about), at.min(later)));
            }
        }
        all
    }
}

impl TurnedAway {
    pub(super) fn add(&mut self, id: EventId, now: Time) {
        self.without_room.remove(&id);
        self.unwanted.add(id, now);
    }

    pub(super) fn add_without_room(&mut self, id: EventId, now: Time) {
        self.unwanted.remove(&id);
        self.without_room.add(id, now);
    }

    pub(super) fn unwanted(&self, now: Time) -> BTreeSet<EventId> {
        self.unwanted.ids(now)
    }

    pub(super) fn without_room(&self, now: Time) -> BTreeSet<EventId> {
        self.without_room.ids(now)
    }
}

impl RecentIds {
    fn remove(&mut self, id: &EventId) {
        if let Some(at) = self.when.remove(id) {
            self.in_order.remove(&(at, *id));
        }
    }

    fn add(&mut self, id: EventId, now: Time) {
        if let Some(before) = self.when.insert(id, now) {
            self.in_order.remove(&(before, id));
        }
        self.in_order.insert((now, id));
        // What came last is compared again in a moment.
        if self.in_order.len() > TURNED_AWAY_MAX
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.when.remove(&oldest);
        }
    }

    fn ids(&self, now: Time) -> BTreeSet<EventId> {
        let young = self.when.iter().filter(|(_, at)| now.since(**at) < TURNED_AWAY_FOR);
        young.map(|(id, _)| *id).collect()
    }
}

/// A few of many, others each time: those whose ids come first in an order that depends on the moment.
struct Sample {
    salt: u64,
    first: BTreeSet<(u64, EventId)>,
}

impl Sample {
    fn new(now: Time) -> Self {
        Self { salt: now.0.wrapping_mul(0x9e37_79b9_7f4a_7c15), first: BTreeSet::new() }
    }

    fn sees(&mut self, id: EventId) {
        let end = id.as_bytes().last_chunk::<8>().copied().unwrap_or_default();
        self.first.insert((u64::from_be_bytes(end) ^ self.salt, id));
        if self.first.len() > SAMPLE_MAX {
            self.first.pop_last();
        }
    }

    fn ids(self) -> Vec<EventId> {
        self.first.into_iter().map(|(_, id)| id).collect()
    }
}

/// What is served here of one repository after another.
struct Holdings<'a> {
    store: &'a dyn EventStore,
    signatures: Signatures<'a>,
    count_max: u64,
    now: Time,
}

impl<'a> Holdings<'a> {
    fn new((store, rules): (&'a dyn EventStore, &'a Rules), count_max: u64, now: Time) -> Self {
        Self { store, signatures: Signatures::new(rules), count_max, now }
    }

    fn each_id(
        &mut self,
        topic: Topic,
        repo: &RepoId,
        sink: &mut dyn FnMut(EventId),
    ) -> Result<()> {
        match topic {
            Topic::Signed => {
                self.signatures.ids(&*self.store.read()?, repo)?.into_iter().for_each(sink);
                Ok(())
            }
            Topic::About => self.about(&repo.coordinate().to_string(), sink),
        }
    }

    fn about(&self, coordinate: &str, sink: &mut dyn FnMut(EventId)) -> Result<()> {
        let mut filter = Filter::default();
        filter.tags.insert(b'a', [coordinate.to_owned()].into());
        let until = self.now.timestamp();
        let mut cursor = Cursor::new([filter].into(), Want::Positions, u64::MAX, until);
        let (mut count, mut progress) = (0, Progress::Paused);
        while progress == Progress::Paused && count < self.count_max {
            let mut hit = |hit: Hit<'_>| {
                count += 1;
                sink(hit.position.id());
            };
            let snapshot = self.store.read()?;
            progress = snapshot.advance(Space::Served, &mut cursor, &mut { PAGE }, &mut hit)?;
        }
        Ok(())
    }
}

/// All events of a repository that are served here, and their ids summed up.
pub fn served(
    store: &dyn EventStore,
    rules: &Rules,
    repo: &RepoId,
    now: Time,
) -> Result<(u64, Fingerprint)> {
    let (mut count, mut fingerprint) = (0, Fingerprint::default());
    let mut holdings = Holdings::new((store, rules), COUNTED_MAX, now);
    for topic in [Topic::Signed, Topic::About] {
        holdings.each_id(topic, repo, &mut |id| {
            count += 1;
            fingerprint.add(&id);
        })?;
    }
    Ok((count, fingerprint))
}

/// Writes it down, and warns of peers that lack something, not too often (S-42).
pub(super) async fn keep(
    (ingest, metrics): (&Ingest, &LedgerMetrics),
    log: &LogWriter,
    relay: &RelayUrl,
    found: Vec<(RepoId, Counts, Time)>,
    now: Time,
) {
    for (repo, counts, _) in &found {
        if counts.they_lack > 0 {
            let (relay, repo) = (relay.clone(), repo.coordinate());
            log.write(&LogLine::PeerLacks { relay, repo, lacks: counts.they_lack }, now);
        }
        metrics.checked("events", Seen::Events(*counts).verdict());
    }
    let peer = Peer::Relay(relay.clone());
    let set = move |txn: &mut dyn Transaction| -> std::result::Result<(), StoreError> {
        found.iter().try_for_each(|(repo, counts, at)| {
            ledger::set(txn, &peer, repo, Look::new(Seen::Events(*counts), *at))
        })
    };
    ingest.jot(Box::new(set)).await;
}

/// How a relay stands for these cannot be found out.
pub(super) async fn doubt(
    (ingest, metrics): (&Ingest, &LedgerMetrics),
    relay: &RelayUrl,
    repos: Vec<RepoId>,
    why: Why,
    now: Time,
) {
    let peer = Peer::Relay(relay.clone());
    let seen = Seen::Nothing(why);
    repos.iter().for_each(|_| metrics.checked("events", seen.verdict()));
    let set = move |txn: &mut dyn Transaction| -> std::result::Result<(), StoreError> {
        repos
            .iter()
            .try_for_each(|repo| ledger::set(txn, &peer, repo, Look::new(seen.clone(), now)))
    };
    ingest.jot(Box::new(set)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s30_of_what_was_turned_away_the_latest_is_remembered() {
        let id = |n: usize| {
            EventId::from_bytes([&n.to_be_bytes()[..], &[0; 24]].concat().try_into().unwrap())
        };
        let mut turned_away = RecentIds::default();
        for n in 0..TURNED_AWAY_MAX + 10 {
            turned_away.add(id(n), Time::from_secs(1_000 + n as u64));
        }
        turned_away.add(id(10), Time::from_secs(3_000));
        turned_away.add(id(0), Time::from_secs(3_000));
        let known = turned_away.ids(Time::from_secs(3_000));
        assert_eq!(known.len(), TURNED_AWAY_MAX);
        assert!([0, 10, 12, TURNED_AWAY_MAX + 9].iter().all(|n| known.contains(&id(*n))));
        assert!(!known.contains(&id(11)), "the oldest made way");
        assert!(turned_away.ids(Time::from_secs(6_600)).is_empty(), "it may be welcome by now");
    }
}
