//! A push at the writer's desk: asked again whether it may, written into the journal, and carried
//! through. Until the journal has it nothing has happened; after that nothing can undo it.

use super::affected::{Affected, Arriving, Intent};
use super::copies;
use super::plan::view_key;
use super::settle::SettleError;
use super::uploads::{self, Upload};
use super::views::{Hosting, hosted, scene, state_by_id};
use super::writer::Desk;
use crate::hub::Fresh;
use grasp_core::nip34::State;
use grasp_core::push::{Command, Decision, Grant, Target, authorise};
use grasp_core::unfit::Unfit;
use grasp_core::{EventId, RepoId};
use grasp_git::{ObjectKind, Objects, Quarantine};
use grasp_store::{Shelf, Space, StoreError, Transaction};
use std::collections::BTreeSet;

/// Objects in quarantine, and what they were brought for.
#[derive(Debug)]
pub struct Delivery {
    pub repo: RepoId,
    pub commands: Vec<Command>,
    pub quarantine: Quarantine,
    pub bytes: u64,
    /// The same objects for other owners' repositories, as far as they lack them.
    pub others: Vec<(RepoId, Quarantine)>,
    /// Who brings it, as an opaque word.
    pub from: String,
}

/// Objects copied from one repository here to another.
#[derive(Debug)]
pub struct Copied {
    pub to: RepoId,
    pub quarantine: Quarantine,
    pub proposals: BTreeSet<EventId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused { reason: String, advice: String },
}

/// How far a push has come at the end of its turn.
#[derive(Debug)]
pub(super) enum Landed {
    Ended(Outcome),
    /// Its release goes on in a later turn.
    Paused,
}

fn ended(outcome: Outcome) -> (Vec<Fresh>, Landed) {
    (Vec::new(), Landed::Ended(outcome))
}

impl Outcome {
    fn refused(reason: &str, advice: impl Into<String>) -> Self {
        Self::Refused { reason: reason.to_owned(), advice: advice.into() }
    }

    pub fn failed() -> Self {
        let advice = "the server could not finish this push now; push again in a minute";
        Self::refused("internal error", advice)
    }

    /// For something that went wrong here; a full disk is worth its own words.
    fn failed_by(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let io = error.downcast_ref::<std::io::Error>();
            if io.is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull) {
                let advice = "tell this server's operator, and push again when there is room";
                return Self::refused("the server's disk is full", advice);
            }
            cause = error.source();
        }
        Self::failed()
    }
}

