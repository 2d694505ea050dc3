//! What strangers propose to a repository never stands in the way of its states: a state takes the
//! place of a pull request at once, pull requests that wait take the place of the slowest one, and
//! none is fetched for longer than it may. Invariant: ending a fetch here loses nothing but time.

use super::Job;
use super::asking::{JOBS_MAX, Needs, proposals_max};
use super::entry::Entry;
use super::jobs::Running;
use super::machine::Hunt;
use super::pack_pace::SLOW_MAX;
use super::slot_class::SlotClass;
use grasp_core::{Oid, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// The largest pack of a pull request, 64 MiB by default, comes in this time at 37 KiB/s.
pub(super) const PROPOSAL_FETCH_MAX: Duration = Duration::from_secs(30 * 60);

/// Which pull request ends for the sake of another fetch of its family.
enum MakesWay {
    /// A state needs its place.
    Now(Job),
    /// Another pull request does.
    At(Time, Job),
}

impl Hunt {
    /// Ends pull requests that others of the family need the place of. Says when to look again.
    pub(super) fn make_room_in_family(&mut self, number: u64, now: Time) -> Option<Time> {
        loop {
            match self.next_to_make_way(number, now)? {
                MakesWay::Now(job) => self.make_way_for_state(job),
                MakesWay::At(at, _) if at > now => return Some(at),
                MakesWay::At(_, job) => {
                    self.note_silence(job);
                    self.cancel(job, "too slow while other pull requests waited");
                }
            }
        }
    }

    /// It has had its time. Its address is left alone for an hour, then for longer.
    pub(super) fn end_overdue(&mut self, job: Job, now: Time) {
        let Some(running) = self.jobs.get(&job).filter(|it| !it.cancelled) else { return };
        let (number, url, wants) = (running.entry, running.url.clone(), running.wants.clone());
        self.cancel(job, "took longer than a pull request may");
        if let Some(source) = self.entries.get_mut(&number).and_then(|it| it.source_mut(&url)) {
            source.refuse(wants, now);
        }
        self.carry_on(number, now);
    }

    fn next_to_make_way(&self, number: u64, now: Time) -> Option<MakesWay> {
        let entry = self.entries.get(&number)?;
        let running = || entry.running.iter().filter_map(|job| Some((*job, self.jobs.get(job)?)));
        let proposals = || running().filter(|(_, it)| it.claim.class == SlotClass::Proposal);
        let (slowest, it) = proposals().min_by_key(|(job, it)| (it.pace.rate(now), *job))?;
        let is_full = entry.running.len() >= JOBS_MAX;
        let (count, count_max) = (proposals().count(), proposals_max(entry));
        if !is_full && count < count_max {
            return None;
        }
        let needs = Needs::of(unasked(entry, running().map(|(_, it)| it)));
        if is_full && self.waits(entry, &needs, now, |class| class != SlotClass::Proposal) {
            return Some(MakesWay::Now(slowest));
        }
        // With more than there may be now, the end of one helps no other.
        let waits = count <= count_max
            && self.waits(entry, &needs, now, |class| class == SlotClass::Proposal);
        waits.then(|| MakesWay::At(it.started.plus(SLOW_MAX), slowest))
    }

    /// Could a question of such a class be asked, if there was a place for it?
    fn waits(
        &self,
        entry: &Entry,
        needs: &Needs,
        now: Time,
        is_it: impl Fn(SlotClass) -> bool,
    ) -> bool {
        let (owner, settings) = (&entry.family.owner, &self.settings);
        entry.sources.iter().filter(|source| source.is_untried(now)).any(|source| {
            self.class_at(entry, source, needs, now).is_some_and(|class| {
                is_it(class)
                    && (class != SlotClass::Proposal
                        || self.neighbours.is_free(&source.domain, owner, settings, now))
            })
        })
    }

    /// That is not the fault of the pull request, which is asked for again in this attempt.
    fn make_way_for_state(&mut self, job: Job) {
        let Some(running) = self.jobs.get(&job) else { return };
        let (number, url, wants) = (running.entry, running.url.clone(), running.wants.clone());
        self.cancel(job, "put off: a state of the repository comes first");
        if let Some(source) = self.entries.get_mut(&number).and_then(|it| it.source_mut(&url)) {
            source.take_back(&wants);
        }
    }
}

/// Wants of a family for which no fetch runs.
fn unasked<'a>(entry: &Entry, running: impl Iterator<Item = &'a Running>) -> BTreeSet<Oid> {
    let asked: BTreeSet<&Oid> = running.flat_map(|it| &it.wants).collect();
    entry.wants.iter().filter(|oid| !asked.contains(oid)).copied().collect()
}
