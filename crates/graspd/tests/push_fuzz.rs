//! Two thousand mangled pushes through a real server and real git: whatever is sent, refs change only
//! to exactly what was signed, together with the event that says so.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;
mod mangled;

use common::hosted::{DOMAIN, Hosted, MAIN, PURGATORY};
use common::wire::ZERO;
use common::{THEN, bob};
use grasp_core::{Oid, VerifiedEvent};
use grasp_testkit::{Git, Page, Random, Repository, WorkTree, read_to_end};
use mangled::{Honest, Line, Mangled, mangle};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const BODIES: usize = 2_000;
/// States that can be signed one after the other, each with a commit nobody has sent yet.
const COMMITS: usize = 600;
const SEED: u64 = 0xf022;

type Refs = BTreeMap<String, String>;

/// The repository under attack, one beside it, and what is signed and not yet there.
struct Siege {
    hosted: Hosted,
    bystander: PathBuf,
    chain: Vec<Oid>,
    /// Which commit of the chain the waiting state names.
    at: usize,
    refs: Refs,
    waits: (VerifiedEvent, Refs),
    request: (VerifiedEvent, Oid),
    packs: BTreeMap<(Oid, Oid), Vec<u8>>,
}

#[tokio::test]
async fn two_thousand_mangled_pushes_move_refs_only_to_what_was_signed() {
    let seed = std::env::var("GRASPD_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(SEED);
    eprintln!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut siege = Siege::begins().await;
    let untouched = for_each_ref(&siege.bystander);
    let (mut moved, mut requested) = (0, false);
    for number in 0..BODIES {
        let honest = siege.honest(&mut random);
        let oids: Vec<String> =
            siege.chain[..=siege.at + 1].iter().rev().take(4).map(|it| it.to_hex()).collect();
        let body = mangle(&mut random, &honest, &oids);
        let answer = siege.sends(&body).await;
        let status = answer.map_or(0, |page| page.status);
        assert!(status < 500, "seed {seed}, body {number}: {status} for {body:?}");
        let when = format!("seed {seed}, body {number}: {body:?}");
        let is = siege.on_disk();
        requested |= siege.request_is_whole(&is, requested, &when).await;
        moved += usize::from(siege.moved_whole_or_not_at_all(is, &when).await);
        if number % 20 == 0 {
            assert_eq!(for_each_ref(&siege.bystander), untouched, "{when}");
        }
    }
    assert_eq!(for_each_ref(&siege.bystander), untouched);
    siege.is_sound().await;
    eprintln!("{moved} of {BODIES} pushes were what had been signed");
    assert!(moved > BODIES / 40, "too few got through to mean anything: {moved}");
    assert!(requested, "no pull request got through");
}

impl Siege {
    async fn begins() -> Self {
        let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
        let chain = chain(&hosted.tree, first).await;
        let twin = Repository::new(bob(), "beside");
        let announcement = twin.announcement_listing(DOMAIN, THEN);
        assert!(hosted.client.publishes(&announcement).await.text.starts_with(PURGATORY));
        let state = twin.state(&bob(), THEN, &[(MAIN, &first.to_hex())], Some("main"));
        assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
        let url = twin.clone_url(&hosted.server.address);
        hosted.tree.push(&url, &["main"]).await.expect("the bystander's push");
        let bystander = hosted.directory_of(&twin);
        let tip = hosted.tree.commit("proposal", "proposed").await;
        let request = hosted.acme.pull_request(&common::alice(), THEN, &tip);
        assert!(hosted.client.publishes(&request).await.text.starts_with(PURGATORY));
        let refs = for_each_ref(&hosted.directory());
        let waits = (state, Refs::new());
        let request = (request, tip);
        let packs = BTreeMap::new();
        let mut siege = Self { hosted, bystander, chain, at: 0, refs, waits, request, packs };
        siege.signs_next().await;
        siege
    }

    /// Until something waits: a state whose commits came with an earlier push is applied at once.
    async fn signs_next(&mut self) {
        loop {
            self.at += 1;
            let refs = self.next_refs();
            let named: Vec<(&str, Oid)> =
                refs.iter().map(|(name, oid)| (name.as_str(), oid.parse().unwrap())).collect();
            let (state, answer) = self.hosted.says(&named, Some("main")).await;
            assert!(answer.ok, "{answer:?}");
            self.waits = (state, refs);
            if answer.text.starts_with(PURGATORY) {
                return;
            }
            self.refs = self.on_disk();
        }
    }

    /// Branches and tags come, move and go from one state to the next.
    fn next_refs(&self) -> Refs {
        let (now, before) = (self.chain[self.at].to_hex(), self.chain[self.at - 1].to_hex());
        let mut refs = Refs::from([(MAIN.to_owned(), now.clone())]);
        if self.at.is_multiple_of(2) {
            refs.insert("refs/heads/side".to_owned(), before);
        }
        if !self.at.is_multiple_of(3) {
            refs.insert(format!("refs/tags/v{}", self.at % 3), now);
        }
        refs
    }

    /// What the owner's git would send for the state that waits, or somebody's for the request.
    fn honest(&mut self, random: &mut Random) -> Honest {
        if random.one_in(8) {
            let (request, tip) = self.request.clone();
            let name = format!("refs/nostr/{}", request.id);
            let line = (ZERO.to_owned(), tip.to_hex(), name);
            return Honest { lines: vec![line], pack: self.pack(tip) };
        }
        let names = self.refs.keys().chain(self.waits.1.keys()).filter(|it| is_governed(it));
        let mut names: Vec<&String> = names.collect();
        names.sort();
        names.dedup();
        let value = |refs: &Refs, name: &String| refs.get(name).map_or(ZERO, |it| it).to_owned();
        let lines = names
            .iter()
            .map(|name| (value(&self.refs, name), value(&self.waits.1, name), (*name).clone()));
        let lines: Vec<Line> = lines.filter(|(old, new, _)| old != new).collect();
        // Now and then more than is needed.
        let tip = self.at + usize::from(random.one_in(10));
        Honest { lines, pack: self.pack(self.chain[tip]) }
    }

    /// For somebody who has what was signed before.
    fn pack(&mut self, tip: Oid) -> Vec<u8> {
        let has = self.chain[self.at - 1];
        let tree = self.hosted.tree.path().join(".git");
        let made = self.packs.entry((has, tip)).or_insert_with(|| {
            let args = ["pack-objects", "-q", "--revs", "--thin", "--stdout"];
            git(&tree, &args, format!("{tip}\n^{has}\n").as_bytes())
        });
        made.clone()
    }

    /// `None` if the server found no words for it.
    async fn sends(&self, it: &Mangled) -> Option<Page> {
        let place = self.hosted.place("/git-receive-pack");
        let (host, path) = place.split_once('/').unwrap();
        let mut head = format!(
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/x-git-receive-pack-request\r\n{}",
            it.headers
        );
        if !it.headers.contains("Length") && !it.headers.contains("chunked") {
            let _ = write!(head, "Content-Length: {}\r\n", it.body.len());
        }
        let mut socket = TcpStream::connect(host).await.unwrap();
        let sent = [head.as_bytes(), b"\r\n", &it.body].concat();
        // A server that has heard enough may be gone before all of it was said.
        let _ = socket.write_all(&sent).await;
        if it.breaks_off {
            let _ = socket.shutdown().await;
        }
        Page::parse(&read_to_end(&mut socket).await)
    }

    fn on_disk(&self) -> Refs {
        for_each_ref(&self.hosted.directory())
    }

    /// True if the waiting state was reached; then another waits.
    async fn moved_whole_or_not_at_all(&mut self, now: Refs, when: &str) -> bool {
        let governed = |refs: &Refs| -> Refs {
            let governed = refs.iter().filter(|(name, _)| is_governed(name));
            governed.map(|(name, oid)| (name.clone(), oid.clone())).collect()
        };
        let (was, is) = (governed(&self.refs), governed(&now));
        let state = self.waits.0.clone();
        let served = self.hosted.serves(&state).await;
        assert_eq!(served, was != is, "refs and events tell two stories: {when}");
        if was == is {
            return false;
        }
        assert_eq!(is, self.waits.1, "nobody signed this: {when}");
        self.refs = now;
        self.signs_next().await;
        true
    }

    /// The only ref below `refs/nostr/` is the one its event is served with.
    async fn request_is_whole(&mut self, now: &Refs, was_there: bool, when: &str) -> bool {
        let (request, tip) = self.request.clone();
        let mut proposals = now.clone();
        proposals.retain(|name, _| !is_governed(name) && !name.starts_with("refs/internal/"));
        let name = format!("refs/nostr/{}", request.id);
        let served = self.hosted.serves(&request).await;
        assert!(served || !was_there, "{when}");
        let expected = if served { Refs::from([(name, tip.to_hex())]) } else { Refs::new() };
        assert_eq!(proposals, expected, "{when}");
        served
    }

    async fn is_sound(&self) {
        git(&self.hosted.directory(), &["fsck", "--full", "--no-dangling"], b"");
        git(&self.bystander, &["fsck", "--full", "--no-dangling"], b"");
    }
}

fn is_governed(name: &str) -> bool {
    name.starts_with("refs/heads/") || name.starts_with("refs/tags/")
}

/// Commits on top of `first`, each with a file of its own.
async fn chain(tree: &WorkTree, first: Oid) -> Vec<Oid> {
    let mut script = String::new();
    for number in 0..COMMITS {
        let from = if number == 0 { format!("from {first}\n") } else { String::new() };
        let text = format!("{number}");
        let _ = write!(
            script,
            "commit refs/heads/chain\ncommitter A <a@example.com> 1700000000 +0000\ndata {}\n{text}\n\
             {from}M 100644 inline file-{number}\ndata {}\n{text}\n",
            text.len(),
            text.len()
        );
    }
    tree.git_reading(&["fast-import", "--quiet"], script.as_bytes()).await;
    let listed = tree.git(&["rev-list", "--reverse", "refs/heads/chain"]).await;
    listed.lines().map(|line| line.parse().unwrap()).collect()
}

fn for_each_ref(directory: &Path) -> Refs {
    let listed = git(directory, &["for-each-ref", "--format=%(refname) %(objectname)"], b"");
    let listed = String::from_utf8(listed).unwrap();
    let rows = listed.lines().filter_map(|line| line.split_once(' '));
    rows.map(|(name, oid)| (name.to_owned(), oid.to_owned())).collect()
}

/// A git command on a directory, bytes in and bytes out.
fn git(directory: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut git = Command::new(Git::any().binary);
    git.env_clear().env("HOME", "/nonexistent").arg("--git-dir").arg(directory).args(args);
    git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = git.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
