//! Gathers the problems of this server from everything it knows, and watches them: a log line when one
//! appears and when it ends, and a figure for each kind. Every source is a kept figure or a bounded read.

use super::problems::{Lack, NEARLY_FULL_PERCENT, Problem, ProblemKind, ProblemReport, lasted};
use super::sight::Sight;
use super::{ask, words};
use crate::ingest::{HeldFigures, held_figures};
use crate::ledger::{self, LaggingServer};
use crate::metrics::FullTable;
use crate::node::Node;
use grasp_core::held_share::{HeldSide, HeldSource};
use grasp_core::{RelayUrl, RepoId, Time};
use grasp_engine::RelayTrouble;
use grasp_engine::hunt::HuntView;
use grasp_git::NoRoom;
use grasp_store::{Result, Snapshot, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Problems of one kind that are named; of the rest only the number.
pub(super) const NAMED_MAX: usize = 5;
/// Links take their time after a start.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// A burst of new states fills the slots for a moment.
const SLOTS_FULL_AFTER: Duration = Duration::from_secs(10);
const WATCH_EVERY: Duration = Duration::from_secs(10);
/// Servers that are named as asked in vain.
const ASKED_NAMED_MAX: usize = 3;

impl Sight<'_> {
    /// All problems there are, the urgent ones first.
    pub(super) fn problems(&self, store: &dyn Snapshot, usage: &Usage) -> Result<Vec<Problem>> {
        let mut found = self.machine_problems(usage);
        found.extend(self.table_problems(store)?);
        found.extend(self.relay_problems());
        found.extend(self.mirror_problems(store)?);
        found.extend(self.slot_problems());
        found.extend(self.fetch_problems());
        found.sort_by_key(|problem| problem.kind().severity());
        Ok(found)
    }

    fn machine_problems(&self, usage: &Usage) -> Vec<Problem> {
        let mut found = Vec::new();
        found.extend(self.live.not_ready.clone().map(|reason| Problem::NotReady { reason }));
        if let Some(NoRoom { free_bytes, reserve_bytes, .. }) = self.live.disk_shortage {
            found.push(Problem::DiskLow { free_bytes, reserve_bytes });
        }
        if let Some((by_ms, ago)) = self.live.clock_step {
            found.push(Problem::ClockStep { by_ms, ago });
        }
        let used_percent = usage.used_bytes.saturating_mul(100) / usage.budget_bytes.max(1);
        if used_percent >= NEARLY_FULL_PERCENT {
            found.push(Problem::StoreNearlyFull { used_percent });
        }
        found
    }

    fn table_problems(&self, store: &dyn Snapshot) -> Result<Vec<Problem>> {
        let mut full = self.live.full_tables.clone();
        if ledger::tally(store)?.rows() >= ledger::ROWS_MAX {
            full.push((FullTable::Ledger, 0));
        }
        let shares = self.held_problems(store)?;
        // Which share is full says more than that something was refused.
        full.retain(|(table, _)| shares.is_empty() || *table != FullTable::Held);
        let tables = full.into_iter().map(|(table, refused)| Problem::TableFull { table, refused });
        Ok(tables.chain(named(shares)).collect())
    }

    fn held_problems(&self, store: &dyn Snapshot) -> Result<Vec<Problem>> {
        let HeldFigures { classes, full_sources } = held_figures(store, self.identity.held_table)?;
        let classes = classes.into_iter().filter(|(_, _, used, limit)| used.reaches(*limit));
        let mut found: Vec<Problem> = classes
            .map(|(side, class, used, _)| {
                let from = match side {
                    HeldSide::Direct => "clients",
                    HeldSide::Sync => "other relays",
                };
                Problem::HeldShareFull { share: format!("{} from {from}", class.name()), used }
            })
            .collect();
        found.extend(full_sources.into_iter().map(|(class, source, used)| {
            let share = format!("{} from {}", class.name(), self.source_name(&source));
            Problem::HeldShareFull { share, used }
        }));
        Ok(found)
    }

    /// Who it is, for everybody who may read a status page: no addresses of clients.
    fn source_name(&self, source: &HeldSource) -> String {
        match source {
            HeldSource::Relay(url) => format!("the relay {}", self.identity.shown_relay(url)),
            HeldSource::Network(_) => "one network".to_owned(),
            HeldSource::Address(_) => "one address".to_owned(),
        }
    }

    fn relay_problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let totals = self.live.totals;
        let settled = self.live.uptime.is_some_and(|uptime| uptime > SETTLED_AFTER);
        if settled && totals.relays > 0 && totals.connected == 0 {
            found.push(Problem::NoRelayConnected { relays: totals.relays });
        }
        let troubles = self.live.relay_troubles.iter().map(|it| self.relay_problem(it));
        found.extend(named(troubles.collect()));
        found
    }

    fn relay_problem(&self, (relay, trouble): &(RelayUrl, RelayTrouble)) -> Problem {
        let relay = self.identity.relay_host(relay);
        match *trouble {
            RelayTrouble::Dead { since, next_try } => Problem::RelayDead { relay, since, next_try },
            RelayTrouble::Unreachable { since, failures, next_try } => {
                Problem::RelayUnreachable { relay, since, failures, next_try }
            }
            RelayTrouble::Banned { until } => Problem::RelayBanned { relay, until },
            RelayTrouble::RefusedEvents { bytes, until } => {
                Problem::RelayRefused { relay, bytes, until }
            }
            RelayTrouble::Paused { until } => Problem::RelayPaused { relay, until },
        }
    }

    fn mirror_problems(&self, store: &dyn Snapshot) -> Result<Vec<Problem>> {
        let of = |verdict| ledger::lagging(store, verdict, self.now, self.identity.verdict_age_max);
        let ours = of(super::Verdict::WeLack)?;
        let theirs = of(super::Verdict::TheyLack)?;
        let ours = ours.into_iter().map(|it| Problem::WeLack(self.lack(it, false)));
        let theirs = theirs.into_iter().map(|it| Problem::MirrorLacks(self.lack(it, true)));
        Ok(named(ours.chain(theirs).collect()))
    }

    fn lack(&self, it: LaggingServer, theirs: bool) -> Lack {
        let learn_from = (theirs && it.has_nothing).then(|| self.server((0, 0)).relay);
        Lack {
            server: it.server,
            repo: it.repo,
            because: it.because,
            other_repositories: it.repositories.saturating_sub(1),
            learn_from,
        }
    }

    fn slot_problems(&self) -> impl Iterator<Item = Problem> {
        let full = self.live.full_slots.iter();
        let lasting = full.filter(|it| self.now.since(it.since) >= SLOTS_FULL_AFTER);
        lasting.map(|it| Problem::SlotsFull(*it))
    }

    fn fetch_problems(&self) -> Vec<Problem> {
        let stuck = self.live.stuck.iter().map(|hunt| {
            let repo =
                RepoId { owner: hunt.family.owner, identifier: hunt.family.identifier.clone() };
            Problem::FetchStuck { repo, attempts: hunt.attempts, asked: asked(hunt) }
        });
        let mut found: Vec<Problem> = stuck.collect();
        let further = self.live.stuck_total.saturating_sub(found.len());
        if further > 0 {
            found.push(Problem::Further { kind: ProblemKind::FetchStuck, count: further });
        }
        found
    }
}

