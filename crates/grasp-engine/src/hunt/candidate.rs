//! A source of one family, and what became of it: what it was asked for in this attempt, what it
//! said, and what it is not asked for any more because it would send the same unacceptable thing.

use super::HuntSettings;
use super::budget::{Budget, worth_starting};
use grasp_core::{CloneUrl, Domain, Oid, Time};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

/// What somebody else's server may say to people.
const SAID_CHARS_MAX: usize = 200;
/// How long what a source sent in vain is not fetched again; doubled each time.
const REFUSED_FIRST: Duration = Duration::from_secs(3600);
const REFUSED_MAX: Duration = Duration::from_secs(24 * 3600);
/// Objects remembered of one source. If there were more, it is not asked for anything.
const REFUSED_OIDS_MAX: usize = 1_000;

#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) url: CloneUrl,
    /// All it may be asked for, if that is not everything.
    covers: Option<BTreeSet<Oid>>,
    /// Only pull requests name it.
    pub(super) proposed: bool,
    pub(super) domain: Domain,
    /// In this attempt.
    asked_for: BTreeSet<Oid>,
    /// There is nothing left to ask it for in this attempt.
    done: bool,
    /// It may not be asked, or it is this very server.
    pub(super) not_before: Time,
    refused: Option<Box<Refused>>,
    /// What it may send for this family in a day (S-51).
    budget: Budget,
    /// With less left it is not asked.
    bytes_worth_asking: u64,
    pub(super) asked: Option<Time>,
    pub(super) said: Cow<'static, str>,
    pub(super) found: usize,
    pub(super) absent: usize,
}

/// What was fetched in vain.
#[derive(Debug)]
struct Refused {
    oids: BTreeSet<Oid>,
    /// There were more than are remembered.
    more: bool,
    until: Time,
    gap: Duration,
}

impl Candidate {
    pub(super) fn new(url: CloneUrl, settings: &HuntSettings) -> Self {
        let domain = url.domain();
        let never = settings
            .overrides
            .get(&domain)
            .is_some_and(|(at_a_time, starts)| *at_a_time == 0 || *starts == 0);
        Self {
            url,
            covers: None,
            proposed: false,
            domain,
            asked_for: BTreeSet::new(),
            done: false,
            not_before: if never { Time(u64::MAX) } else { Time(0) },
            refused: None,
            budget: Budget::new(settings.fetch_bytes_max),
            bytes_worth_asking: worth_starting(settings.fetch_bytes_max, settings.fetch_bytes_max),
            asked: None,
            said: if never { "never asked, by this server's settings" } else { "" }.into(),
            found: 0,
            absent: 0,
        }
    }

    pub(super) fn is_untried(&self, now: Time) -> bool {
        !self.done && self.not_before <= now && self.bytes_left(now) >= self.bytes_worth_asking
    }

    /// What it may still send for this family today.
    pub(super) fn bytes_left(&self, now: Time) -> u64 {
        self.budget.left(now)
    }

    pub(super) fn pay(&mut self, bytes: u64, now: Time) {
        self.budget.pay(bytes, now);
    }

    /// A look has shown what it may be asked for and what is wanted.
    pub(super) fn renew(
        &mut self,
        covers: Option<BTreeSet<Oid>>,
        wants: &BTreeSet<Oid>,
        anew: bool,
    ) {
        self.covers = covers;
        if anew {
            self.done = false;
            self.asked_for.clear();
        }
        // Something that it failed for is not wanted any more, so the rest may go well.
        if self.refused.as_ref().is_some_and(|it| !it.oids.is_subset(wants)) {
            self.refused = None;
        }
    }

