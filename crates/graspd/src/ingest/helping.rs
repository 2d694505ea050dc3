//! One helping: events judged and applied in one transaction, what follows from that, and what gets
//! a second chance by it. Whoever is to be told hears of it afterwards.

use super::admit::{Admission, Candidate, Effects, Purse};
use super::affected::{Intent, IntentKey};
use super::lanes::Sealed;
use super::refused::Counts;
use super::second_chance::{Arrivals, Orphan, Revived, Sizes, revive};
use super::writer::Desk;
use crate::host::Chore;
use crate::hub::Fresh;
use grasp_core::VerifiedEvent;
use grasp_core::policy::Answer;
use grasp_relay::IpKey;
use grasp_store::{Provenance, Space, StoreError, Transaction};
use std::sync::Arc;

/// One event of a helping.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming<'a> {
    pub(super) event: &'a Arc<VerifiedEvent>,
    pub(super) from: &'a Provenance,
    pub(super) ip: Option<IpKey>,
}

/// A transaction that is on the disk, and what follows from it.
#[derive(Default)]
pub(super) struct Committed {
    admissions: Vec<Admission>,
    discards: Vec<String>,
    begun: Option<(IntentKey, Intent)>,
    orphans: Vec<Orphan>,
    revived: Revived,
}

/// The same once it has been carried through.
pub(super) struct Concluded {
    pub(super) admissions: Vec<Admission>,
    /// All that is served by now, if anything had to be carried.
    pub(super) carried: Option<Vec<Fresh>>,
    pub(super) arrivals: Arrivals,
}

impl<'a> Incoming<'a> {
    pub(super) fn of(sealed: &'a Sealed) -> Self {
        Self { event: &sealed.event, from: &sealed.from, ip: sealed.ip }
    }

    fn again(orphan: &'a Orphan) -> Self {
        Self { event: &orphan.event, from: &orphan.from, ip: None }
    }
}

impl Desk<'_> {
    pub(super) fn commit(&mut self, batch: &[Incoming<'_>]) -> Result<Committed, StoreError> {
        let mut committed = Committed::default();
        // Asked once per event, however often the transaction has to be run.
        let mut asked = vec![(None, None); batch.len()];
        let (writer, at) = (self.writer, self.at);
        writer.store.write(&mut |txn: &mut dyn Transaction| {
            committed = Committed::default();
            let mut effects = Effects::default();
            for (incoming, (repository, hold)) in batch.iter().zip(&mut asked) {
                let Incoming { event, from, ip } = *incoming;
                let counted = ip.filter(|ip| writer.budgets.lock().counts(*ip));
                let purse = Purse {
                    new_repository: &mut || {
                        repository.get_or_insert_with(|| writer.may_bring_repository(ip)).clone()
                    },
                    hold: &mut || hold.get_or_insert_with(|| writer.may_hold(ip)).clone(),
                };
                let mut clerk = writer.clerk(self.roles, &mut effects, purse, at);
                committed
                    .admissions
                    .push(clerk.admit(txn, &Candidate { event, from, ip: counted })?);
            }
            committed.discards = effects.discards;
            committed.orphans = effects.orphans;
            committed.revived = effects.revived;
            let intent = Intent { affected: effects.affected, packs: Vec::new() };
            if !intent.affected.is_empty() {
                committed.begun = Some((intent.write(txn)?, intent));
            }
            Ok(())
        })?;
        Ok(committed)
    }

    /// What follows from a helping that is on the disk, before anybody hears of it.
    pub(super) fn conclude(&mut self, batch: &[Incoming<'_>], committed: Committed) -> Concluded {
        let Committed { mut admissions, discards, begun, orphans, revived } = committed;
        discards.into_iter().for_each(|name| self.writer.host.send(Chore::Discard(name)));
        let chances = &self.writer.second_chance;
        orphans.into_iter().for_each(|orphan| chances.keep(orphan, self.at.wall));
        revive(&mut self.revived, revived);
        let mut carried = None;
        if let Some((key, intent)) = begun {
            let mut fresh: Vec<Fresh> =
                admissions.iter_mut().flat_map(|it| std::mem::take(&mut it.fresh)).collect();
            let all = self.carry(&key, &intent);
            all.complain();
            fresh.extend(all.fresh);
            self.correct(batch, &mut admissions);
            carried = Some(fresh);
        }
        let fresh = carried.iter().flatten().chain(admissions.iter().flat_map(|it| &it.fresh));
        let served = fresh.filter(|fresh| fresh.serial.is_some()).map(|fresh| &fresh.event);
        let held = batch.iter().zip(&admissions).filter(|(_, it)| it.waits);
        let events: Vec<Arc<VerifiedEvent>> =
            served.chain(held.map(|(it, _)| it.event)).cloned().collect();
        if !events.is_empty() {
            self.writer.wake.ring();
        }
        let arrivals = Arrivals { events, revived: std::mem::take(&mut self.revived) };
        Concluded { admissions, carried, arrivals }
    }

    /// Judges again what was refused for want of what is here now, and what follows from that.
    /// Returns what is served by it.
    pub(super) fn give_second_chances(&mut self, mut came: Arrivals) -> Vec<Fresh> {
        let (mut fresh, mut room) = (Vec::new(), came.reach());
        loop {
            let again = self.writer.second_chance.take(&came, self.at.wall, room);
            self.count_judged_again(&came, &again);
            if again.is_empty() {
                return fresh;
            }
            room -= again.len();
            let incoming: Vec<Incoming<'_>> = again.iter().map(Incoming::again).collect();
            let committed = match self.commit(&incoming) {
                Ok(committed) => committed,
                Err(error) => {
                    // Their ids are forgotten, so they come with the next sync.
                    tracing::error!(%error, "refused events could not be judged again");
                    return fresh;
                }
            };
            let Concluded { admissions, carried, arrivals } = self.conclude(&incoming, committed);
            fresh.extend(carried.into_iter().flatten());
            for (incoming, admission) in incoming.iter().zip(admissions) {
                let Admission { answer, code, fresh: own, .. } = admission;
                // Its refusal has been counted before.
                if answer.ok {
                    self.writer.metrics.event_judged(incoming.event.kind, true, code);
                }
                fresh.extend(own);
            }
            came = arrivals;
        }
    }

    fn count_judged_again(&self, came: &Arrivals, again: &[Orphan]) {
        let (mut ids, mut whole) = (Counts::default(), Sizes::default());
        came.revived.values().for_each(|counts| ids.add(counts));
        again.iter().for_each(|orphan| whole.add(orphan.event.kind));
        self.writer.metrics.refused.judged_again(ids.into(), whole.into());
    }

    /// What was going to be told to wait may be served by now.
    fn correct(&self, batch: &[Incoming<'_>], admissions: &mut [Admission]) {
        let Ok(snapshot) = self.writer.store.read() else { return };
        for (incoming, admission) in batch.iter().zip(admissions).filter(|(_, it)| it.waits) {
            if snapshot.contains(Space::Served, &incoming.event.id).unwrap_or(false) {
                admission.answer = Answer::taken("");
                admission.code = "accepted";
            }
        }
    }
}
