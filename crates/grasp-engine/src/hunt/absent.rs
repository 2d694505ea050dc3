//! What a URL said it does not have, remembered for a short while, so that new events do not make
//! us ask the same thing again at once. A fact about a URL, whichever family learnt it.

use grasp_core::{CloneUrl, Oid, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Object ids in all. What is not remembered is asked again, no more than that.
const REMEMBERED_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub(super) struct Absent {
    until: BTreeMap<CloneUrl, BTreeMap<Oid, Time>>,
    /// In the order in which it is forgotten.
    order: VecDeque<(Time, CloneUrl, Vec<Oid>)>,
    remembered: usize,
}

impl Absent {
    pub(super) fn remember(
        &mut self,
        url: &CloneUrl,
        oids: &BTreeSet<Oid>,
        until: Time,
        now: Time,
    ) {
        if until <= now {
            return;
        }
        let room = REMEMBERED_MAX.saturating_sub(self.remembered);
        let oids: Vec<Oid> = oids.iter().take(room).copied().collect();
        if oids.is_empty() {
            return;
        }
        self.remembered += oids.len();
        self.until.entry(url.clone()).or_default().extend(oids.iter().map(|oid| (*oid, until)));
        // Jobs end in another order than they began in, so the times are not quite in order.
        self.order.push_back((until, url.clone(), oids));
    }

    /// Did it lately say that it lacks this? One question for each object.
    pub(super) fn at<'a>(&'a self, url: &CloneUrl, now: Time) -> impl Fn(&Oid) -> bool + use<'a> {
        let known = self.until.get(url);
        move |oid| known.and_then(|known| known.get(oid)).is_some_and(|until| *until > now)
    }

    pub(super) fn forget_old(&mut self, now: Time) {
        while self.order.front().is_some_and(|(until, ..)| *until <= now) {
            let Some((_, url, oids)) = self.order.pop_front() else { return };
            self.remembered = self.remembered.saturating_sub(oids.len());
            let Some(known) = self.until.get_mut(&url) else { continue };
            for oid in oids {
                if known.get(&oid).is_some_and(|until| *until <= now) {
                    known.remove(&oid);
                }
            }
            if known.is_empty() {
                self.until.remove(&url);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oids(numbers: &[u8]) -> BTreeSet<Oid> {
        numbers.iter().map(|n| Oid::from_bytes([*n; 20])).collect()
    }

    #[test]
    fn it_is_forgotten_in_time_and_wholly() {
        let url: CloneUrl = "https://a.example/a.git".parse().unwrap();
        let (one, two) = (Oid::from_bytes([1; 20]), Oid::from_bytes([2; 20]));
        let mut absent = Absent::default();
        absent.remember(&url, &oids(&[1]), Time(15_000), Time(0));
        absent.remember(&url, &oids(&[1]), Time(20_000), Time(5_000));
        assert!(absent.at(&url, Time(19_999))(&one));
        assert!(!absent.at(&url, Time(19_999))(&two));
        absent.forget_old(Time(16_000));
        assert!(absent.at(&url, Time(19_999))(&one), "said again since");
        assert!(!absent.at(&url, Time(20_000))(&one));
        absent.forget_old(Time(20_000));
        assert!(absent.until.is_empty() && absent.order.is_empty() && absent.remembered == 0);
    }
}
