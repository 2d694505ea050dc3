//! The writer's desk: one thread, one transaction per helping, answers only after the disk has it.

use super::admit::{Admission, Bounds, Clerk, Effects, Purse, extend};
use super::affected::{Intent, IntentKey};
use super::found::Taken;
use super::helping::{Concluded, Incoming};
use super::land::{Delivery, Landed, Outcome};
use super::lanes::{Asker, Ingest, Sealed, Work};
use super::paused::{PausedRelease, PausedReleases};
use super::roles::RoleCache;
use super::second_chance::{Arrivals, Revived, SecondChance};
use super::settle::{SettleError, Settler};
use super::sweep::Tide;
use crate::clock::{Clock, ClockReading};
use crate::feed::Wake;
use crate::host::{Chore, Host};
use crate::hub::{Fresh, Hub};
use crate::metrics::Metrics;
use crate::threads::essential;
use crossbeam_channel::{Receiver, Sender, bounded};
use grasp_core::policy::{Answer, Prefix, Reason, Rules};
use grasp_core::{EventId, Kind};
use grasp_relay::{Budgets, IpKey, Refused};
use grasp_store::{EventStore, SourceKind, StoreError, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

#[derive(Debug)]
pub struct Writer {
    pub store: Arc<dyn EventStore>,
    pub rules: Arc<Rules>,
    pub bounds: Bounds,
    pub budgets: Arc<Mutex<Budgets>>,
    pub host: Arc<Host>,
    pub hub: Arc<Hub>,
    pub clock: Arc<Clock>,
    pub metrics: Arc<Metrics>,
    /// Events that may still be welcome.
    pub second_chance: Arc<SecondChance>,
    /// Whoever follows what is stored here.
    pub wake: Arc<Wake>,
}

/// The writer at one moment, with what it remembers between events.
pub(super) struct Desk<'a> {
    pub(super) writer: &'a Writer,
    pub(super) roles: &'a mut RoleCache,
    /// Holds and uploads wait by steady time; events are judged and recorded by wall time.
    pub(super) at: ClockReading,
    /// Those whose refused events may be judged differently after this.
    pub(super) revived: Revived,
    pub(super) paused: &'a mut PausedReleases,
    /// How long one release may keep all others waiting; without it, until it is done.
    pub(super) turn: Option<Duration>,
}

const NOT_STORED: Reason =
    Reason::new(Prefix::Error, "store-error", "the event could not be stored; try again later");
/// Events per transaction: many share one sync, none waits long for its neighbours.
const HELPING: usize = 1024;
/// Tags per transaction, within one event: each may be an index entry and dirty a page.
const HELPING_TAGS: usize = 50_000;
const INBOX_LEN: usize = 4096;
/// Batches of committed events not yet told to subscribers; beyond that the writer waits.
const TELLER_LEN: usize = 64;

/// How long one release may keep all others waiting.
const TURN: Duration = Duration::from_millis(100);

/// What came of a commit. Subscribers hear of it before its sender does: whoever was told yes finds
/// the event with the very next question.
struct News {
    fresh: Vec<Fresh>,
    reply: Option<Reply>,
}

enum Reply {
    Event { asker: Arc<dyn Asker>, id: EventId, answer: Answer, _room: OwnedSemaphorePermit },
    Push(oneshot::Sender<Outcome>, Outcome),
    Fetch(oneshot::Sender<Taken>, Taken),
}

impl Writer {
    /// Finishes what a crash interrupted. Comes before anybody is let in.
    pub fn recover(&self) -> anyhow::Result<()> {
        let (mut roles, mut paused) = (RoleCache::default(), PausedReleases::default());
        Desk { turn: None, ..self.desk(&mut roles, &mut paused) }.recover()
    }

    /// Starts the writer, the teller and `lanes` verification threads. Dropping the returned
    /// `Ingest` lets all of them finish what they have and end.
    pub fn start(self, lanes: usize) -> std::io::Result<(Ingest, Vec<JoinHandle<()>>)> {
        let (work, inbox) = mpsc::channel(INBOX_LEN);
        let (teller, news) = bounded(TELLER_LEN);
        let ingest = Ingest::start(&self.store, lanes, work)?;
        let hub = Arc::clone(&self.hub);
        let telling = essential("tell", move || tell(&hub, news))?;
        let writing = essential("write", move || self.run(inbox, &teller))?;
        Ok((ingest, vec![writing, telling]))
    }

