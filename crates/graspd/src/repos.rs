//! The repositories that are open: their refs as we last wrote them, and a way to look into their
//! objects. Only the writer changes refs, and it does so through here, so what is shown is what is
//! on the disk.

use bytes::Bytes;
use grasp_core::{Oid, RefName, RepoId};
use grasp_git::{
    Layout, ObjectKind, Objects, ObjectsError, Protocol, RefEntries, RefTable, RefsError, Service,
    advertise,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    #[error("{repo}: {why}")]
    Refs { repo: RepoId, why: RefsError },
    #[error("{repo}: {why}")]
    Objects { repo: RepoId, why: ObjectsError },
}

/// What a visitor sees of a repository at one moment.
#[derive(Debug, Default)]
pub struct Shown {
    pub refs: RefTable,
    /// False until the first objects have landed.
    pub exists: bool,
    adverts: [OnceLock<Bytes>; 6],
}

impl Shown {
    pub fn advertisement(&self, service: Service, protocol: Protocol) -> Bytes {
        let row = match service {
            Service::UploadPack => 0,
            Service::ReceivePack => 3,
        };
        let column = match protocol {
            Protocol::V0 => 0,
            Protocol::V1 => 1,
            Protocol::V2 => 2,
        };
        let render = || advertise::advertisement(service, protocol, &self.refs);
        self.adverts.get(row + column).map_or_else(render, |kept| kept.get_or_init(render).clone())
    }

    /// Branches and tags by name.
    pub fn governed(&self) -> BTreeMap<RefName, Oid> {
        self.refs.governed.iter().map(|(name, entry)| (name.clone(), entry.oid)).collect()
    }

    fn weight(&self) -> usize {
        self.refs.governed.len() + self.refs.proposals.len() + self.refs.kept.len() + 1
    }
}

/// A repository's objects, for questions that need no process.
#[derive(Debug)]
pub struct Store(Mutex<Objects>);

impl Store {
    /// The refs as they would be written, and those that cannot be.
    pub fn entries(&self, refs: &BTreeMap<RefName, Oid>) -> RefEntries {
        self.0.lock().entries(refs)
    }

    pub fn contains(&self, oid: &Oid) -> bool {
        self.0.lock().contains(oid)
    }

    pub fn is_commit(&self, oid: &Oid) -> bool {
        self.0.lock().kind(oid) == Some(ObjectKind::Commit)
    }
}

#[derive(Debug)]
struct Open {
    shown: Arc<Shown>,
    store: Option<Arc<Store>>,
    used: u64,
}

#[derive(Debug, Default)]
struct Inside {
    open: HashMap<RepoId, Open>,
    weight: usize,
    /// Grows with every change, so that a slow reader cannot put back what was true before it.
    changes: u64,
    clock: u64,
}

#[derive(Debug)]
pub struct Repos {
    layout: Layout,
    inside: Mutex<Inside>,
}

/// Repositories kept open, and refs remembered in all of them, about 100 bytes each.
const OPEN_MAX: usize = 256;
const REFS_MAX: usize = 500_000;

impl Repos {
    pub fn new(layout: Layout) -> Self {
        Self { layout, inside: Mutex::default() }
    }

    pub fn directory(&self, repo: &RepoId) -> PathBuf {
        self.layout.repository(repo)
    }

    /// Reads the disk when the repository was not open; not for the network threads.
    pub fn shown(&self, repo: &RepoId) -> Result<Arc<Shown>, RepoError> {
        loop {
            let before = match self.inside.lock().recall(repo) {
                Ok(open) => return Ok(open.0),
                Err(changes) => changes,
            };
            let shown = Arc::new(self.read(repo)?);
            let mut inside = self.inside.lock();
            if inside.changes == before {
                inside.keep(repo, Arc::clone(&shown), None);
                return Ok(shown);
            }
        }
    }

    /// `None` while the repository has no directory.
    pub fn store(&self, repo: &RepoId) -> Result<Option<Arc<Store>>, RepoError> {
        let shown = self.shown(repo)?;
        if !shown.exists {
            return Ok(None);
        }
        if let Ok((_, Some(store))) = self.inside.lock().recall(repo) {
            return Ok(Some(store));
        }
        let failed = |why| RepoError::Objects { repo: repo.clone(), why };
        let objects = Objects::open(&self.layout.repository(repo)).map_err(failed)?;
        let store = Arc::new(Store(Mutex::new(objects)));
        let mut inside = self.inside.lock();
        if let Some(open) = inside.open.get_mut(repo) {
            open.store = Some(Arc::clone(&store));
        }
        Ok(Some(store))
    }

    /// Moves refs. Durable when it returns; visitors see all of it or nothing.
    pub fn write(&self, repo: &RepoId, refs: RefTable) -> Result<(), RepoError> {
        let failed = |why| RepoError::Refs { repo: repo.clone(), why };
        refs.write(&self.layout.repository(repo)).map_err(failed)?;
        let mut inside = self.inside.lock();
        inside.changes += 1;
        let store = inside.open.get(repo).and_then(|open| open.store.clone());
        inside.keep(repo, Arc::new(Shown { refs, exists: true, ..Shown::default() }), store);
        Ok(())
    }

    /// What was known may be wrong: objects landed, or the directory came or went.
    pub fn forget(&self, repo: &RepoId) {
        let mut inside = self.inside.lock();
        inside.changes += 1;
        inside.drop_one(repo);
    }

    /// As it is on the disk, past everything remembered.
    pub fn read(&self, repo: &RepoId) -> Result<Shown, RepoError> {
        let directory = self.layout.repository(repo);
        if !directory.is_dir() {
            return Ok(Shown::default());
        }
        let failed = |why| RepoError::Refs { repo: repo.clone(), why };
        let refs = RefTable::read(&directory).map_err(failed)?;
        Ok(Shown { refs, exists: true, ..Shown::default() })
    }
}

impl Inside {
    /// What is remembered, or the count of changes so far.
    fn recall(&mut self, repo: &RepoId) -> Result<(Arc<Shown>, Option<Arc<Store>>), u64> {
        self.clock += 1;
        let clock = self.clock;
        let open = self.open.get_mut(repo).ok_or(self.changes)?;
        open.used = clock;
        Ok((Arc::clone(&open.shown), open.store.clone()))
    }

    fn keep(&mut self, repo: &RepoId, shown: Arc<Shown>, store: Option<Arc<Store>>) {
        self.drop_one(repo);
        self.weight += shown.weight();
        self.open.insert(repo.clone(), Open { shown, store, used: self.clock });
        while self.open.len() > OPEN_MAX || (self.weight > REFS_MAX && self.open.len() > 1) {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used);
            let Some(oldest) = oldest.map(|(repo, _)| repo.clone()) else { return };
            self.drop_one(&oldest);
        }
    }

    fn drop_one(&mut self, repo: &RepoId) {
        if let Some(gone) = self.open.remove(repo) {
            self.weight -= gone.shown.weight();
        }
    }
}
