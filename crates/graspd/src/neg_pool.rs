//! The memory of NIP-77 reconciliations. All of them share one pool of items, and one address gets a
//! quarter of it; sessions over the same filter and the same state of the store share one set.
//! Invariant: a session that waits for its client is kept here, so that the idlest one can end when
//! the pool is full.

use crate::errand::Reconciling;
use grasp_core::Filter;
use grasp_relay::IpKey;
use grasp_relay::neg::IdSet;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// One address may use this part of the pool.
const ADDRESS_PART: usize = 4;

/// Why there is no room for more items. The sentence follows `blocked:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoItems {
    #[error(
        "the reconciliations of your address keep {0} events, which is all it may; end one first"
    )]
    Address(usize),
    #[error("too many events are being reconciled; try again in a minute")]
    Pool,
}

#[derive(Debug)]
pub struct NegPool {
    items_max: usize,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    used: usize,
    by_address: BTreeMap<IpKey, usize>,
    /// Sessions that wait for their client, the idlest first.
    parked: BTreeMap<u64, Box<Reconciling>>,
    next_parked: u64,
    /// By the serial up to which the store was read.
    sets: BTreeMap<u64, Vec<(Filter, Weak<NegSet>)>>,
}

/// A part of the pool, given back when dropped.
#[derive(Debug)]
pub struct NegLease {
    pool: Arc<NegPool>,
    /// `None` for an address that has no limits.
    address: Option<IpKey>,
    items: usize,
}

/// A set of events, and the memory it takes.
#[derive(Debug)]
pub struct NegSet {
    pub set: IdSet,
    _lease: NegLease,
}

/// A session that waits in the pool; it ends when this is dropped.
#[derive(Debug)]
pub struct ParkedNeg {
    pool: Arc<NegPool>,
    number: u64,
}

impl NegPool {
    pub fn of(items_max: usize) -> Arc<Self> {
        Arc::new(Self { items_max, state: Mutex::default() })
    }

    /// Nothing yet, for this address.
    pub fn lease(self: &Arc<Self>, address: Option<IpKey>) -> NegLease {
        let address = address.map(IpKey::customer_key);
        NegLease { pool: Arc::clone(self), address, items: 0 }
    }

    /// A set that another session made of the same filter and the same state of the store.
    pub fn find(&self, filter: &Filter, serial_max: u64) -> Option<Arc<NegSet>> {
        let state = self.state.lock();
        let mut sets = state.sets.get(&serial_max)?.iter();
        sets.find(|(other, _)| other == filter).and_then(|(_, set)| set.upgrade())
    }

    /// Offers a set to those that come later.
    pub fn share(
        &self,
        filter: Filter,
        serial_max: u64,
        set: IdSet,
        lease: NegLease,
    ) -> Arc<NegSet> {
        let set = Arc::new(NegSet { set, _lease: lease });
        let mut state = self.state.lock();
        state.sets.retain(|_, sets| {
            sets.retain(|(_, set)| set.strong_count() > 0);
            !sets.is_empty()
        });
        state.sets.entry(serial_max).or_default().push((filter, Arc::downgrade(&set)));
        set
    }

    pub fn park(self: &Arc<Self>, session: Box<Reconciling>) -> ParkedNeg {
        let mut state = self.state.lock();
        state.next_parked += 1;
        let number = state.next_parked;
        state.parked.insert(number, session);
        ParkedNeg { pool: Arc::clone(self), number }
    }

    fn take(&self, address: Option<IpKey>, items: usize) -> Result<(), NoItems> {
        loop {
            // Dropped without the lock: it gives its items back.
            let _idlest = {
                let mut state = self.state.lock();
                let address_max = self.items_max / ADDRESS_PART;
                let of_address = address.and_then(|it| state.by_address.get(&it).copied());
                if address.is_some() && of_address.unwrap_or(0) + items > address_max {
                    return Err(NoItems::Address(address_max));
                }
                if state.used + items <= self.items_max {
                    state.used += items;
                    if let Some(address) = address {
                        *state.by_address.entry(address).or_default() += items;
                    }
                    return Ok(());
                }
                state.parked.pop_first().ok_or(NoItems::Pool)?
            };
        }
    }
}

impl NegLease {
    /// Room for so many more; if need be the idlest sessions end for it.
    pub fn grow(&mut self, by: usize) -> Result<(), NoItems> {
        self.pool.take(self.address, by)?;
        self.items += by;
        Ok(())
    }
}