    fn desk<'a>(&'a self, roles: &'a mut RoleCache, paused: &'a mut PausedReleases) -> Desk<'a> {
        let (at, revived, turn) = (self.clock.read(), Revived::new(), Some(TURN));
        Desk { writer: self, roles, at, revived, paused, turn }
    }

    fn run(self, mut inbox: mpsc::Receiver<Work>, teller: &Sender<Vec<News>>) {
        let mut work = Vec::with_capacity(HELPING);
        let (mut roles, mut paused) = (RoleCache::default(), PausedReleases::default());
        let mut tide = Tide::default();
        while receive(&mut inbox, &mut work, &paused) {
            let mut batch = Vec::with_capacity(work.len());
            let mut tags = 0;
            for item in work.drain(..) {
                match item {
                    Work::Admit(sealed) => {
                        tags += sealed.event.tags.len();
                        batch.push(sealed);
                    }
                    other => {
                        let batch = std::mem::take(&mut batch);
                        self.desk(&mut roles, &mut paused).admit(batch, teller);
                        tags = 0;
                        self.desk(&mut roles, &mut paused).serve(other, &mut tide, teller);
                    }
                }
                if tags > HELPING_TAGS {
                    let batch = std::mem::take(&mut batch);
                    self.desk(&mut roles, &mut paused).admit(batch, teller);
                    tags = 0;
                }
            }
            self.desk(&mut roles, &mut paused).admit(batch, teller);
            self.desk(&mut roles, &mut paused).resume(teller);
        }
    }

    pub(super) fn may_bring_repository(&self, ip: Option<IpKey>) -> Result<(), Reason> {
        let Some(ip) = ip else { return Ok(()) };
        let taken = self.budgets.lock().take_new_repository(ip, self.clock.now());
        taken.map_err(|why| too_fast("new-repositories", &why))
    }

    pub(super) fn may_hold(&self, ip: Option<IpKey>) -> Result<(), Reason> {
        let Some(ip) = ip else { return Ok(()) };
        let taken = self.budgets.lock().take_held(ip, self.clock.now());
        taken.map_err(|why| too_fast("held-events", &why))
    }
}

fn too_fast(code: &'static str, why: &Refused) -> Reason {
    Reason::saying(Prefix::RateLimited, code, why.to_string())
}