    /// What is left to ask it for.
    pub(super) fn questions<'a>(
        &'a self,
        wants: &'a BTreeSet<Oid>,
        is_absent: impl Fn(&Oid) -> bool + 'a,
        now: Time,
    ) -> impl Iterator<Item = Oid> + 'a {
        let refused = self.refused.as_ref().filter(|it| it.until > now);
        let refuses = move |oid: &Oid| refused.is_some_and(|it| it.more || it.oids.contains(oid));
        let covers = self.covers.as_ref().unwrap_or(wants);
        let wanted = move |oid: &&Oid| self.covers.is_none() || wants.contains(oid);
        let left = move |oid: &&Oid| !self.asked_for.contains(oid) && !is_absent(oid);
        let left = covers.iter().filter(wanted).filter(left).filter(move |oid| !refuses(oid));
        left.copied()
    }

    /// Is it done, for all that is wanted?
    pub(super) fn conclude(
        &mut self,
        wants: &BTreeSet<Oid>,
        is_absent: impl Fn(&Oid) -> bool,
        now: Time,
    ) {
        let done = self.done || self.questions(wants, is_absent, now).next().is_none();
        self.done = done;
    }

    pub(super) fn ask(&mut self, wants: &BTreeSet<Oid>) {
        self.asked_for.extend(wants);
    }

    /// It was not really asked.
    pub(super) fn take_back(&mut self, wants: &BTreeSet<Oid>) {
        self.asked_for.retain(|oid| !wants.contains(oid));
        self.done = false;
    }

    /// The attempt is over, and need not be remembered in detail.
    pub(super) fn forget_details(&mut self) {
        if self.done {
            self.asked_for = BTreeSet::new();
        }
    }

    /// What it sent for these may not be taken.
    pub(super) fn refuse(&mut self, oids: BTreeSet<Oid>, now: Time) {
        let before = self.refused.take();
        let again = before.as_ref().is_some_and(|it| it.more || !it.oids.is_disjoint(&oids));
        let gap = match &before {
            Some(it) if again => it.gap.saturating_mul(2).min(REFUSED_MAX),
            _ => REFUSED_FIRST,
        };
        let (mut all, mut more, mut until) = (oids, false, now.plus(gap));
        if let Some(it) = before.filter(|it| it.until > now) {
            all.extend(it.oids);
            (more, until) = (it.more, until.max(it.until));
        }
        more |= all.len() > REFUSED_OIDS_MAX;
        let oids = all.into_iter().take(REFUSED_OIDS_MAX).collect();
        self.refused = Some(Box::new(Refused { oids, more, until, gap }));
    }
}

pub(super) fn shortened(mut said: String) -> Cow<'static, str> {
    if let Some((end, _)) = said.char_indices().nth(SAID_CHARS_MAX) {
        said.truncate(end);
        said.shrink_to_fit();
    }
    said.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn oids(numbers: impl IntoIterator<Item = u16>) -> BTreeSet<Oid> {
        let oid = |n: u16| {
            let mut bytes = [0; 20];
            bytes[..2].copy_from_slice(&n.to_be_bytes());
            Oid::from_bytes(bytes)
        };
        numbers.into_iter().map(oid).collect()
    }

    fn source() -> Candidate {
        let url = "https://a.example/a.git".parse().unwrap();
        Candidate::new(url, &HuntSettings::default())
    }

    fn left(source: &Candidate, wants: &BTreeSet<Oid>, now: Time) -> BTreeSet<Oid> {
        source.questions(wants, |_| false, now).collect()
    }

    #[test]
    fn s37_a_pull_requests_own_address_is_only_asked_for_that_pull_request() {
        let mut it = source();
        it.renew(Some(oids([1, 2])), &oids([2, 3]), true);
        assert_eq!(left(&it, &oids([2, 3]), Time(0)), oids([2]));
        assert_eq!(left(&it, &oids([3]), Time(0)), oids([]));
        it.ask(&oids([2]));
        assert_eq!(left(&it, &oids([1, 2, 3]), Time(0)), oids([1]));
        it.take_back(&oids([2]));
        assert_eq!(left(&it, &oids([2, 3]), Time(0)), oids([2]));
    }

    #[test]
    fn what_was_sent_in_vain_is_left_out_for_longer_and_longer_and_the_rest_is_not() {
        let mut it = source();
        let mut now = Time(0);
        for hours in [1, 2, 4, 8, 16, 24, 24] {
            it.refuse(oids([1, 2]), now);
            now = now.plus(hours * HOUR);
            assert_eq!(left(&it, &oids([1, 2, 3]), Time(now.0 - 1)), oids([3]));
            assert_eq!(left(&it, &oids([1, 2, 3]), now), oids([1, 2, 3]));
        }
        it.refuse(oids([1, 2]), now);
        it.renew(None, &oids([1, 2, 3]), true);
        assert_eq!(left(&it, &oids([1, 2, 3]), now), oids([3]));
        it.renew(None, &oids([2, 3]), true);
        assert_eq!(left(&it, &oids([2, 3]), now), oids([2, 3]), "it failed for something else");
        it.refuse(oids([2, 3]), now);
        assert_eq!(left(&it, &oids([2, 3]), now.plus(HOUR)), oids([2, 3]));
    }

    #[test]
    fn of_many_objects_some_are_remembered_and_all_are_left_out() {
        let mut it = source();
        let (many, other) = (oids(0..2_000), oids([5_000]));
        it.refuse(many.clone(), Time(0));
        it.renew(None, &many.union(&other).copied().collect(), true);
        assert!(left(&it, &many, Time(9)).is_empty() && left(&it, &other, Time(9)).is_empty());
        assert_eq!(left(&it, &many, Time(0).plus(HOUR)).len(), 2_000);
    }
}
