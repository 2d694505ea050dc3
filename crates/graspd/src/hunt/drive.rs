//! Owns the hunt. Nothing else may touch it, so nothing needs a lock; and it never waits for
//! anything but the next thing to happen.

use super::look::look;
use super::news::{log_line, started};
use super::{Ground, job};
use crate::ledger::checks::CheckWatch;
use crate::metrics::FullTable;
use grasp_core::{Domain, Time, WallOffset};
use grasp_engine::hunt::{
    DomainView, FamilyId, FullSlots, Hunt, HuntAction, HuntInput, HuntNews, HuntSettings,
    HuntTotals, HuntView, Job,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// A look at the hunt from outside, and a word to it.
#[derive(Debug, Clone)]
pub struct HuntWatch {
    /// What was last shown, and when: many may look, few are worth the work.
    pub(super) shown: Arc<Mutex<Option<(Time, String)>>>,
    questions: mpsc::Sender<Question>,
    words: mpsc::UnboundedSender<HuntInput>,
    tickets: Arc<Tickets>,
    /// The other ones who ask git servers.
    pub checks: OnceLock<CheckWatch>,
}

/// Tells whether a check may start now; `None` if it may, or when to ask again.
type Leave = oneshot::Sender<Option<Time>>;

/// Who waits for leave to look how a domain stands.
#[derive(Debug, Default)]
struct Tickets {
    next: AtomicU64,
    waiting: parking_lot::Mutex<BTreeMap<u64, (Domain, Leave)>>,
}

/// What somebody outside wants to see; of everything, if nothing is named.
#[derive(Debug)]
struct Question {
    families: Option<Vec<FamilyId>>,
    /// So many families that are looked for in vain are shown, too.
    stuck_max: usize,
    answer: oneshot::Sender<Snapshot>,
}

/// The hunt as it stands, or a part of it.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub totals: HuntTotals,
    pub families: Vec<HuntView>,
    pub domains: Vec<DomainView>,
    /// Families whose git data was looked for in vain several times, and how many there are.
    pub stuck: Vec<HuntView>,
    pub stuck_total: usize,
    /// Fetches that wait because all slots they may use are in use.
    pub full_slots: Vec<FullSlots>,
}

impl Snapshot {
    /// For people.
    fn in_wall_time(mut self, offset: WallOffset) -> Self {
        let hunts = self.families.iter_mut().chain(&mut self.stuck);
        for next in hunts.filter_map(|it| it.next.as_mut()) {
            *next = offset.to_wall(*next);
        }
        for full in &mut self.full_slots {
            full.since = offset.to_wall(full.since);
        }
        for until in self.domains.iter_mut().filter_map(|it| it.paused_until.as_mut()) {
            *until = offset.to_wall(*until);
        }
        self
    }
}

impl HuntWatch {
    /// `None` while the server stops.
    pub async fn look(&self) -> Option<Snapshot> {
        self.ask(None, 0).await
    }

    /// Only these families, and the domains that are named for them.
    pub async fn look_at(&self, families: Vec<FamilyId>) -> Option<Snapshot> {
        self.ask(Some(families), 0).await
    }

    /// The totals, and up to `stuck_max` families that are looked for in vain.
    pub async fn look_at_stuck(&self, stuck_max: usize) -> Option<Snapshot> {
        self.ask(Some(Vec::new()), stuck_max).await
    }

    async fn ask(&self, families: Option<Vec<FamilyId>>, stuck_max: usize) -> Option<Snapshot> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question { families, stuck_max, answer }).await.ok()?;
        answered.await.ok()
    }

    /// A relay said that it is a GRASP server, so its git side may be asked more often.
    pub fn is_grasp(&self, domain: Domain) {
        let _ = self.words.send(HuntInput::Grasp(domain));
    }

    /// What a GRASP server publishes about requests to its git side.
    pub fn publishes(&self, domain: Domain, requests_per_minute: Option<u32>) {
        let _ = self.words.send(HuntInput::GitLimits { domain, requests_per_minute });
    }

    /// Somebody asks for this family by hand.
    pub fn now(&self, family: FamilyId) {
        let _ = self.words.send(HuntInput::Now { family });
    }

    /// Leave for one request to this domain, to see how it stands; or not before when. `again` for a
    /// look that has begun. What has begun ends with `checked`.
    pub async fn may_check(&self, domain: &Domain, again: bool) -> Result<(), Time> {
        let ticket = self.tickets.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let domain = domain.clone();
        self.tickets.waiting.lock().insert(ticket, (domain.clone(), answer));
        let _ = self.words.send(HuntInput::WantsCheck { ticket, domain, again });
        match answered.await {
            Ok(None) => Ok(()),
            Ok(Some(until)) => Err(until),
            Err(_) => Err(Time(u64::MAX)),
        }
    }

    pub fn checked(&self, domain: Domain, objected: Option<Option<Duration>>) {
        let _ = self.words.send(HuntInput::CheckEnded { domain, objected });
    }

    /// So much came from this domain for such a look.
    pub fn received(&self, domain: Domain, bytes: u64) {
        if bytes > 0 {
            let _ = self.words.send(HuntInput::CheckReceived { domain, bytes });
        }
    }

    /// Something that is served has lost objects.
    pub fn is_damaged(&self, family: FamilyId) {
        let _ = self.words.send(HuntInput::Damaged { family });
    }
}

