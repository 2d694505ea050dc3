//! Who may say where a repository's branches are. Membership is asked for one owner's view at a
//! time and knows only the announcements it was given. What cannot be resolved grants nothing, and
//! no graph, however large or circular, costs more than its bounds.

mod confirmed;
mod gather;
mod keys;

use crate::event::Event;
use crate::id::PubKey;
use crate::nip34::Roles;
use keys::Keys;
use std::collections::BTreeSet;

/// Which listings count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaintainerRule {
    /// Both sides must say so: someone confirmed lists you, and your own announcement lists them.
    #[default]
    Confirmed,
    /// Being listed is enough, and who is listed may list others.
    Listed,
}

/// How far an event has come here. Ordered: served is more than held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Held,
    Served,
}

/// One person's announcement of the identifier in question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub roles: Roles,
    pub standing: Standing,
}

impl Member {
    /// The newest version decides the roles, even while it is held; one served version is enough
    /// to count as served.
    pub fn of(served: Option<&Event>, held: Option<&Event>) -> Option<Self> {
        let held_is_newer = match (served, held) {
            (Some(served), Some(held)) => held.rank().beats(&served.rank()),
            _ => served.is_none(),
        };
        let newest = if held_is_newer { held } else { served }?;
        let standing = if served.is_some() { Standing::Served } else { Standing::Held };
        Some(Self { roles: Roles::of(newest), standing })
    }
}

/// Why nobody has a say in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error("the owner has no announcement here")]
    OwnerMissing,
    #[error("the owner is not an active maintainer and names no lead")]
    OwnerInactive,
    #[error("the lead {0} has no announcement here")]
    LeadMissing(PubKey),
    #[error("{0} is named as lead but names none")]
    PathIncomplete(PubKey),
    #[error("{0} names more than one lead")]
    Ambiguous(PubKey),
    #[error("the leads name each other in a circle")]
    Cycle,
    #[error("the lead is more than {} announcements away", Family::LEVELS_MAX)]
    TooFar,
}

/// The known announcements of one identifier around some people. Keys are sorted, so that an index
/// is an order, and edges are indices.
#[derive(Debug, Clone, Default)]
pub struct Family {
    keys: Keys,
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
struct Node {
    member: Member,
    lists: Vec<usize>,
    listed_by: Vec<usize>,
}

/// By which view an author has a say, and how far the best of those views has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub view: PubKey,
    pub standing: Standing,
}

impl Grant {
    fn better(best: Option<Self>, other: Self) -> Option<Self> {
        best.filter(|best| best.standing >= other.standing).or(Some(other))
    }
}

impl Family {
    /// Further keys grant nothing; those found keep what they have.
    pub const KEYS_MAX: usize = 1_000;
    /// Steps from the root of a view, breadth first, ties by key.
    pub const LEVELS_MAX: usize = 8;

    pub fn member(&self, key: &PubKey) -> Option<&Member> {
        self.node(self.index(key)?).map(|node| &node.member)
    }

    pub fn keys(&self) -> &[PubKey] {
        self.keys.as_slice()
    }

    /// Everyone with a say in `owner`'s view.
    pub fn members_of(
        &self,
        owner: &PubKey,
        rule: MaintainerRule,
    ) -> Result<BTreeSet<PubKey>, Unresolved> {
        match rule {
            MaintainerRule::Confirmed => self.confirmed(owner),
            MaintainerRule::Listed => self.listed(owner),
        }
    }

    /// Has this author a say in at least one view known here? The family must have been gathered
    /// around the author.
    pub fn authority(&self, author: &PubKey, rule: MaintainerRule) -> Option<Grant> {
        match rule {
            MaintainerRule::Confirmed => self.confirmed_authority(author),
            MaintainerRule::Listed => self.listed_authority(author),
        }
    }

    /// Who invites this person: the best-standing announcement that actively lists them.
    pub fn invited(&self, key: &PubKey) -> Option<Grant> {
        let listers = self.keys().iter().zip(&self.nodes);
        let listers = listers.filter(|(_, node)| node.member.roles.lists(key));
        let listers =
            listers.map(|(view, node)| Grant { view: *view, standing: node.member.standing });
        listers.fold(None, Grant::better)
    }

    /// The one-way rule: the owner, whom they list, whom those list, and so on. A key that has
    /// resigned by its own announcement is out and brings nobody in; an owner who has resigned
    /// still hands on the view.
    pub fn listed(&self, owner: &PubKey) -> Result<BTreeSet<PubKey>, Unresolved> {
        self.member(owner).ok_or(Unresolved::OwnerMissing)?;
        let mut members = BTreeSet::from([*owner]);
        let mut level = vec![*owner];
        for _ in 0..Self::LEVELS_MAX {
            let lists = level.iter().filter_map(|key| self.member(key));
            let named: BTreeSet<PubKey> = lists.flat_map(|it| it.roles.active.clone()).collect();
            level = named.into_iter().filter(|key| !self.has_resigned(key)).collect();
            level.retain(|key| members.len() < Self::KEYS_MAX && members.insert(*key));
        }
        members.retain(|key| !self.has_resigned(key));
        Ok(members)
    }

    fn listed_authority(&self, author: &PubKey) -> Option<Grant> {
        if self.has_resigned(author) {
            return None;
        }
        let own = self.member(author);
        let own = own.map(|own| Grant { view: *author, standing: own.standing });
        own.into_iter().chain(self.invited(author)).fold(None, Grant::better)
    }

    fn has_resigned(&self, key: &PubKey) -> bool {
        self.member(key).is_some_and(|member| !member.roles.author_active)
    }

    fn index(&self, key: &PubKey) -> Option<usize> {
        self.keys.position(key)
    }

    fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }
}
