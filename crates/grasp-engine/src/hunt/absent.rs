//! What a URL said it does not have, remembered for a short while, so that new events do not make
//! us ask the same thing again at once. A fact about a URL, whichever family learnt it.

use super::entry::Candidate;
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

    /// What is worth asking this source for.
    pub(super) fn worth_asking(
        &self,
        source: &Candidate,
        wants: &BTreeSet<Oid>,
        now: Time,
    ) -> BTreeSet<Oid> {
        self.questions(source, wants, now).collect()
    }

    pub(super) fn is_worth_asking(
        &self,
        source: &Candidate,
        wants: &BTreeSet<Oid>,
        now: Time,
    ) -> bool {
        self.questions(source, wants, now).next().is_some()
    }

    fn questions<'a>(
        &'a self,
        source: &'a Candidate,
        wants: &'a BTreeSet<Oid>,
        now: Time,
    ) -> impl Iterator<Item = Oid> + 'a {
        let known = self.until.get(&source.url);
        let absent = move |oid: &Oid| known?.get(oid).filter(|until| **until > now);
        let covers = source.covers.as_ref().unwrap_or(wants);
        let wanted = move |oid: &&Oid| source.covers.is_none() || wants.contains(oid);
        covers.iter().filter(wanted).filter(move |oid| absent(oid).is_none()).copied()
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
    use crate::hunt::HuntSettings;

    fn oids(numbers: &[u8]) -> BTreeSet<Oid> {
        numbers.iter().map(|n| Oid::from_bytes([*n; 20])).collect()
    }

    fn source(covers: Option<BTreeSet<Oid>>) -> Candidate {
        let url = "https://a.example/a.git".parse().unwrap();
        Candidate { covers, ..Candidate::new(url, &HuntSettings::default()) }
    }

    #[test]
    fn it_is_forgotten_in_time_and_wholly() {
        let (at, one, both) = (source(None), oids(&[1]), oids(&[1, 2]));
        let mut absent = Absent::default();
        absent.remember(&at.url, &one, Time(15_000), Time(0));
        absent.remember(&at.url, &one, Time(20_000), Time(5_000));
        assert!(!absent.is_worth_asking(&at, &one, Time(19_999)));
        assert_eq!(absent.worth_asking(&at, &both, Time(19_999)), oids(&[2]));
        absent.forget_old(Time(16_000));
        assert!(!absent.is_worth_asking(&at, &one, Time(19_999)), "said again since");
        assert!(absent.is_worth_asking(&at, &one, Time(20_000)));
        absent.forget_old(Time(20_000));
        assert!(absent.until.is_empty() && absent.order.is_empty() && absent.remembered == 0);
    }

    #[test]
    fn s37_a_pull_requests_own_address_is_only_asked_for_that_pull_request() {
        let (at, mut absent) = (source(Some(oids(&[1, 2]))), Absent::default());
        assert_eq!(absent.worth_asking(&at, &oids(&[2, 3]), Time(0)), oids(&[2]));
        assert!(!absent.is_worth_asking(&at, &oids(&[3]), Time(0)));
        absent.remember(&at.url, &oids(&[2]), Time(9), Time(0));
        assert_eq!(absent.worth_asking(&at, &oids(&[1, 2, 3]), Time(0)), oids(&[1]));
    }
}