/// Of each kind the first few, and how many more there are.
fn named(all: Vec<Problem>) -> Vec<Problem> {
    let mut counts: Vec<(ProblemKind, usize)> = Vec::new();
    let mut found = Vec::new();
    for problem in all {
        let kind = problem.kind();
        let index = counts.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            counts.push((kind, 0));
            counts.len() - 1
        });
        let Some((_, count)) = counts.get_mut(index) else { continue };
        *count += 1;
        if *count <= NAMED_MAX {
            found.push(problem);
        }
    }
    let further = counts.into_iter().filter(|(_, count)| *count > NAMED_MAX);
    found.extend(further.map(|(kind, count)| Problem::Further { kind, count: count - NAMED_MAX }));
    found
}

fn asked(hunt: &HuntView) -> String {
    let asked = hunt.sources.iter().filter(|it| it.asked.is_some());
    let hosts: Vec<String> = asked.take(ASKED_NAMED_MAX).map(|it| words::host(&it.url)).collect();
    match hosts.is_empty() {
        true => ": no server is named that could have it".to_owned(),
        false => format!(" at {}", hosts.join(", ")),
    }
}

/// Looks again and again, until the server stops.
pub async fn watch_problems(node: Arc<Node>) {
    let mut known = KnownProblems::default();
    let mut tick = tokio::time::interval(WATCH_EVERY);
    loop {
        tokio::select! {
            () = node.closing.cancelled() => return,
            _ = tick.tick() => {}
        }
        let Some(status) = ask::status(&node).await else { continue };
        node.metrics.tell_problems(&status.problem_details);
        for change in known.update(&status.problem_details, status.now) {
            change.log();
        }
    }
}

