//! How many may fetch or push at a time, in all and from one address. Who comes too many waits for
//! its turn, but not for ever, and is then told to come back later. A place is given back when its
//! holder is dropped, whatever happened to it.

use grasp_relay::IpKey;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Those who wait for one kind of place. Each holds a connection and little else.
const WAITING_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Slots {
    places: Arc<Semaphore>,
    places_max: u32,
    per_ip_max: u32,
    wait_max: Duration,
    waiting: AtomicUsize,
    addresses: Arc<Addresses>,
}

/// Only addresses that hold or wait for something are here.
#[derive(Debug, Default)]
struct Addresses(Mutex<HashMap<IpKey, Address>>);

#[derive(Debug)]
struct Address {
    places: Arc<Semaphore>,
    users: usize,
}

/// A place taken; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Slot {
    _place: OwnedSemaphorePermit,
    _of_address: Option<(OwnedSemaphorePermit, User)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Busy {
    #[error("this server is busy with other git requests; try again in a little while")]
    All,
    #[error("your address already has {0} such git requests running; try again when one is done")]
    Address(u32),
    #[error("too many git requests are waiting already; try again in a little while")]
    Queue,
}

/// Whose budget a request is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payer {
    Address(IpKey),
    /// Stands for many, so only the common bound applies.
    Exempt,
}

impl Slots {
    pub(super) fn new(places_max: usize, per_ip_max: u32, wait_max: Duration) -> Self {
        let places_max = u32::try_from(places_max).unwrap_or(u32::MAX).min(1 << 20);
        Self {
            places: Arc::new(Semaphore::new(places_max as usize)),
            places_max,
            per_ip_max,
            wait_max,
            waiting: AtomicUsize::new(0),
            addresses: Arc::default(),
        }
    }

    pub(super) async fn take(&self, payer: Payer) -> Result<Slot, Busy> {
        let _in_line = Line::join(&self.waiting)?;
        let until = Instant::now() + self.wait_max;
        let of_address = match payer {
            Payer::Exempt => None,
            Payer::Address(ip) => {
                let (user, places) = self.addresses.enter(ip, self.per_ip_max);
                let busy = Busy::Address(self.per_ip_max);
                Some((by(until, places.acquire_owned()).await.ok_or(busy)?, user))
            }
        };
        let place = by(until, Arc::clone(&self.places).acquire_owned()).await.ok_or(Busy::All)?;
        Ok(Slot { _place: place, _of_address: of_address })
    }

    /// Resolves at a moment when nobody holds a place.
    pub(super) async fn all_free(&self) {
        let _ = self.places.acquire_many(self.places_max).await;
    }
}

/// A free place is taken even if there is no time to wait.
async fn by<T, E>(until: Instant, place: impl Future<Output = Result<T, E>>) -> Option<T> {
    timeout_at(until, place).await.ok()?.ok()
}

struct Line<'a>(&'a AtomicUsize);

impl<'a> Line<'a> {
    fn join(waiting: &'a AtomicUsize) -> Result<Self, Busy> {
        let line = Self(waiting);
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        if before >= WAITING_MAX { Err(Busy::Queue) } else { Ok(line) }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct User {
    addresses: Arc<Addresses>,
    ip: IpKey,
}

impl Addresses {
    fn enter(self: &Arc<Self>, ip: IpKey, places: u32) -> (User, Arc<Semaphore>) {
        let mut table = self.0.lock();
        let fresh = || Address { places: Arc::new(Semaphore::new(places as usize)), users: 0 };
        let address = table.entry(ip).or_insert_with(fresh);
        address.users += 1;
        (User { addresses: Arc::clone(self), ip }, Arc::clone(&address.places))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut table = self.addresses.0.lock();
        if let Some(address) = table.get_mut(&self.ip) {
            address.users -= 1;
            if address.users == 0 {
                table.remove(&self.ip);
            }
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
        assert!(slots.addresses.0.lock().is_empty(), "who has nothing leaves no trace");
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
        let slots = Slots::new(1, 1, Duration::from_secs(60));
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
    async fn the_line_itself_is_bounded() {
        let slots = impatient(1, 1);
        let line: Vec<_> = (0..WAITING_MAX).map(|_| Line::join(&slots.waiting).unwrap()).collect();
        assert_eq!(slots.take(at(1)).await.unwrap_err(), Busy::Queue);
        drop(line);
        assert!(slots.take(at(1)).await.is_ok());
        assert_eq!(slots.waiting.load(Ordering::Relaxed), 0);
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