impl Desk<'_> {
    /// Carries a push through. What it served comes with the answer.
    pub(super) fn land(&mut self, it: &mut Delivery) -> (Vec<Fresh>, Landed) {
        match self.try_land(it) {
            Ok(landed) => landed,
            Err(error) => {
                tracing::error!(repo = %it.repo, %error, "a push could not be finished");
                (Vec::new(), Landed::Ended(Outcome::failed_by(&error)))
            }
        }
    }

    fn try_land(&mut self, it: &mut Delivery) -> Result<(Vec<Fresh>, Landed), StoreError> {
        let snapshot = self.writer.store.read()?;
        let (rules, host) = (&self.writer.rules, &self.writer.host);
        let scene = scene(&*snapshot, self.roles, rules, host, &it.repo, &it.commands)?;
        let Some(scene) = scene else {
            let advice = "the repository is no longer hosted here; publish its announcement again";
            return Ok(ended(Outcome::refused("not hosted here", advice)));
        };
        let grant = match authorise(&it.commands, &scene) {
            Decision::Unchanged => return Ok(ended(Outcome::Done)),
            Decision::Allow(grant) => grant,
            Decision::Deny(denial) => {
                let refused = Outcome::refused(&denial.to_string(), denial.advice());
                return Ok(ended(refused));
            }
        };
        let state = grant.state.map(|id| state_by_id(&*snapshot, &id)).transpose()?.flatten();
        // While the repository itself waits, only a state can let objects in.
        let waits = hosted(&*snapshot, rules, &it.repo)? == Some(Hosting::Held);
        let apart = !grant.unclaimed.is_empty() || (waits && grant.state.is_none());
        drop(snapshot);
        if let Some(lacks) = lacking(&it.quarantine, state.as_ref(), &grant) {
            return Ok(ended(lacks));
        }
        match apart {
            false => self.release(it, &grant),
            true => Ok(ended(self.keep_apart(it, &grant)?)),
        }
    }

    /// The objects belong to signed events: into the repositories with them.
    fn release(
        &mut self,
        it: &mut Delivery,
        grant: &Grant,
    ) -> Result<(Vec<Fresh>, Landed), StoreError> {
        let mut intent = Intent::default();
        intent.affected.repo(&it.repo).proposals.extend(grant.claimed.keys());
        intent.packs.push(Arriving::new(&it.repo, it.quarantine.name()));
        let others = it.others.iter().map(|(repo, other)| Arriving::new(repo, other.name()));
        intent.packs.extend(others);
        let key = self.begin(&intent, &|txn| follows(txn, &intent, grant))?;
        // Only now: what the journal does not know goes with the one who brought it.
        it.quarantine.keep();
        it.others.iter_mut().for_each(|(_, other)| other.keep());
        let carried = self.carry(&key, &intent);
        carried.complain();
        let landed = match carried.is_paused {
            true => Landed::Paused,
            false => Landed::Ended(self.outcome(it, carried.error.as_ref())),
        };
        Ok((carried.fresh, landed))
    }

    /// What to tell a push whose release is over.
    pub(super) fn outcome(&self, it: &Delivery, error: Option<&SettleError>) -> Outcome {
        match (self.is_done(it), error) {
            (true, _) => Outcome::Done,
            (false, Some(error)) => Outcome::failed_by(error),
            (false, None) => Outcome::failed(),
        }
    }

    fn is_done(&self, it: &Delivery) -> bool {
        let Ok(shown) = self.writer.host.repos.shown(&it.repo) else { return false };
        // A pull request may be served without a ref of its own.
        let is_served = |id: &EventId| {
            let snapshot = self.writer.store.read();
            snapshot.and_then(|it| it.contains(Space::Served, id)).unwrap_or(false)
        };
        it.commands.iter().all(|command| {
            let now = match &command.target {
                // Asked for no change, whatever it believes to be there.
                Some(Target::Governed(_)) if command.old == command.new => return true,
                Some(Target::Governed(name)) => shown.refs.governed.get(name),
                Some(Target::Proposal(id)) if is_served(id) => return true,
                Some(Target::Proposal(id)) => shown.refs.proposals.get(id),
                None => None,
            };
            now.map(|entry| entry.oid) == command.new
        })
    }

    /// Nobody has signed for this yet: it stays where it is, and a row remembers it.
    fn keep_apart(&self, it: &mut Delivery, grant: &Grant) -> Result<Outcome, StoreError> {
        let limits = &self.writer.host.uploads;
        let deadline = self.at.now.plus(limits.patience);
        let (mut refusal, mut is_new) = (None, false);
        self.writer.store.write(&mut |txn| {
            let mut tips = Vec::new();
            for (event, tip) in grant.unclaimed.iter().chain(&grant.claimed) {
                if uploads::find(txn, &it.repo, event, tip)?.is_none() {
                    tips.push((event, tip));
                }
            }
            // What is here already is not kept a second time.
            is_new = !tips.is_empty();
            refusal = match is_new {
                true => uploads::refusal(txn, &it.repo, &it.from, (tips.len(), it.bytes), limits)?,
                false => None,
            };
            if refusal.is_some() {
                return Ok(());
            }
            for (at, (event, tip)) in tips.into_iter().enumerate() {
                // Counted once, however many tips share the pack.
                let bytes = if at == 0 { it.bytes } else { 0 };
                let (event, tip) = (*event, *tip);
                let (quarantine, from) = (it.quarantine.name().to_owned(), it.from.clone());
                let upload = Upload { event, tip, quarantine, bytes, from, deadline };
                uploads::put(txn, &it.repo, &upload)?;
            }
            Ok(())
        })?;
        Ok(match refusal {
            Some(why) => Outcome::refused(
                "too much is waiting",
                format!(
                    "{why}; publish the pull request events, or try again in {} minutes",
                    limits.patience.as_secs().div_ceil(60)
                ),
            ),
            None => {
                if is_new {
                    it.quarantine.keep();
                }
                Outcome::Done
            }
        })
    }

    /// Objects another view had.
    pub(super) fn copied(&mut self, mut it: Copied) -> Vec<Fresh> {
        let mut intent = Intent { affected: Affected::default(), packs: Vec::new() };
        intent.affected.repo(&it.to).proposals.extend(&it.proposals);
        intent.packs.push(Arriving::new(&it.to, it.quarantine.name()));
        let ended = |txn: &mut dyn Transaction| copies::ended(txn, &it.to, &it.proposals);
        match self.begin(&intent, &ended) {
            Ok(key) => {
                it.quarantine.keep();
                let carried = self.carry(&key, &intent);
                carried.complain();
                carried.fresh
            }
            Err(error) => {
                tracing::error!(repo = %it.to, %error, "copied objects could not be taken in");
                Vec::new()
            }
        }
    }

    pub(super) fn not_copied(&self, to: &RepoId, proposals: &BTreeSet<EventId>) {
        let ended = self.writer.store.write(&mut |txn| copies::ended(txn, to, proposals));
        if let Err(error) = ended {
            tracing::error!(repo = %to, %error, "a copy that failed is asked for at the next start");
        }
    }
}

/// From here on refs may move. Should the state be taken back before it is served, they say whose
/// they were.
fn follows(txn: &mut dyn Transaction, intent: &Intent, grant: &Grant) -> Result<(), StoreError> {
    let Some(state) = grant.state else { return Ok(()) };
    let mut repos = intent.packs.iter().filter_map(Arriving::repo);
    repos.try_for_each(|repo| txn.put_note(Shelf::Views, &view_key(&repo), state.as_bytes()))
}

/// Is something still missing of what the push was allowed for?
fn lacking(quarantine: &Quarantine, state: Option<&State>, grant: &Grant) -> Option<Outcome> {
    let Ok(objects) = Objects::open(quarantine.path()) else { return Some(Outcome::failed()) };
    let unfit = state.map(|state| objects.entries(&state.refs).unfit).unwrap_or_default();
    if let Some(unfit) = unfit.first() {
        let reason = match unfit.why {
            Unfit::Absent => "missing objects",
            _ => "a ref of the signed state cannot be served",
        };
        let advice = match unfit.why {
            Unfit::Absent => format!("{unfit}; push it, or sign a state without it"),
            _ => format!("{unfit}; sign a state that names another object there, then push that"),
        };
        return Some(Outcome::refused(reason, advice));
    }
    let mut tips = grant.claimed.iter().chain(&grant.unclaimed);
    let (id, tip) = tips.find(|(_, tip)| objects.kind(tip) != Some(ObjectKind::Commit))?;
    let name = Target::Proposal(*id);
    Some(match objects.kind(tip) {
        None => Outcome::refused("missing objects", format!("{tip} is not here; push it")),
        Some(kind) => Outcome::refused(
            "a pull request must point to a commit",
            format!("{name} cannot point to {tip}: it is a {}, not a commit", kind.as_str()),
        ),
    })
}