impl Desk<'_> {
    fn serve(&mut self, work: Work, tide: &mut Tide, teller: &Sender<Vec<News>>) {
        let news = match work {
            Work::Admit(_) => return,
            Work::Sweep => News { fresh: self.sweep(tide), reply: None },
            Work::Settle(repo) => News { fresh: self.look_after(&repo), reply: None },
            Work::Fetched(fetched, done) => {
                let repo = fetched.to.clone();
                let (fresh, taken) = self.fetched(*fetched);
                self.writer.host.send(Chore::Tidy(repo));
                News { fresh, reply: Some(Reply::Fetch(done, taken)) }
            }
            Work::Mend(mended) => News { fresh: self.mend(mended), reply: None },
            Work::Complete(ids) => News { fresh: self.complete(&ids), reply: None },
            Work::Copied(copied) => News { fresh: self.copied(copied), reply: None },
            Work::Jot(mut jotting) => {
                if let Err(error) = self.writer.store.write(&mut *jotting) {
                    tracing::error!(%error, "a note could not be written");
                }
                return;
            }
            Work::NotCopied { to, proposals } => {
                self.not_copied(&to, &proposals);
                return;
            }
            Work::Extend(ids, done) => {
                self.extend(&ids);
                let _ = done.send(());
                return;
            }
            Work::Land(mut delivery, answer) => {
                let (fresh, landed) = self.land(&mut delivery);
                let reply = match landed {
                    Landed::Ended(outcome) => Some(self.push_ended(&delivery, outcome, answer)),
                    Landed::Paused => {
                        self.paused.await_last(*delivery, answer);
                        None
                    }
                };
                News { fresh, reply }
            }
        };
        self.tell(news, teller);
    }

    fn push_ended(
        &self,
        delivery: &Delivery,
        outcome: Outcome,
        answer: oneshot::Sender<Outcome>,
    ) -> Reply {
        if outcome == Outcome::Done {
            self.writer.host.send(Chore::Tidy(delivery.repo.clone()));
        }
        Reply::Push(answer, outcome)
    }

    /// Gives a release that was paused its next turn.
    fn resume(&mut self, teller: &Sender<Vec<News>>) {
        let Some(PausedRelease { key, push }) = self.paused.take_first() else { return };
        let snapshot = self.writer.store.read();
        let left = snapshot.and_then(|snapshot| Intent::read(&*snapshot, &key));
        let carried = match left {
            Ok(Some(intent)) => self.carry(&key, &intent),
            // Another release has finished it.
            Ok(None) => Carried::default(),
            // It stays in the journal, and the next sweep finds it there.
            Err(error) => Carried { error: Some(error.into()), ..Carried::default() },
        };
        carried.complain();
        let reply = match push {
            Some((delivery, answer)) if carried.is_paused => {
                self.paused.await_last(delivery, answer);
                None
            }
            Some((delivery, answer)) => {
                let outcome = self.outcome(&delivery, carried.error.as_ref());
                Some(self.push_ended(&delivery, outcome, answer))
            }
            None => None,
        };
        self.tell(News { fresh: carried.fresh, reply }, teller);
    }

    fn tell(&mut self, news: News, teller: &Sender<Vec<News>>) {
        let events = news.fresh.iter().map(|fresh| Arc::clone(&fresh.event)).collect();
        // The teller ends only after this thread does.
        let _ = teller.send(vec![news]);
        let revived = std::mem::take(&mut self.revived);
        self.follow_up(Arrivals { events, revived }, teller);
    }

    fn follow_up(&mut self, came: Arrivals, teller: &Sender<Vec<News>>) {
        let fresh = self.give_second_chances(came);
        if !fresh.is_empty() {
            let _ = teller.send(vec![News { fresh, reply: None }]);
        }
    }

    fn extend(&self, ids: &[EventId]) {
        let patience = self.writer.host.patience;
        let extended = self
            .writer
            .store
            .write(&mut |txn| ids.iter().try_for_each(|id| extend(txn, id, self.at.now, patience)));
        if let Err(error) = extended {
            tracing::error!(%error, "a deadline could not be extended");
        }
    }

    fn admit(&mut self, mut batch: Vec<Sealed>, teller: &Sender<Vec<News>>) {
        if batch.is_empty() {
            return;
        }
        let incoming: Vec<Incoming<'_>> = batch.iter().map(Incoming::of).collect();
        match self.commit(&incoming) {
            Ok(committed) => {
                let concluded = self.conclude(&incoming, committed);
                self.report(batch, concluded, teller);
            }
            Err(error) if batch.len() <= 1 => batch.iter().for_each(|one| self.fail(one, &error)),
            // One of them broke the transaction; without it, the others are fine.
            Err(_) => {
                let second_half = batch.split_off(batch.len() / 2);
                self.admit(batch, teller);
                self.admit(second_half, teller);
            }
        }
    }

    fn report(&mut self, batch: Vec<Sealed>, concluded: Concluded, teller: &Sender<Vec<News>>) {
        let Concluded { admissions, carried, arrivals } = concluded;
        let mut news: Vec<News> =
            carried.into_iter().map(|fresh| News { fresh, reply: None }).collect();
        for (sealed, admission) in batch.into_iter().zip(admissions) {
            let Admission { answer, code, fresh, .. } = admission;
            self.writer.metrics.event_judged(sealed.event.kind, answer.ok, code);
            self.writer.metrics.full.event_refused(code, self.writer.clock.now());
            let is_new = answer.refusal.is_none();
            // What relays bring is counted where they are listened to.
            if is_new && sealed.from.source == SourceKind::Direct {
                self.writer.metrics.sync.event(SourceKind::Direct);
            }
            if sealed.event.kind == Kind::STATE && code == Reason::SAME_SECOND_STATE.code() {
                self.writer.host.same_second.keep(&sealed.event);
            }
            let (id, asker) = (sealed.event.id, sealed.asker);
            let reply = Some(Reply::Event { asker, id, answer, _room: sealed.room });
            news.push(News { fresh, reply });
        }
        // The teller ends only after this thread does.
        let _ = teller.send(news);
        self.follow_up(arrivals, teller);
    }

    /// Writes down what is to be done, with something that belongs to the same moment.
    pub(super) fn begin(
        &self,
        intent: &Intent,
        also: &dyn Fn(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<IntentKey, StoreError> {
        let mut key = IntentKey::default();
        self.writer.store.write(&mut |txn| {
            also(txn)?;
            key = intent.write(txn)?;
            Ok(())
        })?;
        Ok(key)
    }

    /// Does what is written down. What fails stays there and is tried again.
    pub(super) fn carry(&mut self, key: &IntentKey, intent: &Intent) -> Carried {
        let (writer, at) = (self.writer, self.at);
        let mut effects = Effects::default();
        let free = Purse { new_repository: &mut || Ok(()), hold: &mut || Ok(()) };
        let (mut copies, mut fresh, mut crowded) = (Vec::new(), Vec::new(), Vec::new());
        let mut settler = Settler {
            store: &*writer.store,
            host: &writer.host,
            rules: &writer.rules,
            clerk: writer.clerk(self.roles, &mut effects, free, at),
            copies: &mut copies,
            fresh: &mut fresh,
            revived: &mut self.revived,
            wake: &writer.wake,
            crowded: &mut crowded,
            changes: 0,
            until: self.turn.and_then(|turn| Instant::now().checked_add(turn)),
        };
        let mut error = settler.carry_through(key, intent).err();
        let is_paused = matches!(error, Some(SettleError::Paused));
        if is_paused {
            error = None;
            self.paused.add(*key);
        }
        crowded.into_iter().for_each(|identifier| self.paused.warn_crowded(identifier));
        writer.wake.touch(intent.affected.repos());
        copies.into_iter().for_each(|copying| writer.host.send(Chore::Copy(copying)));
        Carried { fresh, error, is_paused }
    }

    fn fail(&self, sealed: &Sealed, error: &StoreError) {
        tracing::error!(id = %sealed.event.id, %error, "an event could not be stored");
        self.writer.metrics.event_judged(sealed.event.kind, false, NOT_STORED.code());
        sealed.asker.answer(&sealed.event.id, &Answer::refused(&NOT_STORED));
    }
}

impl Writer {
    pub(super) fn clerk<'a>(
        &'a self,
        roles: &'a mut RoleCache,
        effects: &'a mut Effects,
        purse: Purse<'a>,
        at: ClockReading,
    ) -> Clerk<'a> {
        Clerk {
            rules: &self.rules,
            bounds: &self.bounds,
            at,
            roles,
            repos: &self.host.repos,
            patience: self.host.patience,
            effects,
            purse,
        }
    }
}

