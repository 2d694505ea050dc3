//! A server and the owner of what it hosts, who signs for every push.

use crate::wire::{Socket, connect, hear_until, publication, say, taken};
use anyhow::{Result, ensure};
use grasp_core::VerifiedEvent;
use grasp_testkit::{Author, Git, Repository, Server, WorkTree, now};
use std::path::{Path, PathBuf};

/// Everything a working copy has, by its own names.
pub(crate) const ALL: [&str; 2] = ["refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"];

/// Names and object ids.
pub(crate) type Refs = Vec<(String, String)>;

#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) server: Server,
    owner: Author,
    socket: Socket,
    at: u64,
}

impl Hosted {
    /// On a server of its own that runs this git.
    pub(crate) async fn start(binary: &Path, git: &Path) -> Result<Self> {
        let git = git.display().to_string();
        Self::on(Server::start(binary, &[("NGIT_GIT_BINARY", &git)]).await).await
    }

    pub(crate) async fn on(server: Server) -> Result<Self> {
        let socket = connect(&server.address).await?;
        // Each event is a second newer than the one before, and none is in the future.
        Ok(Self { server, owner: Author::number(1), socket, at: now() - 10_000 })
    }

    pub(crate) async fn announces(&mut self, name: &str) -> Result<Repository> {
        let repository = Repository::new(self.owner.clone(), name);
        self.at += 1;
        let event = repository.announcement_listing(&self.server.address, self.at);
        self.publish(&event).await?;
        Ok(repository)
    }

    /// The owner says what the refs shall be.
    pub(crate) fn state(&mut self, of: &Repository, refs: &Refs) -> VerifiedEvent {
        self.at += 1;
        let refs: Vec<(&str, &str)> =
            refs.iter().map(|(name, oid)| (name.as_str(), oid.as_str())).collect();
        of.state(&self.owner, self.at, &refs, Some("main"))
    }

    pub(crate) async fn publish(&mut self, event: &VerifiedEvent) -> Result<()> {
        say(&mut self.socket, publication(std::str::from_utf8(event.json())?)).await?;
        taken(&hear_until(&mut self.socket, "[\"OK\"").await?)
    }

    pub(crate) async fn signs(&mut self, of: &Repository, refs: &Refs) -> Result<()> {
        let state = self.state(of, refs);
        self.publish(&state).await
    }

    /// A new repository with all that `tree` has.
    pub(crate) async fn publishes(&mut self, name: &str, tree: &WorkTree) -> Result<Repository> {
        let repository = self.announces(name).await?;
        self.signs(&repository, &refs(tree).await).await?;
        push(tree, &self.url(&repository), &ALL).await?;
        Ok(repository)
    }

    pub(crate) fn url(&self, of: &Repository) -> String {
        of.clone_url(&self.server.address)
    }

    /// Below the server's address.
    pub(crate) fn path(&self, of: &Repository) -> String {
        let url = self.url(of);
        url.trim_start_matches("http://").trim_start_matches(&self.server.address).to_owned()
    }

    /// Where repositories lie.
    pub(crate) fn root(&self) -> PathBuf {
        self.server.data_path().join("git")
    }

    pub(crate) fn directory(&self, of: &Repository) -> PathBuf {
        self.root().join(self.path(of).trim_start_matches('/'))
    }
}

pub(crate) async fn refs(tree: &WorkTree) -> Refs {
    let listed = tree.git(&["for-each-ref", "--format=%(refname) %(objectname)"]).await;
    let rows = listed.lines().filter_map(|line| line.split_once(' '));
    rows.map(|(name, oid)| (name.to_owned(), oid.to_owned())).collect()
}

pub(crate) async fn push(tree: &WorkTree, url: &str, refspecs: &[&str]) -> Result<()> {
    let ran = tree.push_with(url, refspecs, &["-q"]).await;
    ensure!(ran.ok, "git push to {url}: {}", ran.stderr);
    Ok(())
}

/// A repository any git makes, which checks and syncs what is pushed as the server does.
pub(crate) async fn bare(tree: &WorkTree, path: &Path) -> String {
    let path = path.display().to_string();
    tree.git(&["init", "-q", "--bare", &path]).await;
    for (name, value) in [
        ("receive.fsckObjects", "true"),
        ("receive.unpackLimit", "1"),
        ("core.fsync", "objects,derived-metadata,reference"),
    ] {
        tree.git(&["--git-dir", &path, "config", name, value]).await;
    }
    format!("file://{path}")
}

/// The git that client, server and floor share.
pub(crate) fn git() -> Git {
    Git::any()
}
