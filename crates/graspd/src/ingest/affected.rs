//! Which families of repositories a change may concern. Small enough to be written down before the
//! change is carried through, and all that is needed to finish it after a crash.

use grasp_core::maintainers::Family;
use grasp_core::nip34::{Announcement, PullRequest};
use grasp_core::{Event, EventId, Identifier, Kind, PubKey, RepoId};
use grasp_store::{Result, Shelf, Snapshot, StoreError, Transaction};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Affected {
    families: BTreeMap<String, Concern>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Concern {
    /// The people around whom the family is looked for.
    pub(super) keys: BTreeSet<PubKey>,
    /// Pull requests whose ref may have to come or go.
    pub(super) proposals: BTreeSet<EventId>,
    /// Some owner left, so some states may have lost their ground.
    pub(super) left: bool,
}

impl Concern {
    /// As many people at a time as one family may have.
    pub(super) fn in_parts(&self) -> Vec<Self> {
        let keys: Vec<PubKey> = self.keys.iter().copied().collect();
        let part = |keys: &[PubKey]| Self { keys: keys.iter().copied().collect(), ..self.clone() };
        keys.chunks(Family::KEYS_MAX).map(part).collect()
    }
}

impl Affected {
    pub(super) fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    pub(super) fn families(&self) -> impl Iterator<Item = (Identifier, &Concern)> {
        self.families.iter().filter_map(|(name, concern)| Some((name.parse().ok()?, concern)))
    }

    /// The repositories of the people named.
    pub(super) fn repos(&self) -> impl Iterator<Item = RepoId> {
        self.families().flat_map(|(identifier, concern)| {
            let repo =
                move |owner: &PubKey| RepoId { owner: *owner, identifier: identifier.clone() };
            concern.keys.iter().map(repo)
        })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Concern)> {
        self.families.iter().map(|(name, concern)| (name.as_str(), concern))
    }

    pub(super) fn add(&mut self, identifier: &str, other: &Concern) {
        let concern = self.families.entry(identifier.to_owned()).or_default();
        concern.keys.extend(&other.keys);
        concern.proposals.extend(&other.proposals);
        concern.left |= other.left;
    }

    pub(super) fn key(&mut self, identifier: &str, key: PubKey) -> &mut Concern {
        let concern = self.families.entry(identifier.to_owned()).or_default();
        concern.keys.insert(key);
        concern
    }

    pub(super) fn repo(&mut self, repo: &RepoId) -> &mut Concern {
        self.key(repo.identifier.as_str(), repo.owner)
    }

    /// The event came or went.
    pub(super) fn event(&mut self, event: &Event) {
        match event.kind {
            Kind::STATE => {
                self.key(event.d(), event.pubkey);
            }
            Kind::ANNOUNCEMENT => {
                self.key(event.d(), event.pubkey);
                if let Ok(it) = Announcement::parse(event) {
                    let concern = self.repo(&it.repo);
                    concern.keys.extend(it.roles.active.iter().take(KEYS_MAX));
                }
            }
            Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE => {
                let targets = PullRequest::parse(event).map(|it| it.targets).unwrap_or_default();
                for repo in &targets {
                    self.repo(repo).proposals.insert(event.id);
                }
            }
            _ => {}
        }
    }
}

/// Maintainers of one announcement around whom the family is looked for; it is found from its
/// owner in any case.
const KEYS_MAX: usize = 100;

/// What has been begun: packs that are on their way into repositories, and what follows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) packs: Vec<Arriving>,
    pub(super) affected: Affected,
}

/// A quarantine whose packs belong into a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Arriving {
    pub(super) owner: PubKey,
    pub(super) identifier: String,
    pub(super) quarantine: String,
}

impl Arriving {
    pub(super) fn new(repo: &RepoId, quarantine: &str) -> Self {
        let identifier = repo.identifier.as_str().to_owned();
        Self { owner: repo.owner, identifier, quarantine: quarantine.to_owned() }
    }

    pub(super) fn repo(&self) -> Option<RepoId> {
        Some(RepoId { owner: self.owner, identifier: self.identifier.parse().ok()? })
    }
}

/// Names one row of the journal.
pub(super) type IntentKey = [u8; 8];

impl Intent {
    pub(super) fn write(&self, txn: &mut dyn Transaction) -> Result<IntentKey> {
        let rows = txn.notes(Shelf::Intents, &[], usize::MAX)?;
        let last = rows.last().and_then(|(key, _)| key.as_slice().try_into().ok());
        let key = (last.map_or(0, u64::from_be_bytes) + 1).to_be_bytes();
        self.rewrite(txn, &key)?;
        Ok(key)
    }

    /// Replaces what is left to do.
    pub(super) fn rewrite(&self, txn: &mut dyn Transaction, key: &IntentKey) -> Result<()> {
        let note =
            serde_json::to_vec(self).map_err(|_| StoreError::Damaged("unwritable intent"))?;
        txn.put_note(Shelf::Intents, key, &note)
    }

    pub(super) fn all(store: &dyn Snapshot) -> Result<Vec<(IntentKey, Intent)>> {
        let read = |(key, note): &(Vec<u8>, Vec<u8>)| {
            let key = key.as_slice().try_into().ok()?;
            Some((key, serde_json::from_slice(note).ok()?))
        };
        let rows = store.notes(Shelf::Intents, &[], usize::MAX)?;
        rows.iter().map(|row| read(row).ok_or(StoreError::Damaged("unreadable intent"))).collect()
    }

    /// What is left to do of one row; `None` if nothing is.
    pub(super) fn read(store: &dyn Snapshot, key: &IntentKey) -> Result<Option<Self>> {
        let note = store.note(Shelf::Intents, key)?;
        let read = |note: Vec<u8>| {
            serde_json::from_slice(&note).map_err(|_| StoreError::Damaged("unreadable intent"))
        };
        note.map(read).transpose()
    }

    pub(super) fn done(txn: &mut dyn Transaction, key: &IntentKey) -> Result<()> {
        txn.remove_note(Shelf::Intents, key)?;
        Ok(())
    }
}
