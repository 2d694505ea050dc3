//! How many may fetch or push at a time, in all and from one address. A request that finds no slot
//! waits, but not for ever, and is then told to come back later. What is fair is decided in
//! `shares.rs`. A slot is given back when its holder is dropped.

use super::rate::RateMeter;
use super::shares::{
    Payer, SlotLimits, Transfer, WAIT_BEFORE_ENDING, WaitingRequest, next_request, transfer_to_end,
};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Requests that wait for one kind of slot. Each holds a connection and little else.
const WAITING_MAX: usize = 1_024;
/// How often a request that has waited long enough looks for a transfer to end.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Slots {
    table: Arc<Mutex<SlotTable>>,
    wait_max: Duration,
    idle: Arc<Notify>,
}

#[derive(Debug)]
struct SlotTable {
    limits: SlotLimits,
    next_id: u64,
    waiting: Vec<Waiter>,
    holders: Vec<Holder>,
    /// When addresses that wait or hold a slot got their last one.
    served_at: HashMap<Payer, Instant>,
}

#[derive(Debug)]
struct Waiter {
    since: Instant,
    verdict: oneshot::Sender<Result<(), Busy>>,
    holder: Holder,
}

#[derive(Debug)]
struct Holder {
    id: u64,
    payer: Payer,
    meter: Arc<RateMeter>,
    ended: CancellationToken,
    can_end: bool,
}

/// A slot that is held or waited for; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Slot {
    id: u64,
    table: Arc<Mutex<SlotTable>>,
    idle: Arc<Notify>,
    meter: Arc<RateMeter>,
    ended: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Busy {
    #[error("this server is busy with other git requests; try again in a little while")]
    All,
    #[error("your address already has {0} such git requests running; try again when one is done")]
    Address(usize),
    #[error("too many git requests are waiting already; try again in a little while")]
    Queue,
    #[error("other clients were waiting and this transfer was the slowest; try again later")]
    Slowest,
}

impl Slots {
    pub(super) fn new(slots_max: usize, per_address_max: u32, wait_max: Duration) -> Self {
        let limits = SlotLimits { slots_max, per_address_max: per_address_max as usize };
        let table = SlotTable {
            limits,
            next_id: 0,
            waiting: Vec::new(),
            holders: Vec::new(),
            served_at: HashMap::new(),
        };
        Self { table: Arc::new(Mutex::new(table)), wait_max, idle: Arc::default() }
    }

    pub(super) async fn take(&self, payer: Payer) -> Result<Slot, Busy> {
        let since = Instant::now();
        let until = since + self.wait_max;
        let mut look_at = since + WAIT_BEFORE_ENDING;
        let (slot, mut verdict) = self.join(payer, since)?;
        loop {
            // A free slot is taken even if there is no time to wait.
            if let Ok(given) = timeout_at(until.min(look_at), &mut verdict).await {
                return given.unwrap_or(Err(Busy::All)).map(|()| slot);
            }
            let now = Instant::now();
            let mut table = self.table.lock();
            if now >= until {
                return Err(table.why_busy(payer));
            }
            table.end_one(now);
            look_at = now + LOOK_EVERY;
        }
    }

    fn join(
        &self,
        payer: Payer,
        since: Instant,
    ) -> Result<(Slot, oneshot::Receiver<Result<(), Busy>>), Busy> {
        let mut table = self.table.lock();
        table.make_room(payer)?;
        let id = table.next_id;
        table.next_id += 1;
        let slot = Slot {
            id,
            table: Arc::clone(&self.table),
            idle: Arc::clone(&self.idle),
            meter: Arc::default(),
            ended: CancellationToken::new(),
        };
        let (meter, ended) = (Arc::clone(&slot.meter), slot.ended.clone());
        let (verdict, given) = oneshot::channel();
        let holder = Holder { id, payer, meter, ended, can_end: true };
        table.waiting.push(Waiter { since, verdict, holder });
        table.grant();
        Ok((slot, given))
    }

    /// Resolves at a moment when no request holds a slot.
    pub(super) async fn all_free(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable();
            if self.table.lock().holders.is_empty() {
                return;
            }
            idle.await;
        }
    }
}

impl Slot {
    /// What the transfer tells about its speed.
    pub(super) fn meter(&self) -> Arc<RateMeter> {
        Arc::clone(&self.meter)
    }

    /// Cancelled when another request needs the slot more; the holder has to drop it.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// From here on the transfer runs to its end. False if it has been ended already.
    pub(super) fn keep_to_the_end(&self) -> bool {
        self.set_can_end(false);
        !self.ended.is_cancelled()
    }

