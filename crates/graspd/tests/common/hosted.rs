//! A repository with its people around it: a server, the owner's line to it, and a working copy.

use super::wire::{FRAMED, commands};
use super::{THEN, acme, server};
use grasp_core::{Oid, VerifiedEvent};
use grasp_testkit::{Client, Git, Ran, Reply, Repository, Server, WorkTree, http};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A name of the server's that outlives its port.
pub(crate) const DOMAIN: &str = "git.example";
pub(crate) const PURGATORY: &str = "purgatory: won't be served until git data arrives";
pub(crate) const MAIN: &str = "refs/heads/main";

#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) server: Server,
    pub(crate) acme: Repository,
    pub(crate) client: Client,
    pub(crate) tree: WorkTree,
    pub(crate) announcement: VerifiedEvent,
    at: u64,
}

/// Names and full ids, as `ls-remote` tells them.
pub(crate) fn refs(of: &[(&str, Oid)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, oid)| ((*name).to_owned(), oid.to_hex())).collect()
}

/// A server that knows itself by a lasting name.
pub(crate) async fn lasting(settings: &[(&str, &str)]) -> Server {
    server(&[&[("NGIT_DOMAIN_ALIASES", DOMAIN)], settings].concat()).await
}

impl Hosted {
    /// Announced and held; nothing has been pushed.
    pub(crate) async fn announced(git: &Git, settings: &[(&str, &str)]) -> Self {
        let server = lasting(settings).await;
        let mut client = Client::connect(&server.url()).await;
        let acme = acme();
        let announcement = acme.announcement_listing(DOMAIN, THEN);
        let answer = client.publishes(&announcement).await;
        assert!(answer.ok && answer.text.starts_with(PURGATORY), "{answer:?}");
        let tree = WorkTree::init(git).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        Self { server, acme, client, tree, announcement, at: THEN }
    }

    /// Served, with one commit on `main`.
    pub(crate) async fn published(git: &Git, settings: &[(&str, &str)]) -> (Self, Oid) {
        let mut hosted = Self::announced(git, settings).await;
        let first = hosted.tree.commit("README", "hello").await;
        hosted.signs(&[(MAIN, first)]).await;
        hosted.pushes(&["main"]).await.expect("the first push");
        (hosted, first)
    }

    pub(crate) fn url(&self) -> String {
        self.acme.clone_url(&self.server.address)
    }

    /// `host:port/path` below the repository's address.
    pub(crate) fn place(&self, rest: &str) -> String {
        format!("{}{rest}", self.url().trim_start_matches("http://"))
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.directory_of(&self.acme)
    }

    pub(crate) fn directory_of(&self, repository: &Repository) -> PathBuf {
        let owner = self.server.data_path().join("git").join(repository.owner.key.to_npub());
        owner.join(format!("{}.git", repository.identifier))
    }

    /// A moment after everything that was said before.
    pub(crate) fn later(&mut self) -> u64 {
        self.at += 10;
        self.at
    }

    /// The owner publishes a newer state.
    pub(crate) async fn says(
        &mut self,
        of: &[(&str, Oid)],
        head: Option<&str>,
    ) -> (VerifiedEvent, Reply) {
        let at = self.later();
        let hex: Vec<(&str, String)> = of.iter().map(|(name, oid)| (*name, oid.to_hex())).collect();
        let named: Vec<(&str, &str)> =
            hex.iter().map(|(name, oid)| (*name, oid.as_str())).collect();
        let state = self.acme.state(&self.acme.owner, at, &named, head);
        let answer = self.client.publishes(&state).await;
        (state, answer)
    }

    /// The same, with `main` as HEAD; the server takes it.
    pub(crate) async fn signs(&mut self, of: &[(&str, Oid)]) -> VerifiedEvent {
        let (state, answer) = self.says(of, Some("main")).await;
        assert!(answer.ok, "{answer:?}");
        state
    }

    pub(crate) async fn pushes(&self, refspecs: &[&str]) -> Ran {
        self.tree.push(&self.url(), refspecs).await
    }

    /// Branches, tags and proposals as a visitor sees them.
    pub(crate) async fn shown(&self) -> BTreeMap<String, String> {
        self.shown_at(&self.url()).await
    }

    pub(crate) async fn shown_at(&self, url: &str) -> BTreeMap<String, String> {
        let mut shown = self.tree.ls_remote(url).await;
        shown.remove("HEAD");
        shown
    }

    pub(crate) async fn serves(&mut self, event: &VerifiedEvent) -> bool {
        self.client.asks(&[json!({"ids": [event.id.to_hex()]})]).await == [event.id]
    }

    /// The status of the first request of every clone.
    pub(crate) async fn info_refs(&self) -> u16 {
        http("GET", &self.place("/info/refs?service=git-upload-pack"), &[]).await.status
    }

    /// A power cut, and a start on the same data.
    pub(crate) async fn crashes(&mut self) {
        self.server.kill().await;
        self.returns().await;
    }

    /// After a crash or a stop.
    pub(crate) async fn returns(&mut self) {
        self.server.restart().await;
        self.client = Client::connect(&self.server.url()).await;
    }
}

impl Hosted {
    /// How many uploads are under way or kept apart.
    pub(crate) fn incoming(&self) -> usize {
        let incoming = self.server.data_path().join("git/.graspd/incoming");
        std::fs::read_dir(incoming).map_or(0, Iterator::count)
    }

    /// A push that moves `main`, as git would send it.
    pub(crate) async fn push_of(&self, old: &Oid, new: &Oid) -> Vec<u8> {
        let list = commands(&[(&old.to_hex(), &new.to_hex(), MAIN)], FRAMED);
        [list, self.pack_of(old, new).await].concat()
    }

    /// What the new commit has and the old one has not.
    pub(crate) async fn pack_of(&self, old: &Oid, new: &Oid) -> Vec<u8> {
        let pack = self.tree.path().join("pack");
        let out = pack.display().to_string();
        let args = ["pack-objects", "-q", "--revs", out.as_str()];
        let revs = format!("{new}\n^{old}\n");
        let name = self.tree.git_reading(&args, revs.as_bytes()).await;
        let file = pack.with_file_name(format!("pack-{name}.pack"));
        std::fs::read(file).expect("git has written it")
    }
}

/// Refused in words for a person, none of which a client would take for a wrong address.
pub(crate) fn assert_refused(push: &Ran, saying: &str) {
    assert!(push.is_rejected(), "{push:?}");
    assert!(push.says(saying), "no `{saying}` in {}", push.stderr);
    assert!(!push.says("not found") && !push.says("404"), "{}", push.stderr);
}
