//! How many links one address may have, under however many names it goes; a network of IPv6 is one
//! address. A place is held as long as its link lives.

use crate::outbound::address::counted_as;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Places {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_address_max: usize,
}

/// One link's place, given back when dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    ip: IpAddr,
}

impl Places {
    pub fn new(per_address_max: usize) -> Self {
        Self { taken: Arc::default(), per_address_max }
    }

    /// `None` if this address has all the links it may have.
    pub fn take(&self, ip: IpAddr) -> Option<Place> {
        let ip = counted_as(ip);
        let mut taken = self.taken.lock();
        let count = taken.get(&ip).copied().unwrap_or(0);
        if count >= self.per_address_max {
            return None;
        }
        taken.insert(ip, count + 1);
        Some(Place { places: self.clone(), ip })
    }

    pub fn taken(&self, ip: IpAddr) -> usize {
        self.taken.lock().get(&counted_as(ip)).copied().unwrap_or(0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        let Some(count) = taken.get_mut(&self.ip) else { return };
        *count -= 1;
        if *count == 0 {
            taken.remove(&self.ip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_under_all_its_spellings_and_gets_them_back() {
        let places = Places::new(2);
        let (plain, mapped) = ("8.8.8.8".parse().unwrap(), "::ffff:8.8.8.8".parse().unwrap());
        let first = places.take(plain);
        let second = places.take(mapped);
        assert!(first.is_some() && second.is_some());
        assert!(places.take(plain).is_none() && places.take(mapped).is_none());
        assert!(places.take("8.8.4.4".parse().unwrap()).is_some(), "another address");
        let [one, other] = ["2a00:1::1", "2a00:1::2"].map(|ip| ip.parse().unwrap());
        let network = [places.take(one), places.take(other)];
        assert!(network.iter().all(Option::is_some) && places.take(one).is_none());
        drop(network);
        drop(first);
        assert_eq!(places.taken(plain), 1);
        assert!(places.take(mapped).is_some());
        drop(second);
        assert!(places.taken.lock().is_empty(), "nothing stays behind");
    }
}