    pub(super) fn set_can_end(&self, can_end: bool) {
        let mut table = self.table.lock();
        if let Some(holder) = table.holders.iter_mut().find(|it| it.id == self.id) {
            holder.can_end = can_end;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        table.waiting.retain(|it| it.holder.id != self.id);
        table.holders.retain(|it| it.id != self.id);
        table.grant();
        if table.holders.is_empty() {
            self.idle.notify_waiters();
        }
    }
}

impl SlotTable {
    /// Gives free slots to requests that wait.
    fn grant(&mut self) {
        let now = Instant::now();
        while let Some(at) = next_request(&self.requests(now), &self.transfers(), self.limits) {
            let Waiter { verdict, holder, .. } = self.waiting.remove(at);
            // A client that has left since gets nothing.
            if verdict.send(Ok(())).is_ok() {
                // Exempt payers are many addresses.
                if holder.payer != Payer::Exempt {
                    self.served_at.insert(holder.payer, now);
                }
                self.holders.push(holder);
            }
        }
        self.forget_absent();
    }

    fn forget_absent(&mut self) {
        let Self { waiting, holders, served_at, .. } = self;
        let present = waiting.iter().map(|it| &it.holder).chain(holders.iter());
        let present: HashSet<Payer> = present.map(|it| it.payer).collect();
        served_at.retain(|payer, _| present.contains(payer));
    }

    /// Ends one transfer if a request deserves its slot, one at a time.
    fn end_one(&mut self, now: Instant) {
        if self.holders.iter().any(|it| it.ended.is_cancelled()) {
            return;
        }
        let chosen = transfer_to_end(&self.requests(now), &self.transfers(), self.limits);
        if let Some(holder) = chosen.and_then(|at| self.holders.get(at)) {
            tracing::debug!(payer = ?holder.payer, "a git transfer is ended; another client waits");
            holder.ended.cancel();
        }
    }

    /// A full queue has room for an address with fewer requests than the one that has the most.
    fn make_room(&mut self, payer: Payer) -> Result<(), Busy> {
        if self.waiting.len() < WAITING_MAX {
            return Ok(());
        }
        let mut counts: HashMap<Payer, usize> = HashMap::new();
        for it in &self.waiting {
            *counts.entry(it.holder.payer).or_default() += 1;
        }
        let own = counts.get(&payer).copied().unwrap_or(0);
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let (crowd, _) = most.filter(|(_, count)| *count > own + 1).ok_or(Busy::Queue)?;
        let last = self.waiting.iter().rposition(|it| it.holder.payer == crowd);
        let displaced = self.waiting.remove(last.ok_or(Busy::Queue)?);
        let _ = displaced.verdict.send(Err(Busy::Queue));
        Ok(())
    }

    fn why_busy(&self, payer: Payer) -> Busy {
        let held = self.holders.iter().filter(|it| it.payer == payer).count();
        let is_limited = payer != Payer::Exempt && held >= self.limits.per_address_max;
        if is_limited { Busy::Address(self.limits.per_address_max) } else { Busy::All }
    }

    fn requests(&self, now: Instant) -> Vec<WaitingRequest> {
        let request = |it: &Waiter| WaitingRequest {
            payer: it.holder.payer,
            waited: now.saturating_duration_since(it.since),
            served_ago: self
                .served_at
                .get(&it.holder.payer)
                .map(|at| now.saturating_duration_since(*at)),
        };
        self.waiting.iter().map(request).collect()
    }

