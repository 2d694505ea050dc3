//! A pull request comes, or the people of its repository say what became of it: may it have a ref?

use super::admit::{Candidate, Clerk};
use super::claims::{self, PULL_REQUESTS, RefClaim};
use super::gather::family;
use super::views::standing;
use grasp_core::held_share::HeldSource;
use grasp_core::nip34::{PullRequest, References};
use grasp_core::policy::{Prefix, Reason};
use grasp_core::proposal_share::FullProposals;
use grasp_core::terms::Term;
use grasp_core::{Event, EventId, Kind, Oid, PubKey, RepoId};
use grasp_store::{Result, Space, StoredEvent, Transaction};

const OPEN: Kind = Kind(1630);
const APPLIED: Kind = Kind(1631);
const CLOSED: Kind = Kind(1632);
const DRAFT: Kind = Kind(1633);
/// Events about one pull request that are looked through for its newest status, or for its updates.
const ABOUT_MAX: usize = 1_000;

/// The refs a pull request may have, or why it gets none.
pub(super) enum Claimed {
    Refs(Vec<(RepoId, RefClaim)>),
    Full(Reason),
}

pub(super) const fn is_status(kind: Kind) -> bool {
    matches!(kind, OPEN | APPLIED | CLOSED | DRAFT)
}

impl Clerk<'_> {
    /// One that fits nowhere is refused. A commit that is the tip of a branch needs no ref.
    pub(super) fn claim(
        &self,
        txn: &dyn Transaction,
        it: &Candidate<'_>,
        proposal: &PullRequest,
    ) -> Result<Claimed> {
        let Some(tip) = proposal.tip else { return Ok(Claimed::Refs(Vec::new())) };
        let address = it.ip.map(|ip| HeldSource::Address(ip.customer()));
        let source = claims::relay_of(it.from).or(address);
        let claim = RefClaim { author: it.event.pubkey, tip, source };
        let (mut refs, mut full, mut needs_none) = (Vec::new(), None, false);
        for repo in &proposal.targets {
            if standing(txn, self.rules, repo)?.is_none() {
                continue;
            }
            if self.is_branch_tip(repo, &tip) {
                needs_none = true;
                continue;
            }
            let used = claims::used(txn, repo, &claim)?;
            let source = claims::limited_source(txn, repo, &claim)?;
            match self.bounds.proposals.full(&used, source) {
                None => refs.push((repo.clone(), claim.clone())),
                Some(limit) => full = Some(limit),
            }
        }
        Ok(match full {
            Some(full) if refs.is_empty() && !needs_none => Claimed::Full(no_ref_left(&full)),
            _ => Claimed::Refs(refs),
        })
    }

    fn is_branch_tip(&self, repo: &RepoId, tip: &Oid) -> bool {
        let Ok(shown) = self.repos.shown(repo) else { return false };
        shown.refs.governed.iter().any(|(name, entry)| name.is_branch() && entry.oid == *tip)
    }

    /// A status event is served. The newest one by a person with a say frees the place of a pull request
    /// and of its updates, or asks for it again.
    pub(super) fn apply_status(&mut self, txn: &mut dyn Transaction, status: &Event) -> Result<()> {
        for id in References::of(status).ids {
            let Some(root) = txn.get(Space::Served, &id)? else { continue };
            if !PULL_REQUESTS.contains(&root.event.kind) {
                continue;
            }
            for it in std::iter::once(root.clone()).chain(updates(txn, &root)?) {
                let targets = PullRequest::parse(&it.event).map(|it| it.targets);
                for repo in targets.unwrap_or_default() {
                    self.follow_status(txn, &repo, &root.event.id, &it)?;
                }
            }
        }
        Ok(())
    }

    fn follow_status(
        &mut self,
        txn: &mut dyn Transaction,
        repo: &RepoId,
        root: &EventId,
        it: &StoredEvent,
    ) -> Result<()> {
        let family = family(txn, self.roles, [repo.owner], repo.identifier.as_str())?;
        let members = family.members_of(&repo.owner, self.rules.maintainer_rule);
        let members = members.unwrap_or_default();
        let has_say = |author: &PubKey| *author == repo.owner || members.contains(author);
        let about = txn.newest(Space::Served, &Term::tag(b'e', &root.to_hex()), ABOUT_MAX)?;
        let is_word = |it: &&StoredEvent| is_status(it.event.kind) && has_say(&it.event.pubkey);
        let newest = about.iter().find(is_word).map(|it| it.event.kind);
        let id = it.event.id;
        let changed = match newest {
            Some(APPLIED | CLOSED) => claims::release(txn, repo, &id)?,
            Some(OPEN | DRAFT) => self.claim_again(txn, repo, it)?,
            _ => false,
        };
        if changed {
            self.effects.affected.repo(repo).proposals.insert(id);
        }
        Ok(())
    }

    fn claim_again(
        &self,
        txn: &mut dyn Transaction,
        repo: &RepoId,
        it: &StoredEvent,
    ) -> Result<bool> {
        let Some(tip) = PullRequest::parse(&it.event).ok().and_then(|it| it.tip) else {
            return Ok(false);
        };
        let (author, source) = (it.event.pubkey, claims::relay_of(&it.provenance));
        let claim = RefClaim { author, tip, source };
        let used = claims::used(txn, repo, &claim)?;
        if claims::has(txn, repo, &it.event.id)? || used.all >= self.bounds.proposals.refs_max {
            return Ok(false);
        }
        claims::put(txn, repo, &it.event.id, &claim)?;
        Ok(true)
    }
}

/// The updates of a pull request by its own author.
fn updates(txn: &dyn Transaction, root: &StoredEvent) -> Result<Vec<StoredEvent>> {
    let mut found = Vec::new();
    for letter in [b'e', b'E'] {
        let term = Term::tag(letter, &root.event.id.to_hex());
        let about = txn.newest(Space::Served, &term, ABOUT_MAX)?;
        found.extend(about.into_iter().filter(|it| {
            it.event.kind == Kind::PULL_REQUEST_UPDATE && it.event.pubkey == root.event.pubkey
        }));
    }
    Ok(found)
}

fn no_ref_left(full: &FullProposals) -> Reason {
    Reason::saying(Prefix::RateLimited, "proposals-full", full.to_string())
}
