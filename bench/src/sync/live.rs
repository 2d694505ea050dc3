//! Three servers, a strict relay and a mad one, all named by one repository: how long it takes until
//! what one of them stores is served by the others, and what a server fetches that was killed.

use super::Run;
use super::listening::Ledger;
use super::paced::Publishers;
use super::plan::Live;
use super::proxy::{Proxy, mega, quiet};
use super::shared::{Host, Shared};
use crate::events::{comment, issue, on_all_cores};
use crate::report::Row;
use crate::stats::{Latencies, number};
use crate::work::ingest;
use anyhow::{Result, ensure};
use grasp_core::{EventId, VerifiedEvent};
use grasp_testkit::behaviour::{Answers, Door, Refuses};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Author, Behaviour, Random, Repository, now};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const HOSTS: usize = 3;
const PAGE: u32 = 100;
/// One event in so many begins a new thread.
const ISSUE_ONE_IN: usize = 5;
/// Seeds beyond those of all rounds before.
const LOAD: u64 = 1 << 20;
const MISSED: u64 = 2 << 20;
const YEAR_SECS: u64 = 365 * 24 * 3600;
/// A relay in a mood changes it this often.
const MOOD: Duration = Duration::from_secs(3);
/// When nothing arrives for so long, what is missing never will.
const LOST_AFTER: Duration = Duration::from_secs(30);
/// What is linked tells of an event within this time.
const LINKED: Duration = Duration::from_secs(2);

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let plan = run.plan.live;
    let mut net = Net::start(run, &plan).await?;
    let mut ledger = Ledger::of(&net.addresses()).await?;
    let strict = Arc::clone(&net.strict);
    let mut publishers = Publishers::at(&net.hosts, &strict, &mut ledger).await?;
    let mood = net.chaos_changes();
    let probes = net.linked(&mut publishers, &mut ledger, &plan).await?;

    eprintln!("{} events at {} per second", plan.events, plan.per_second);
    let events = net.events(plan.events, LOAD, now(), plan.per_second);
    let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    publishers.publish_all(&events, plan.per_second, &mut ledger).await?;
    let lost = ledger.awaits(&ids, LOST_AFTER).await?;
    net.report_delays(run, &ledger, &ids, publishers.places());
    run.report.add(Row::new("live, events that did not arrive", number(lost), "").at_most(0.0));
    mood.abort();
    net.recent.extend(probes);
    net.recent.extend(events);
    if lost == 0 {
        net.survives_a_kill(run, &plan).await?;
    }
    Ok(())
}

struct Net {
    hosts: Vec<Host>,
    strict: Arc<ChaosRelay>,
    strict_door: Proxy,
    chaos: Arc<ChaosRelay>,
    repository: Repository,
    roots: Vec<VerifiedEvent>,
    authors: Vec<Author>,
    /// Of the year before, and of these minutes.
    past: Vec<VerifiedEvent>,
    recent: Vec<VerifiedEvent>,
    commit: Latencies,
}