    fn transfers(&self) -> Vec<Transfer> {
        self.holders.iter().map(Holder::facts).collect()
    }
}

impl Holder {
    fn facts(&self) -> Transfer {
        Transfer {
            payer: self.payer,
            bytes_per_sec: self.meter.bytes_per_sec(),
            age: self.meter.age(),
            can_end: self.can_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn at(last: u8) -> Payer {
        Payer::Address(IpAddr::V4(Ipv4Addr::new(203, 0, 113, last)).into())
    }

    fn impatient(places: usize, per_ip: u32) -> Slots {
        Slots::new(places, per_ip, Duration::ZERO)
    }

    fn patient(places: usize, per_ip: u32) -> Slots {
        Slots::new(places, per_ip, Duration::from_secs(30))
    }

    #[tokio::test]
    async fn places_are_counted_and_come_back() {
        let slots = impatient(2, 2);
        let (one, two) = (slots.take(at(1)).await, slots.take(at(2)).await);
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(slots.take(at(3)).await.unwrap_err(), Busy::All);
        drop(one);
        assert!(slots.take(at(3)).await.is_ok());
    }

    #[tokio::test]
    async fn one_address_cannot_have_everything() {
        let slots = impatient(10, 2);
        let held = [slots.take(at(1)).await.unwrap(), slots.take(at(1)).await.unwrap()];
        assert_eq!(slots.take(at(1)).await.unwrap_err(), Busy::Address(2));
        assert!(slots.take(at(2)).await.is_ok());
        drop(held);
        assert!(slots.take(at(1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_proxy_on_this_machine_has_only_the_common_bound() {
        let slots = impatient(3, 1);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(slots.take(Payer::Exempt).await.unwrap());
        }
        assert_eq!(slots.take(Payer::Exempt).await.unwrap_err(), Busy::All);
    }

    #[tokio::test]
    async fn who_waits_gets_its_turn() {
        let slots = patient(1, 1);
        for payers in [[at(1), at(2)], [at(1), at(1)]] {
            let first = slots.take(payers[0]).await.unwrap();
            let mut second = std::pin::pin!(slots.take(payers[1]));
            let ready = futures_util::future::poll_immediate(second.as_mut()).await;
            assert!(ready.is_none(), "it waits");
            drop(first);
            assert!(second.await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_full_queue_has_room_for_an_address_that_does_not_crowd_it() {
        let slots = patient(2, 2);
        let (held, _kept) = (slots.take(at(1)).await.unwrap(), slots.take(at(1)).await.unwrap());
        let mut crowd: Vec<_> =
            (0..WAITING_MAX).map(|_| slots.join(at(1), Instant::now()).unwrap()).collect();
        assert_eq!(slots.join(at(1), Instant::now()).unwrap_err(), Busy::Queue);
        let mut other = std::pin::pin!(slots.take(at(2)));
        assert!(futures_util::future::poll_immediate(other.as_mut()).await.is_none());
        assert_eq!(crowd.pop().unwrap().1.await.unwrap(), Err(Busy::Queue));
        drop(held);
        assert!(other.await.is_ok(), "the other address is next");
        drop(crowd);
        assert!(slots.table.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn the_slowest_transfer_ends_after_two_seconds_and_the_other_address_is_next() {
        let slots = Arc::new(patient(3, 4));
        let held = [slots.take(at(1)).await, slots.take(at(1)).await, slots.take(at(1)).await];
        let mut held = held.map(Result::unwrap).map(Some);
        for (slot, bytes) in held.iter().zip([3_000, 1_000, 2_000]) {
            slot.as_ref().unwrap().meter().begin_wait();
            slot.as_ref().unwrap().meter().add_bytes(bytes);
        }
        let started = Instant::now();
        let asking = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.take(at(2)).await }
        });
        held[1].as_ref().unwrap().ended().cancelled().await;
        assert!(started.elapsed() >= WAIT_BEFORE_ENDING);
        slots.table.lock().end_one(Instant::now());
        let kept = |at: usize| !held[at].as_ref().unwrap().ended().is_cancelled();
        assert!(kept(0) && kept(2), "one at a time");
        held[1] = None;
        assert!(asking.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_freed_slot_goes_to_an_address_that_had_none_and_not_to_older_requests() {
        let slots = patient(1, 4);
        let slow = slots.take(at(1)).await.unwrap();
        let (_crowd, mut next) = slots.join(at(1), Instant::now()).unwrap();
        let mut honest = std::pin::pin!(slots.take(at(2)));
        assert!(futures_util::future::poll_immediate(honest.as_mut()).await.is_none());
        drop(slow);
        let honest = honest.await.unwrap();
        assert!(next.try_recv().is_err(), "it waits on");
        drop(honest);
        assert_eq!(next.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn what_runs_to_its_end_is_not_ended() {
        let slots = patient(2, 2);
        // Two of one address, so that both are above its share at any speed.
        let (kept, other) = (slots.take(at(1)).await.unwrap(), slots.take(at(1)).await.unwrap());
        let _waiting = slots.join(at(2), Instant::now()).unwrap();
        let later = Instant::now() + WAIT_BEFORE_ENDING;
        assert!(kept.keep_to_the_end() && other.keep_to_the_end());
        slots.table.lock().end_one(later);
        assert!(!kept.ended().is_cancelled() && !other.ended().is_cancelled());
    }

    #[tokio::test]
    async fn the_end_of_all_work_can_be_waited_for() {
        let slots = impatient(2, 2);
        let held = slots.take(at(1)).await.unwrap();
        let mut idle = std::pin::pin!(slots.all_free());
        assert!(futures_util::future::poll_immediate(idle.as_mut()).await.is_none());
        drop(held);
        idle.await;
    }
}
