//! The writer's desk: one thread, one transaction per helping, answers only after the disk has it.

use super::admit::{Admission, Bounds, Candidate, Clerk, SWEEP_MAX};
use super::lanes::{Asker, Ingest, Sealed, Work};
use super::roles::RoleCache;
use crate::clock::Clock;
use crate::hub::{Fresh, Hub};
use crate::metrics::Metrics;
use crate::threads::essential;
use crossbeam_channel::{Receiver, Sender, bounded};
use grasp_core::EventId;
use grasp_core::policy::{Answer, Prefix, Reason, Rules};
use grasp_relay::{Budgets, IpKey};
use grasp_store::{EventStore, StoreError, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

#[derive(Debug)]
pub struct Writer {
    pub store: Arc<dyn EventStore>,
    pub rules: Arc<Rules>,
    pub bounds: Bounds,
    pub budgets: Arc<Mutex<Budgets>>,
    pub hub: Arc<Hub>,
    pub clock: Arc<Clock>,
    pub metrics: Arc<Metrics>,
}

/// Events per transaction: many share one sync, none waits long for its neighbours.
const HELPING: usize = 1024;
/// Tags per transaction, within one event: each may be an index entry and dirty a page.
const HELPING_TAGS: usize = 50_000;
const INBOX_LEN: usize = 4096;
/// Batches of committed events not yet told to subscribers; beyond that the writer waits.
const TELLER_LEN: usize = 64;

/// What came of one committed event. Subscribers hear of it before its sender does: whoever was
/// told yes finds the event with the very next question.
struct News {
    fresh: Vec<Fresh>,
    asker: Arc<dyn Asker>,
    id: EventId,
    answer: Answer,
    _room: OwnedSemaphorePermit,
}

impl Writer {
    /// Starts the writer, the teller and `lanes` verification threads. Dropping the returned
    /// `Ingest` lets all of them finish what they have and end.
    pub fn start(self, lanes: usize) -> std::io::Result<(Ingest, Vec<JoinHandle<()>>)> {
        let (work, inbox) = mpsc::channel(INBOX_LEN);
        let (teller, news) = bounded(TELLER_LEN);
        let ingest = Ingest::start(&self.store, lanes, work)?;
        let hub = Arc::clone(&self.hub);
        let telling = essential("tell", move || tell(&hub, &news))?;
        let writing = essential("write", move || self.run(inbox, &teller))?;
        Ok((ingest, vec![writing, telling]))
    }

    fn run(self, mut inbox: mpsc::Receiver<Work>, teller: &Sender<Vec<News>>) {
        let mut work = Vec::with_capacity(HELPING);
        let mut roles = RoleCache::default();
        while inbox.blocking_recv_many(&mut work, HELPING) > 0 {
            let mut batch = Vec::with_capacity(work.len());
            let mut tags = 0;
            for item in work.drain(..) {
                match item {
                    Work::Admit(sealed) => {
                        tags += sealed.event.tags.len();
                        batch.push(sealed);
                    }
                    Work::Sweep => self.sweep(),
                }
                if tags > HELPING_TAGS {
                    self.admit(std::mem::take(&mut batch), &mut roles, teller);
                    tags = 0;
                }
            }
            self.admit(batch, &mut roles, teller);
        }
    }

    fn admit(&self, mut batch: Vec<Sealed>, roles: &mut RoleCache, teller: &Sender<Vec<News>>) {
        match self.commit(&batch, roles) {
            Ok(admissions) => self.report(batch, admissions, teller),
            Err(error) if batch.len() <= 1 => batch.iter().for_each(|one| self.fail(one, &error)),
            // One of them broke the transaction; without it, the others are fine.
            Err(_) => {
                let second_half = batch.split_off(batch.len() / 2);
                self.admit(batch, roles, teller);
                self.admit(second_half, roles, teller);
            }
        }
    }

    fn commit(
        &self,
        batch: &[Sealed],
        roles: &mut RoleCache,
    ) -> Result<Vec<Admission>, StoreError> {
        let mut admissions = Vec::new();
        // Asked once per event, however often the transaction has to be run.
        let mut budgets = vec![None; batch.len()];
        if batch.is_empty() {
            return Ok(admissions);
        }
        self.store.write(&mut |txn: &mut dyn Transaction| {
            admissions.clear();
            for (sealed, budget) in batch.iter().zip(&mut budgets) {
                let mut clerk = Clerk {
                    rules: &self.rules,
                    bounds: &self.bounds,
                    now: self.clock.now(),
                    roles: &mut *roles,
                    new_repository: &mut || {
                        budget.get_or_insert_with(|| self.may_bring_repository(sealed.ip)).clone()
                    },
                };
                let candidate = Candidate { event: &sealed.event, from: &sealed.from };
                admissions.push(clerk.admit(txn, &candidate)?);
            }
            Ok(())
        })?;
        Ok(admissions)
    }

    fn may_bring_repository(&self, ip: Option<IpKey>) -> Result<(), Reason> {
        let Some(ip) = ip else { return Ok(()) };
        let taken = self.budgets.lock().take_new_repository(ip, self.clock.now());
        taken
            .map_err(|why| Reason::saying(Prefix::RateLimited, "new-repositories", why.to_string()))
    }

    fn report(&self, batch: Vec<Sealed>, admissions: Vec<Admission>, teller: &Sender<Vec<News>>) {
        let news = batch.into_iter().zip(admissions).map(|(sealed, admission)| {
            let Admission { answer, code, fresh } = admission;
            self.metrics.event_judged(sealed.event.kind, answer.ok, code);
            let (id, asker) = (sealed.event.id, sealed.asker);
            News { fresh, asker, id, answer, _room: sealed.room }
        });
        // The teller ends only after this thread does.
        let _ = teller.send(news.collect());
    }

    fn fail(&self, sealed: &Sealed, error: &StoreError) {
        tracing::error!(id = %sealed.event.id, %error, "an event could not be stored");
        self.metrics.event_judged(sealed.event.kind, false, "store-error");
        let text = "error: the event could not be stored; try again later".to_owned();
        sealed.asker.answer(&sealed.event.id, &Answer { ok: false, text });
    }

    fn sweep(&self) {
        let now = self.clock.now().timestamp();
        let swept = || -> Result<(), StoreError> {
            if !self.store.read()?.needs_sweep(now)? {
                return Ok(());
            }
            self.store.write(&mut |txn| {
                txn.sweep_expired(now, SWEEP_MAX)?;
                txn.sweep_vanished(SWEEP_MAX)?;
                Ok(())
            })
        };
        if let Err(error) = swept() {
            tracing::error!(%error, "expired events could not be removed");
        }
    }
}

fn tell(hub: &Hub, news: &Receiver<Vec<News>>) {
    for it in news.iter().flatten() {
        hub.tell(&it.fresh);
        it.asker.answer(&it.id, &it.answer);
    }
}