impl Net {
    async fn start(run: &Run, plan: &Live) -> Result<Self> {
        eprintln!("{HOSTS} servers with {} events each, and two relays", plan.past);
        let authors: Vec<Author> = (2..52).map(Author::number).collect();
        let repository = Repository::new(Author::number(1), "acme");
        let roots = on_all_cores(plan.roots, |n| {
            let mut random = Random::seeded(n as u64);
            let draft = issue(&repository.coordinate(), n, now(), &mut random);
            random.pick(&authors).signs(draft)
        });
        let past = on_all_cores(plan.past, |n| {
            let mut random = Random::seeded((1 << 40) + n as u64);
            let at = now() - YEAR_SECS + n as u64 * (YEAR_SECS - 24 * 3600) / plan.past as u64;
            let draft = comment(random.pick(&roots), at, &mut random);
            random.pick(&authors).signs(draft)
        });
        let mut hosts = Vec::new();
        for _ in 0..HOSTS {
            hosts.push(Host::start(&run.binary, plan, &past).await?);
        }
        let strict = Arc::new(ChaosRelay::strict(PAGE).await);
        let strict_door = Proxy::leading_to(strict.address()).await?;
        let chaos = Arc::new(ChaosRelay::start(Behaviour::common()).await);
        for root in roots.iter().take(20) {
            chaos.publishes(root);
        }
        let relays = [strict_door.url(), chaos.url().to_owned()];
        let shared = Shared::by(&hosts, &relays).await;
        let mut commit = Latencies::default();
        for (n, host) in hosts.iter().enumerate() {
            shared.joins(host, plan.pauses.patience).await?;
            // While the others have nothing to do: what one event costs by itself.
            if n == 0 {
                commit = ingest::publish_alone(&host.server.address, &roots).await?;
            }
        }
        // Nobody takes a comment on a thread it has not heard of.
        for host in &hosts {
            host.has(past.len() + roots.len() + 2, plan.pauses.patience).await?;
        }
        let recent = roots.clone();
        Ok(Self {
            hosts,
            strict,
            strict_door,
            chaos,
            repository,
            roots,
            authors,
            past,
            recent,
            commit,
        })
    }