const QUESTIONS_LEN: usize = 16;
/// Inputs handled before actions are carried out, when many come at once.
const HELPING: usize = 256;
const COUNT_EVERY: Duration = Duration::from_secs(1);
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// After so many attempts in vain it is worth a look: about 8 minutes.
const STUCK_ATTEMPTS: u32 = 6;
const FAMILIES_SHOWN_MAX: usize = 1_000;
const DOMAINS_SHOWN_MAX: usize = 1_000;

pub(super) fn start(
    settings: HuntSettings,
    feed: mpsc::Receiver<HuntInput>,
    ground: Arc<Ground>,
) -> HuntWatch {
    let families_max = settings.families_max;
    let hunt = Hunt::new(settings, ground.node.seed());
    // Jobs and looks are few, and each says little: the hunt's own limits bound this.
    let (words, said) = mpsc::unbounded_channel();
    let (questions, asked) = mpsc::channel(QUESTIONS_LEN);
    let tasks = ground.node.tasks.clone();
    let (jobs, counted_at) = (BTreeMap::new(), Time(0));
    let tickets = Arc::<Tickets>::default();
    let driver = Driver {
        hunt,
        feed,
        said,
        asked,
        words: words.clone(),
        jobs,
        ground,
        counted_at,
        families_max,
        tickets: Arc::clone(&tickets),
    };
    driver.ground.node.log.write(&started(), driver.now());
    tasks.spawn(driver.run());
    HuntWatch { shown: Arc::default(), questions, words, tickets, checks: OnceLock::new() }
}

struct Driver {
    hunt: Hunt,
    feed: mpsc::Receiver<HuntInput>,
    said: mpsc::UnboundedReceiver<HuntInput>,
    asked: mpsc::Receiver<Question>,
    words: mpsc::UnboundedSender<HuntInput>,
    jobs: BTreeMap<Job, Handle>,
    ground: Arc<Ground>,
    counted_at: Time,
    families_max: usize,
    tickets: Arc<Tickets>,
}

/// A running job.
struct Handle {
    leave: mpsc::UnboundedSender<()>,
    cancel: CancellationToken,
    domain: Domain,
}

impl Driver {
    async fn run(mut self) {
        let closing = self.ground.node.closing.clone();
        let (mut told, mut said) = (Vec::new(), Vec::new());
        loop {
            let wake = self.wake_in();
            tokio::select! {
                () = closing.cancelled() => break,
                count = self.said.recv_many(&mut said, HELPING) => {
                    if count == 0 { break }
                }
                count = self.feed.recv_many(&mut told, HELPING) => {
                    if count == 0 { break }
                }
                Some(Question { families, stuck_max, answer }) = self.asked.recv() => {
                    let mut snapshot = self.snapshot(families);
                    if stuck_max > 0 {
                        (snapshot.stuck, snapshot.stuck_total) =
                            self.hunt.stuck_views(STUCK_ATTEMPTS, stuck_max, self.now());
                        snapshot.full_slots = self.hunt.full_slots();
                    }
                    // The caller may have left.
                    let _ = answer.send(snapshot.in_wall_time(self.ground.node.clock.offset()));
                }
                () = tokio::time::sleep(wake) => {}
            }
            for input in told.drain(..).chain(said.drain(..)) {
                self.handle(input);
            }
            let now = self.now();
            self.hunt.handle_deadline(now);
            while let Some(action) = self.hunt.poll_action() {
                self.carry_out(action, now);
            }
            self.count(now);
        }
    }

