//! A data directory with the server's git, and an author's repository to push from.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::real_git::{Bare, Git as RealGit};
use grasp_core::{Oid, PubKey, RepoId};
use grasp_git::{
    Git, GitLimits, Layout, PackLimits, Quarantine, ReceiveError, Received, RefTable, land,
};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) home: TempDir,
    pub(crate) layout: Layout,
    pub(crate) git: Git,
    pub(crate) limits: PackLimits,
}

impl Rig {
    pub(crate) async fn new(real: &RealGit) -> Self {
        Self::with(real, GitLimits::default()).await
    }

    pub(crate) async fn with(real: &RealGit, limits: GitLimits) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let root = home.path().join("git data");
        Self::at(real, home, root, limits).await
    }

    pub(crate) async fn at(
        real: &RealGit,
        home: TempDir,
        root: PathBuf,
        limits: GitLimits,
    ) -> Self {
        let layout = Layout::new(root);
        layout.prepare().expect("an ordinary file system");
        let git = Git::find(&real.binary, &layout, limits).await.expect("a git");
        Self { home, layout, git, limits: PackLimits::push(64 * MIB) }
    }

    pub(crate) async fn receive(
        &self,
        repo: &RepoId,
        pack: &[u8],
    ) -> Result<Pending, ReceiveError> {
        let quarantine = Quarantine::open(&self.layout, repo).expect("room for a quarantine");
        let received = quarantine.receive(&self.git, &self.limits, &mut &*pack).await?;
        Ok(Pending { quarantine, received })
    }

    /// Takes a pack all the way in and points `main` at its tip.
    pub(crate) async fn push(&self, repo: &RepoId, pack: &[u8], tip: &Oid) -> PathBuf {
        let mut pending = self.receive(repo, pack).await.expect("an honest pack");
        pending.quarantine.keep();
        land(&self.layout, repo, pending.quarantine.name()).expect("landing");
        let dir = self.layout.repository(repo);
        let mut refs = RefTable::read(&dir).expect("readable refs");
        let objects = grasp_git::Objects::open(&dir).expect("readable objects");
        let entry = objects.peel(tip).expect("the tip has landed");
        refs.governed.insert("refs/heads/main".parse().expect("a branch"), entry);
        refs.write(&dir).expect("writable refs");
        dir
    }

    /// How many quarantines there are.
    pub(crate) fn waiting(&self) -> usize {
        std::fs::read_dir(self.layout.incoming()).expect("it was prepared").count()
    }
}

/// A pack that waits in quarantine.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) quarantine: Quarantine,
    pub(crate) received: Received,
}

pub(crate) fn repo(identifier: &str) -> RepoId {
    let owner = PubKey::from_bytes([7; 32]);
    RepoId { owner, identifier: identifier.parse().expect("an identifier") }
}

/// Someone with a history of their own.
#[derive(Debug)]
pub(crate) struct Author(pub(crate) Bare);

impl Author {
    pub(crate) fn new(real: &RealGit) -> Self {
        Self(Bare::new(real))
    }

    /// A commit with these files, on top of `parents`.
    pub(crate) fn commit(&self, files: &[(&str, &[u8])], parents: &[&Oid]) -> Oid {
        let path = self.0.path();
        let mut listing = String::new();
        for (name, content) in files {
            let args = ["--git-dir", &path, "hash-object", "-w", "--stdin"];
            let blob = String::from_utf8(self.0.git.with_input(&args, content)).expect("hex");
            listing.push_str(&format!("100644 blob {}\t{name}\n", blob.trim_end()));
        }
        let tree = self.0.git.with_input(&["--git-dir", &path, "mktree"], listing.as_bytes());
        let tree = String::from_utf8(tree).expect("hex");
        let mut args = vec!["commit-tree".to_owned(), "-m".into(), "work".into()];
        for parent in parents {
            args.extend(["-p".to_owned(), parent.to_hex()]);
        }
        args.push(tree.trim_end().to_owned());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.0.git(&args).parse().expect("an id")
    }

    /// What a client would send to someone who has `has`.
    pub(crate) fn pack(&self, wants: &[&Oid], has: &[&Oid]) -> Vec<u8> {
        self.pack_with(wants, has, &["--thin", "--delta-base-offset"])
    }

    pub(crate) fn pack_with(&self, wants: &[&Oid], has: &[&Oid], options: &[&str]) -> Vec<u8> {
        let mut revisions: String = wants.iter().map(|oid| format!("{oid}\n")).collect();
        revisions.extend(has.iter().map(|oid| format!("^{oid}\n")));
        let path = self.0.path();
        let args = ["--git-dir", &path, "pack-objects", "--revs", "--stdout", "-q"];
        self.0.git.with_input(&[&args, options].concat(), revisions.as_bytes())
    }
}

/// What git itself thinks of a directory.
pub(crate) fn fsck(real: &RealGit, dir: &Path) {
    let dir = dir.to_str().expect("UTF-8");
    let said = real.output(&["--git-dir", dir, "fsck", "--strict", "--full", "--no-dangling"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && !text.contains("error"), "{text}");
}

pub(crate) fn oids(of: &[&Oid]) -> BTreeSet<Oid> {
    of.iter().map(|oid| **oid).collect()
}

/// Bytes that do not compress, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = grasp_testkit::Random::seeded(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// What is left of a disk of so many MiB on which there is nothing but this directory.
pub(crate) fn free_of<const DISK_MIB: u64>(dir: &Path) -> Option<u64> {
    Some((DISK_MIB * MIB).saturating_sub(used_bytes(dir)))
}

/// As allocated, files with several names once for each.
pub(crate) fn used_bytes(dir: &Path) -> u64 {
    let mut used = 0;
    // What goes while it is looked at takes no room.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        used += meta.blocks() * 512;
        if meta.is_dir() {
            used += used_bytes(&entry.path());
        }
    }
    used
}