    fn addresses(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.server.address.clone()).collect()
    }

    /// Issues, and comments on threads that everybody has followed for a while. The same seed
    /// makes the same ones.
    fn events(&self, count: usize, seed: u64, from: u64, per_second: u64) -> Vec<VerifiedEvent> {
        on_all_cores(count, |n| {
            let mut random = Random::seeded((seed << 40) + n as u64);
            let at = from + n as u64 / per_second;
            let draft = match n % ISSUE_ONE_IN {
                0 => issue(&self.repository.coordinate(), n, at, &mut random),
                _ => comment(random.pick(&self.roots), at, &mut random),
            };
            random.pick(&self.authors).signs(draft)
        })
    }

    /// Waits until an issue and a comment, published anywhere, are soon heard everywhere.
    async fn linked(
        &self,
        publishers: &mut Publishers<'_>,
        ledger: &mut Ledger,
        plan: &Live,
    ) -> Result<Vec<VerifiedEvent>> {
        let (started, mut sent) = (Instant::now(), Vec::new());
        for round in 1.. {
            let probes = self.events(2 * publishers.places(), round, now(), u64::MAX);
            for (n, probe) in probes.iter().enumerate() {
                publishers.publish(probe, n / 2, ledger).await?;
            }
            let ids: Vec<EventId> = probes.iter().map(|event| event.id).collect();
            let missing = ledger.awaits(&ids, LINKED).await?;
            sent.extend(probes);
            if missing == 0 {
                break;
            }
            ensure!(started.elapsed() < plan.pauses.patience, "the servers do not find each other");
        }
        Ok(sent)
    }

    /// Every few seconds something else is wrong with it, and everybody is thrown out.
    fn chaos_changes(&self) -> JoinHandle<()> {
        let chaos = Arc::clone(&self.chaos);
        tokio::spawn(async move {
            for mood in moods().iter().cycle() {
                chaos.becomes(mood.clone());
                chaos.drops_everyone();
                tokio::time::sleep(MOOD).await;
            }
        })
    }

    fn report_delays(&self, run: &mut Run, ledger: &Ledger, ids: &[EventId], places: usize) {
        let (mut all, mut from_relay) = (Latencies::default(), Latencies::default());
        for (n, id) in ids.iter().enumerate() {
            let place = n % places;
            let others = (0..HOSTS).filter(|server| *server != place);
            for delay in others.filter_map(|server| ledger.delay(id, server)) {
                all.add(delay);
                if place == HOSTS {
                    from_relay.add(delay);
                }
            }
        }
        let commit = self.commit.p50_ms();
        run.report.add(
            Row::new("live, visible elsewhere after it is stored, p50", all.p50_ms(), "ms")
                .beside("one publish p50", commit)
                .below(5.0 + 2.0 * commit),
        );
        run.report.add(
            Row::new("live, visible elsewhere after it is stored, p99", all.p99_ms(), "ms")
                .beside("one publish p99", self.commit.p99_ms())
                .below(100.0),
        );
        let (p50, p99) = (from_relay.p50_ms(), from_relay.p99_ms());
        run.report.note(format!(
            "live: {} arrivals, at the latest after {:.0} ms; from the strict relay p50 {p50:.1} ms, p99 {p99:.1} ms",
            all.len(),
            crate::stats::millis(all.percentile(100)),
        ));
    }

    async fn survives_a_kill(&mut self, run: &mut Run, plan: &Live) -> Result<()> {
        eprintln!("kill -9, and back");
        self.chaos.becomes(Behaviour { door: Door::Refuses, ..Behaviour::common() });
        self.chaos.drops_everyone();
        let missed = self.events(plan.missed, MISSED, now(), plan.per_second);
        let [killed, others @ ..] = self.hosts.as_mut_slice() else { return Ok(()) };
        let had = killed.events().await?;
        killed.server.kill().await;
        for (host, share) in others.iter().zip(missed.chunks(missed.len().div_ceil(2))) {
            ingest::publish_alone(&host.server.address, share).await?;
        }
        let expected = had + missed.len();
        for host in others.iter() {
            host.has(expected, plan.pauses.patience).await?;
        }
        let peers: Vec<&Proxy> = others.iter().map(|host| &host.door).collect();
        let doors: Vec<&Proxy> = peers.iter().copied().chain([&self.strict_door]).collect();
        doors.iter().for_each(|door| door.count_anew());
        let started = Instant::now();
        killed.returns().await;
        killed.has(expected, plan.pauses.patience).await?;
        let took = started.elapsed();
        quiet(&doors, &plan.pauses).await?;
        let from_peers = mega(peers.iter().map(|door| door.bytes()).sum())?;
        let from_strict = mega(self.strict_door.bytes())?;
        ensure!(killed.events().await? == expected, "more came than anybody published");

        self.recent.extend(missed);
        let recent = bytes(&self.recent);
        let on_strict = bytes(self.recent.iter().filter(|event| self.strict.holds(&event.id)));
        run.report.add(Row::new("kill -9 and restart, complete after", took.as_secs_f64(), "s"));
        run.report.add(
            Row::new("kill -9 and restart, received from peers with NIP-77", from_peers, "MB")
                .beside("15 minutes of both peers", 2.0 * recent / 1e6)
                .at_most(2.0),
        );
        run.report.add(
            Row::new("kill -9 and restart, received from the relay without", from_strict, "MB")
                .beside("15 minutes of this relay", on_strict / 1e6)
                .at_most_share(1.2),
        );
        let all = recent + bytes(&self.past);
        run.report.note(format!(
            "kill -9: it had {had} events of {:.1} MB, {:.1} MB of them older than the 15 minutes that every \
             return overlaps with (S-13); it lacked {}",
            all / 1e6,
            bytes(&self.past) / 1e6,
            plan.missed
        ));
        Ok(())
    }
}

/// As they are, without anything around them.
pub(super) fn bytes<'a>(events: impl IntoIterator<Item = &'a VerifiedEvent>) -> f64 {
    number(events.into_iter().map(|event| event.json().len()).sum())
}

/// None of them invents events that anybody would have to take.
fn moods() -> Vec<Behaviour> {
    let answers = |answers| Behaviour { answers, ..Behaviour::common() };
    let refuses = |refuses| Behaviour { refuses, ..Behaviour::common() };
    vec![
        answers(Answers::NeverEose),
        refuses(Refuses::All("rate-limited: slow down there chief")),
        answers(Answers::Silent),
        refuses(Refuses::RateByNotice { per_minute: 2 }),
        answers(Answers::SlowDrip { every: Duration::from_millis(500) }),
        refuses(Refuses::First(3, "error: could not connect to the database")),
        answers(Answers::Forged),
        answers(Answers::Wrong),
    ]
}