/// The problems that were logged as begun, by code and object.
#[derive(Debug, Default)]
struct KnownProblems(BTreeMap<(String, String), Time>);

#[derive(Debug, PartialEq, Eq)]
enum ProblemChange {
    Began(ProblemReport),
    Ended { code: String, object: String, lasted: String },
}

impl KnownProblems {
    fn update(&mut self, problems: &[ProblemReport], now: Time) -> Vec<ProblemChange> {
        let key = |it: &ProblemReport| (it.code.clone(), it.object.clone());
        let current: BTreeMap<_, _> = problems.iter().map(|it| (key(it), it)).collect();
        let mut changes = Vec::new();
        self.0.retain(|(code, object), began| {
            let lasts = current.contains_key(&(code.clone(), object.clone()));
            if !lasts {
                let lasted = lasted(*began, now);
                let (code, object) = (code.clone(), object.clone());
                changes.push(ProblemChange::Ended { code, object, lasted });
            }
            lasts
        });
        for (key, problem) in current {
            self.0.entry(key).or_insert_with(|| {
                changes.push(ProblemChange::Began(problem.clone()));
                now
            });
        }
        changes
    }
}

impl ProblemChange {
    fn log(&self) {
        match self {
            Self::Began(it) => {
                tracing::warn!(code = it.code, object = it.object, "problem: {}", it.sentence());
            }
            Self::Ended { code, object, lasted } => {
                tracing::info!(code, object, lasted, "this problem is over");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(relay: &str) -> Problem {
        Problem::RelayDead { relay: relay.into(), since: Time(0), next_try: Time(0) }
    }

    #[test]
    fn of_many_problems_of_one_kind_the_first_are_named_and_the_rest_counted() {
        let all: Vec<Problem> =
            (0..NAMED_MAX + 3).map(|n| dead(&format!("r{n}.example"))).collect();
        let paused = Problem::RelayPaused { relay: "p.example".into(), until: Time(9) };
        let shown = named(all.iter().cloned().chain([paused.clone()]).collect());
        let further = Problem::Further { kind: ProblemKind::RelayDead, count: 3 };
        let expected: Vec<Problem> =
            all.into_iter().take(NAMED_MAX).chain([paused, further]).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_problem_is_logged_once_when_it_appears_and_once_when_it_ends() {
        let mut known = KnownProblems::default();
        let at = Time::from_secs;
        let one = dead("r.example").report(at(0));
        assert_eq!(
            known.update(std::slice::from_ref(&one), at(10)),
            [ProblemChange::Began(one.clone())]
        );
        let later = ProblemReport { what: "worded differently by now".into(), ..one };
        assert_eq!(known.update(&[later], at(20)), []);
        let (code, object) = ("relay-dead".into(), "r.example".into());
        let ended = ProblemChange::Ended { code, object, lasted: "60 s".into() };
        assert_eq!(known.update(&[], at(70)), [ended]);
        assert_eq!(known.update(&[], at(80)), []);
    }
}