impl Drop for NegLease {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.used = state.used.saturating_sub(self.items);
        let Some(address) = self.address else { return };
        if let Some(used) = state.by_address.get_mut(&address) {
            *used = used.saturating_sub(self.items);
            if *used == 0 {
                state.by_address.remove(&address);
            }
        }
    }
}

impl ParkedNeg {
    /// The session, unless it ended for lack of room.
    pub fn resume(self) -> Option<Box<Reconciling>> {
        self.pool.state.lock().parked.remove(&self.number)
    }

    pub fn has_ended(&self) -> bool {
        !self.pool.state.lock().parked.contains_key(&self.number)
    }
}

impl Drop for ParkedNeg {
    fn drop(&mut self) {
        let session = self.pool.state.lock().parked.remove(&self.number);
        drop(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::{EventId, Timestamp};
    use std::net::IpAddr;

    fn address(last: u8) -> Option<IpKey> {
        Some(IpAddr::from([203, 0, 113, last]).into())
    }

    fn filter(since: u64) -> Filter {
        Filter { since: Some(Timestamp(since)), ..Filter::default() }
    }

    fn session(pool: &Arc<NegPool>, of: Option<IpKey>, name: u64, items: u8) -> Box<Reconciling> {
        let mut lease = pool.lease(of);
        lease.grow(usize::from(items)).unwrap();
        let ids = (0..items).map(|n| (Timestamp(1), EventId::from_bytes([n; 32])));
        let set = IdSet::collect(ids, 1_000).unwrap();
        let set = pool.share(filter(name), 1, set, lease);
        Box::new(Reconciling::new(set, 60_000, 64).unwrap())
    }

    #[test]
    fn an_address_uses_a_quarter_of_the_pool_and_leaves_the_rest_to_others() {
        let pool = NegPool::of(400);
        let mut one = pool.lease(address(1));
        assert_eq!(one.grow(100), Ok(()));
        assert_eq!(pool.lease(address(1)).grow(1), Err(NoItems::Address(100)));
        assert_eq!(pool.lease(address(2)).grow(100), Ok(()));
        assert_eq!(pool.lease(None).grow(300), Ok(()), "this machine has no share of its own");
        drop(one);
        assert_eq!(pool.lease(address(1)).grow(100), Ok(()));
        assert_eq!(pool.state.lock().used, 0);
        let of = |text: &str| Some(text.parse::<IpAddr>().unwrap().into());
        let mut one = pool.lease(of("2001:db8:1:1201::1"));
        assert_eq!(one.grow(100), Ok(()));
        assert_eq!(pool.lease(of("2001:db8:1:1202::1")).grow(1), Err(NoItems::Address(100)));
        assert_eq!(pool.lease(of("2001:db8:1:1301::1")).grow(1), Ok(()));
    }

    #[test]
    fn when_the_pool_is_full_the_idlest_session_ends() {
        let pool = NegPool::of(400);
        let parked: Vec<ParkedNeg> =
            (1..=4).map(|n| pool.park(session(&pool, address(n), u64::from(n), 100))).collect();
        let mut newcomer = pool.lease(address(5));
        assert_eq!(newcomer.grow(50), Ok(()));
        let ended: Vec<bool> = parked.iter().map(ParkedNeg::has_ended).collect();
        assert_eq!(ended, [true, false, false, false]);
        let mut parked = parked.into_iter();
        assert!(parked.next().unwrap().resume().is_none());
        let busy: Vec<_> = parked.map(|it| it.resume().unwrap()).collect();
        assert_eq!(pool.lease(address(6)).grow(100), Err(NoItems::Pool), "all others are busy");
        drop(busy);
        assert_eq!(pool.lease(address(6)).grow(100), Ok(()));
    }

    #[test]
    fn sessions_over_the_same_filter_and_serial_share_one_set() {
        let pool = NegPool::of(400);
        let first = session(&pool, address(1), 7, 100);
        let found = pool.find(&filter(7), 1).unwrap();
        let second = Reconciling::new(found, 60_000, 64).unwrap();
        assert_eq!(pool.state.lock().used, 100);
        assert!(pool.find(&filter(7), 2).is_none() && pool.find(&filter(8), 1).is_none());
        drop(first);
        assert_eq!(pool.state.lock().used, 100, "the other one still uses it");
        drop(second);
        assert_eq!(pool.state.lock().used, 0);
        assert!(pool.find(&filter(7), 1).is_none());
    }
}
