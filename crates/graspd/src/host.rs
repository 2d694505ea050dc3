//! The git side of the server: where repositories are, how git is run, how long things wait. One
//! value, shared by the writer that changes repositories and the requests that read them.

use crate::config::Config;
use crate::ingest::{Checkpoint, Copying, SameSecondStates, UploadLimits, WantedLimits};
use crate::repos::Repos;
use anyhow::Context;
use grasp_core::hold::Patience;
use grasp_core::id::hex_encode;
use grasp_core::{EventId, RepoId};
use grasp_git::{DiskReserve, Git, GitLimits, Layout, PackLimits, end_leftovers};
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TrySendError};

pub struct Host {
    pub layout: Layout,
    pub git: Git,
    pub repos: Arc<Repos>,
    pub patience: Patience,
    pub uploads: UploadLimits,
    /// What a push for a signed state may bring.
    pub pack: PackLimits,
    /// What a push for an unpublished pull request may bring.
    pub proposal_pack: PackLimits,
    /// Room for git data. Every writer takes its room from here.
    pub disk: DiskReserve,
    /// What the git data takes on the disk.
    pub git_used: DiskUse,
    /// How long data of an owner who left is kept.
    pub retention: Duration,
    /// How often that is looked through.
    pub cleanup_every: Duration,
    /// Events a push is under way for.
    pub in_flight: InFlight,
    /// Events whose objects are being fetched.
    pub fetching: InFlight,
    /// Held by whoever rewrites or reads through packs: one at a time.
    pub upkeep: tokio::sync::Mutex<()>,
    pub wanted: WantedLimits,
    /// States that a push is refused for because another of the same second is in force.
    pub same_second: SameSecondStates,
    /// Goes on at every step; tests stop here to see what a crash would leave.
    pub checkpoint: Box<Checkpoint>,
    /// Work that follows from a release but need not hold it up.
    pub chores: mpsc::Sender<Chore>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("root", &self.layout.root()).finish_non_exhaustive()
    }
}

/// What somebody else does for the writer, who must not wait for it.
#[derive(Debug)]
pub enum Chore {
    /// One view lacks objects that another has.
    Copy(Copying),
    /// Packs arrived; there may be many by now.
    Tidy(RepoId),
    /// A directory nobody refers to any more.
    Discard(String),
}

impl Host {
    /// Finds git and prepares the directory of the repositories.
    pub async fn open(
        config: &Config,
        root: PathBuf,
        chores: mpsc::Sender<Chore>,
    ) -> anyhow::Result<Self> {
        let git = &config.git;
        let root = root.canonicalize().with_context(|| format!("cannot use {}", root.display()))?;
        let layout = Layout::new(root);
        layout.prepare()?;
        let of_leftovers = layout.clone();
        let leftovers = tokio::task::spawn_blocking(move || end_leftovers(&of_leftovers)).await?;
        if leftovers > 0 {
            tracing::warn!(leftovers, "git processes of an earlier server were ended");
        }
        let path = std::env::var_os("PATH");
        let program = git.program(path.as_deref(), |program| program.is_file());
        let program =
            program.context("git is not installed; install it, or set NGIT_GIT_BINARY")?;
        let limits = GitLimits { serve_deadline: git.timeout, ..GitLimits::default() };
        let disk = DiskReserve::new(layout.root(), git.free_bytes_min);
        let found = Git::find(&program, &layout, limits).await?.with_disk_reserve(disk.clone());
        tracing::info!(version = %found.version(), program = %program.display(), "git");
        found.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let pack = PackLimits {
            objects_max: git.objects_max,
            object_bytes_max: git.object_bytes_max,
            deadline: git.timeout,
            ..PackLimits::push(git.pack_bytes_max)
        };
        let small = PackLimits::proposal(git.proposal_pack_bytes_max);
        let proposal_pack = PackLimits {
            objects_max: small.objects_max.min(git.objects_max),
            object_bytes_max: small.object_bytes_max.min(git.object_bytes_max),
            deadline: small.deadline.min(git.timeout),
            ..small
        };
        let unclaimed = &git.unclaimed;
        Ok(Self {
            repos: Arc::new(Repos::new(layout.clone())),
            layout,
            git: found,
            patience: config.store.held,
            uploads: UploadLimits {
                patience: unclaimed.kept,
                bytes_per_ip_max: unclaimed.bytes_per_ip_max,
                bytes_per_repository_max: unclaimed.bytes_per_repository_max,
                bytes_max: unclaimed.bytes_total_max,
                count_per_repository_max: usize::try_from(unclaimed.per_repository_max)
                    .unwrap_or(usize::MAX),
            },
            pack,
            proposal_pack,
            disk,
            git_used: DiskUse::default(),
            retention: config.holding.retention,
            cleanup_every: config.holding.cleanup_interval,
            in_flight: InFlight::default(),
            fetching: InFlight::default(),
            upkeep: tokio::sync::Mutex::default(),
            wanted: config.hunt.wanted,
            same_second: SameSecondStates::default(),
            checkpoint: Box::new(|_| true),
            chores,
        })
    }

    /// Moves a repository's directory to where it is deleted from. `None` if there is none.
    pub fn set_aside(&self, repo: &RepoId) -> std::io::Result<Option<String>> {
        let mut bytes = [0_u8; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        let name = hex_encode(&bytes);
        match std::fs::rename(self.layout.repository(repo), self.layout.quarantine(&name)?) {
            Ok(()) => Ok(Some(name)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn send(&self, chore: Chore) {
        // What finds no place is found again: copies have a row, leftovers go at the next start.
        if let Err(TrySendError::Full(chore)) = self.chores.try_send(chore) {
            tracing::warn!(?chore, "too many chores; this one is left for later");
        }
    }
}

/// How many bytes a directory takes, as last measured.
#[derive(Debug, Default)]
pub struct DiskUse(Mutex<Option<u64>>);

impl DiskUse {
    /// `None` until it was measured for the first time.
    pub fn get(&self) -> Option<u64> {
        *self.0.lock()
    }

    pub fn set(&self, bytes: u64) {
        *self.0.lock() = Some(bytes);
    }
}

/// Events something is under way for: their time does not run out meanwhile.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Mutex<HashMap<EventId, usize>>>);

#[derive(Debug, Default)]
pub struct PushGuard {
    flying: InFlight,
    ids: Vec<EventId>,
}

impl InFlight {
    pub fn begin(&self, ids: Vec<EventId>) -> PushGuard {
        let mut flying = self.0.lock();
        for id in &ids {
            *flying.entry(*id).or_default() += 1;
        }
        PushGuard { flying: self.clone(), ids }
    }

    pub fn contains(&self, id: &EventId) -> bool {
        self.0.lock().contains_key(id)
    }
}

impl Drop for PushGuard {
    fn drop(&mut self) {
        let mut flying = self.flying.0.lock();
        for id in &self.ids {
            if let Some(count) = flying.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    flying.remove(id);
                }
            }
        }
    }
}
