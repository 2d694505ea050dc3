//! The two-way rule. First the lead whose view this is (the root), then everybody who is tied to
//! the root from both sides. Each announcement and each listing is looked at once per root.

use super::{Family, Grant, Standing, Unresolved};
use crate::id::PubKey;
use std::collections::BTreeSet;

/// What is known of a candidate so far; confirmed when all of it holds.
#[derive(Clone, Copy, Default)]
struct Ties {
    /// Someone confirmed lists them.
    listed: bool,
    /// They list someone confirmed.
    lists: bool,
    /// Both hold, or they need not: nothing more to note.
    settled: bool,
    confirmed: bool,
}

impl Family {
    /// How many roots are tried for one author, and how many listings are looked at before no
    /// further root is. The author's own lead comes first and the nearest next, so these are only
    /// met by someone who lists many repositories that do not list them.
    const ROOTS_MAX: usize = 64;
    const LISTINGS_MAX: usize = 100_000;

    /// Everyone confirmed in `owner`'s view.
    pub fn confirmed(&self, owner: &PubKey) -> Result<BTreeSet<PubKey>, Unresolved> {
        let ties = self.ties(self.root(owner)?);
        let confirmed = self.keys().iter().zip(ties).filter(|(_, ties)| ties.confirmed);
        Ok(confirmed.map(|(key, _)| *key).collect())
    }

    /// Follows the leads from the owner to the one who names no other.
    pub fn root_of(&self, owner: &PubKey) -> Result<PubKey, Unresolved> {
        let root = self.root(owner)?;
        self.keys.get(root).copied().ok_or(Unresolved::OwnerMissing)
    }

    fn root(&self, owner: &PubKey) -> Result<usize, Unresolved> {
        let mut path: Vec<PubKey> = Vec::new();
        let mut at = *owner;
        loop {
            if path.contains(&at) {
                return Err(Unresolved::Cycle);
            }
            if path.len() > Self::LEVELS_MAX {
                return Err(Unresolved::TooFar);
            }
            match self.lead_of(&at, !path.is_empty())? {
                Lead::Here(index) => return Ok(index),
                Lead::At(lead) => {
                    path.push(at);
                    at = lead;
                }
            }
        }
    }

    fn lead_of(&self, key: &PubKey, followed: bool) -> Result<Lead, Unresolved> {
        let missing =
            if followed { Unresolved::LeadMissing(*key) } else { Unresolved::OwnerMissing };
        let index = self.index(key).ok_or(missing)?;
        let roles = &self.node(index).ok_or(missing)?.member.roles;
        match roles.leads.as_slice() {
            [lead] if lead == key => Ok(Lead::Here(index)),
            [lead] => Ok(Lead::At(*lead)),
            [] if followed => Err(Unresolved::PathIncomplete(*key)),
            [] if roles.author_active => Ok(Lead::Here(index)),
            [] => Err(Unresolved::OwnerInactive),
            _ => Err(Unresolved::Ambiguous(*key)),
        }
    }

    /// Grows the confirmed set from the root in rounds. A tie is noted when its confirmed end is
    /// confirmed, so nothing is ever scanned again.
    fn ties(&self, root: usize) -> Vec<Ties> {
        let mut ties = vec![Ties::default(); self.nodes.len()];
        let mut room = Self::KEYS_MAX;
        let mut newest = vec![root];
        for _ in 0..=Self::LEVELS_MAX {
            newest.truncate(room);
            room = room.saturating_sub(newest.len());
            for index in &newest {
                if let Some(it) = ties.get_mut(*index) {
                    it.confirmed = true;
                    it.settled = true;
                }
            }
            newest = self.newly_tied(&mut ties, &newest);
        }
        ties
    }

    fn newly_tied(&self, ties: &mut [Ties], newest: &[usize]) -> Vec<usize> {
        let mut ready = Vec::new();
        for node in newest.iter().filter_map(|index| self.node(*index)) {
            let listed = node.lists.iter().filter(|to| mark(ties, **to, |it| it.listed = true));
            ready.extend(listed.copied());
            let lists = node.listed_by.iter().filter(|by| mark(ties, **by, |it| it.lists = true));
            ready.extend(lists.copied());
        }
        ready.sort_unstable();
        let active =
            |index: &usize| self.node(*index).is_some_and(|node| node.member.roles.author_active);
        ready.into_iter().filter(active).collect()
    }

    pub(super) fn confirmed_authority(&self, author: &PubKey) -> Option<Grant> {
        let own = self.index(author)?;
        let best_view = self.best_views();
        let mut best = None;
        let mut looked_at = 0;
        for root in self.roots_near(own) {
            let ties = self.ties(root);
            looked_at += self.listings_among(&ties);
            let confirmed = ties.get(own).is_some_and(|ties| ties.confirmed);
            let view = best_view.get(root).copied().flatten().filter(|_| confirmed);
            best = view.into_iter().fold(best, Grant::better);
            let served = best.is_some_and(|best| best.standing == Standing::Served);
            if served || looked_at > Self::LISTINGS_MAX {
                break;
            }
        }
        best
    }

    fn listings_among(&self, ties: &[Ties]) -> usize {
        let confirmed = self.nodes.iter().zip(ties).filter(|(_, ties)| ties.confirmed);
        confirmed.map(|(node, _)| node.lists.len() + node.listed_by.len()).sum()
    }

    /// Whoever is confirmed somewhere lists someone confirmed there, who lists another, and so on
    /// up to that root: so every root that matters is found by walking the author's own listings.
    fn roots_near(&self, author: usize) -> Vec<usize> {
        let mut seen = vec![false; self.nodes.len()];
        let own = self.keys.get(author).and_then(|key| self.root(key).ok());
        let mut roots: Vec<usize> = own.into_iter().collect();
        let mut level = vec![author];
        for _ in 0..=Self::LEVELS_MAX {
            level.retain(|index| {
                seen.get_mut(*index).is_some_and(|it| !std::mem::replace(it, true))
            });
            roots.extend(
                level.iter().copied().filter(|index| Some(*index) != own && self.is_root(*index)),
            );
            let nodes = level.iter().filter_map(|index| self.node(*index));
            level = nodes.flat_map(|node| node.lists.iter().copied()).collect();
        }
        roots.truncate(Self::ROOTS_MAX);
        roots
    }

    fn is_root(&self, index: usize) -> bool {
        let key = self.keys.get(index);
        key.is_some_and(|key| matches!(self.lead_of(key, false), Ok(Lead::Here(_))))
    }

    /// For each root, the best-standing view that follows it.
    fn best_views(&self) -> Vec<Option<Grant>> {
        let mut best = vec![None; self.nodes.len()];
        for (view, node) in self.keys().iter().zip(&self.nodes) {
            let Some(slot) = self.root(view).ok().and_then(|root| best.get_mut(root)) else {
                continue;
            };
            *slot = Grant::better(*slot, Grant { view: *view, standing: node.member.standing });
        }
        best
    }
}

enum Lead {
    Here(usize),
    At(PubKey),
}

/// True the first time both ties hold.
fn mark(ties: &mut [Ties], index: usize, tie: impl Fn(&mut Ties)) -> bool {
    let Some(it) = ties.get_mut(index) else { return false };
    tie(it);
    let completes = it.listed && it.lists && !it.settled;
    it.settled |= completes;
    completes
}