/// What came of an intent: what is served by now, and why that is not all.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) fresh: Vec<Fresh>,
    pub(super) error: Option<SettleError>,
    /// It goes on in a later turn.
    pub(super) is_paused: bool,
}

/// Waits for work, unless a release is paused and goes on. False when there will be none.
fn receive(
    inbox: &mut mpsc::Receiver<Work>,
    work: &mut Vec<Work>,
    paused: &PausedReleases,
) -> bool {
    if paused.is_empty() {
        return inbox.blocking_recv_many(work, HELPING) > 0;
    }
    while work.len() < HELPING
        && let Ok(item) = inbox.try_recv()
    {
        work.push(item);
    }
    true
}

impl Carried {
    pub(super) fn complain(&self) {
        if let Some(error) = &self.error {
            tracing::error!(%error, "a release is in the journal but not finished");
        }
    }
}

fn tell(hub: &Hub, news: Receiver<Vec<News>>) {
    for News { fresh, reply } in news.into_iter().flatten() {
        hub.tell(&fresh);
        match reply {
            Some(Reply::Event { asker, id, answer, .. }) => asker.answer(&id, &answer),
            // A client that left does not listen; what it pushed stays.
            Some(Reply::Push(sender, outcome)) => drop(sender.send(outcome)),
            Some(Reply::Fetch(sender, taken)) => drop(sender.send(taken)),
            None => {}
        }
    }
}