    fn handle(&mut self, input: HuntInput) {
        tracing::debug!(?input, "hunt");
        let metrics = &self.ground.node.metrics.hunt;
        if let HuntInput::Ended { job, .. } = &input
            && let Some(gone) = self.jobs.remove(job)
        {
            metrics.ended(&gone.domain);
        }
        self.hunt.handle(input, self.now());
    }

    fn carry_out(&mut self, action: HuntAction, now: Time) {
        tracing::debug!(?action, "hunt");
        match action {
            HuntAction::Look { family } => {
                let look = look(Arc::clone(&self.ground), family, self.words.clone());
                self.ground.node.tasks.spawn(look);
            }
            HuntAction::Fetch { job, family, url, wants, bytes_max } => {
                let domain = url.domain();
                self.ground.node.metrics.hunt.started(&domain);
                let (leave, leaves) = mpsc::unbounded_channel();
                let cancel = self.ground.node.closing.child_token();
                let order = job::Order { job, family, url, wants, bytes_max };
                let line = job::Line {
                    ground: Arc::clone(&self.ground),
                    words: self.words.clone(),
                    leaves,
                    cancel: cancel.clone(),
                };
                self.ground.node.tasks.spawn(job::run(order, line));
                self.jobs.insert(job, Handle { leave, cancel, domain });
            }
            HuntAction::MayRequest { job } => {
                if let Some(handle) = self.jobs.get(&job) {
                    self.ground.node.metrics.hunt.requested(&handle.domain);
                    let _ = handle.leave.send(());
                }
            }
            HuntAction::Cancel { job } => {
                if let Some(handle) = self.jobs.get(&job) {
                    handle.cancel.cancel();
                }
            }
            HuntAction::Checks { ticket, not_before } => {
                if let Some((domain, waits)) = self.tickets.waiting.lock().remove(&ticket) {
                    // A check shares the budget of its domain, so it is counted there.
                    if not_before.is_none() {
                        self.ground.node.metrics.hunt.requested(&domain);
                    }
                    let _ = waits.send(not_before);
                }
            }
            HuntAction::Tell(news) => self.tell(&news, now),
        }
    }

    fn tell(&self, news: &HuntNews, now: Time) {
        let node = &self.ground.node;
        match news {
            HuntNews::Attempt { .. } => node.metrics.hunt.attempts.inc(),
            HuntNews::TooMany { .. } => {
                self.ground.passed_over.store(true, Ordering::Relaxed);
                node.metrics.full.refused(FullTable::FetchQueue, now);
            }
            HuntNews::FetchFailed { url, failure, why } => {
                let host = url.host_and_port();
                node.metrics.hunt.failed(*failure, &host, why, node.clock.to_wall(now));
            }
            _ => {}
        }
        node.log.write(&log_line(news, now), now);
    }

    fn count(&mut self, now: Time) {
        if now >= self.counted_at.plus(COUNT_EVERY) {
            self.counted_at = now;
            let families = self.hunt.totals().families;
            self.ground.node.metrics.hunt.queue(families);
            // Room again for those who found none.
            if families < self.families_max / 10 * 9
                && self.ground.passed_over.swap(false, Ordering::Relaxed)
            {
                self.ground.tell_again.notify_one();
            }
        }
    }

    fn snapshot(&self, of: Option<Vec<FamilyId>>) -> Snapshot {
        let (now, totals) = (self.now(), self.hunt.totals());
        let Some(wanted) = of else {
            let (mut families, mut domains) = (self.hunt.views(now), self.hunt.domains(now));
            families.truncate(FAMILIES_SHOWN_MAX);
            domains.truncate(DOMAINS_SHOWN_MAX);
            return Snapshot { totals, families, domains, ..Snapshot::default() };
        };
        let families: Vec<HuntView> = wanted.iter().filter_map(|it| self.hunt.view(it)).collect();
        let urls = families.iter().flat_map(|it| &it.sources).map(|it| it.url.domain());
        let named: BTreeSet<Domain> = urls.collect();
        let domains = named.iter().filter_map(|it| self.hunt.domain(it, now)).collect();
        Snapshot { totals, families, domains, ..Snapshot::default() }
    }

    fn wake_in(&self) -> Duration {
        let now = self.now();
        let next = self.hunt.next_deadline().map(|(at, _)| at.since(now));
        next.unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }

    fn now(&self) -> Time {
        self.ground.node.clock.now()
    }
}
