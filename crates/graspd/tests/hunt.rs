//! Git data that was pushed somewhere else is found, fetched and served, with nobody's help.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::{Mirrors, announcement, holds, metric};
use common::{THEN, acme, alice, home};
use grasp_core::{Kind, Oid, VerifiedEvent};
use grasp_testkit::forge::Manner;
use grasp_testkit::{Client, Draft, Forge, Git, Repository, Server, WorkTree, now, until};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

const CLOSED_NET: (&str, &str) = ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true");
/// A push is not waited for, in stories where nobody pushes.
const NO_PUSH: (&str, &str) = ("NGIT_SYNC_HUNT_DELAY_SECS", "0");

/// One server and one project whose git data is on other people's servers.
struct Far {
    server: Server,
    acme: Repository,
    tree: WorkTree,
    client: Client,
}

impl Far {
    async fn with(settings: &[(&str, &str)]) -> Self {
        let common = [CLOSED_NET, NO_PUSH, ("NGIT_DOMAIN_ALIASES", DOMAIN)];
        let server = home(&[&common, settings].concat()).serve().await;
        let client = Client::connect(&server.url()).await;
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        Self { server, acme: acme(), tree, client }
    }

    /// Listed here, with its git data there.
    async fn announces(&mut self, clones: &[String]) -> VerifiedEvent {
        let own = self.acme.clone_url(DOMAIN);
        let clones: Vec<String> = [own].into_iter().chain(clones.iter().cloned()).collect();
        let event = announcement(&self.acme, &clones, &[format!("ws://{DOMAIN}")]);
        self.publishes(&event).await;
        event
    }

    async fn publishes(&mut self, event: &VerifiedEvent) {
        let answer = self.client.publishes(event).await;
        assert!(answer.ok, "{answer:?}");
    }

    async fn signs(&mut self, at: u64, refs: &[(&str, Oid)]) -> VerifiedEvent {
        let hex: Vec<(&str, String)> =
            refs.iter().map(|(name, oid)| (*name, oid.to_hex())).collect();
        let named: Vec<(&str, &str)> =
            hex.iter().map(|(name, oid)| (*name, oid.as_str())).collect();
        let state = self.acme.state(&self.acme.owner, at, &named, Some("main"));
        self.publishes(&state).await;
        state
    }

    fn url(&self) -> String {
        self.acme.clone_url(&self.server.address)
    }

    fn directory(&self) -> PathBuf {
        let owner = self.server.data_path().join("git").join(self.acme.owner.key.to_npub());
        owner.join(format!("{}.git", self.acme.identifier))
    }

    /// git, as an operator may run it there.
    async fn in_its_directory(&self, args: &[&str]) -> bool {
        let directory = self.directory().display().to_string();
        self.tree.tries(&[&["--git-dir", &directory], args].concat()).await.ok
    }

    async fn serves(&self, events: &[&VerifiedEvent]) {
        let ids: Vec<_> = events.iter().map(|event| event.id).collect();
        until("the events are served", || holds(&self.server, &ids)).await;
    }

    async fn shows(&self, name: &str, oid: &Oid) {
        let (url, hex) = (self.url(), oid.to_hex());
        until("the ref is there", || async {
            self.tree.ls_remote(&url).await.get(name) == Some(&hex)
        })
        .await;
    }

    /// Everything that was on its way is gone or in place.
    fn has_no_leftovers(&self) -> bool {
        let incoming = self.server.data_path().join("git/.graspd/incoming");
        std::fs::read_dir(incoming).map_or(true, |mut entries| entries.next().is_none())
    }
}

#[tokio::test]
async fn s39_a_repository_pushed_to_one_server_is_served_by_the_other() {
    let mirrors = Mirrors::vacant(2, |_| Vec::new()).await;
    mirrors.joins(0).await;
    mirrors.announces(1).await;
    mirrors.serves_the_repository(1).await;
    let urls = [0, 1].map(|at| mirrors.url(at));
    let tree = WorkTree::init(&Git::any()).await;
    let [there, here] = [tree.ls_remote(&urls[0]).await, tree.ls_remote(&urls[1]).await];
    assert_eq!(there, here, "refs and HEAD are equal");
    assert_eq!(tree.remote_head(&urls[0]).await, tree.remote_head(&urls[1]).await);
    let clone = WorkTree::clone(&Git::any(), &urls[1], &[]).await;
    assert_eq!(clone.read("README"), "hello");
}

#[tokio::test]
async fn s36_a_state_is_served_once_its_objects_are_found_and_newer_ones_follow() {
    let forge = Forge::start().await;
    let mut far = Far::with(&[]).await;
    let first = far.tree.commit("README", "hello").await;
    forge.mirrors("acme.git", &far.tree).await;
    let announced = far.announces(&[forge.url("acme.git")]).await;
    let state = far.signs(THEN, &[(MAIN, first)]).await;
    far.serves(&[&announced, &state]).await;
    far.shows(MAIN, &first).await;
    let second = far.tree.commit("README", "more").await;
    forge.mirrors("acme.git", &far.tree).await;
    let newer = far.signs(THEN + 1, &[(MAIN, second)]).await;
    far.serves(&[&newer]).await;
    far.shows(MAIN, &second).await;
    assert!(metric(&far.server, "purgatory_sync_oids_fetched_total").await >= 2);
    until("nothing is left to look for", || async {
        metric(&far.server, "purgatory_sync_queue_size").await == 0
    })
    .await;
    assert!(far.has_no_leftovers());
}

#[tokio::test]
async fn s38_what_a_server_calls_its_branches_moves_nothing_here() {
    let forge = Forge::start().await;
    let mut far = Far::with(&[]).await;
    let signed = far.tree.commit("README", "hello").await;
    let ahead = far.tree.commit("README", "nobody signed this").await;
    far.tree.branch("evil", &ahead).await;
    forge.mirrors("acme.git", &far.tree).await;
    // Also from a server that only gives away whole branches.
    for manner in [Manner::Honest, Manner::RefusesOids] {
        forge.behave(manner);
        far.acme.identifier.push('x');
        far.announces(&[forge.url("acme.git")]).await;
        let state = far.signs(THEN, &[(MAIN, signed)]).await;
        far.serves(&[&state]).await;
        let shown = far.tree.ls_remote(&far.url()).await;
        let names: Vec<&str> = shown.keys().map(String::as_str).collect();
        assert_eq!(names, ["HEAD", MAIN]);
        assert_eq!(shown[MAIN], signed.to_hex());
        let there = far.in_its_directory(&["cat-file", "-e", &ahead.to_hex()]).await;
        assert!(!there, "what nobody signed for is not even kept");
    }
}

#[tokio::test]
async fn s36_what_several_servers_have_of_it_adds_up() {
    let forges = [Forge::start().await, Forge::start().await];
    let mut far = Far::with(&[]).await;
    let base = far.tree.commit("README", "hello").await;
    for (n, forge) in forges.iter().enumerate() {
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        tree.fetch(&far.tree.path().display().to_string(), &["main"]).await.expect("a copy");
        tree.git(&["checkout", "-q", "-b", &format!("topic-{n}"), "FETCH_HEAD"]).await;
        tree.commit("topic", &format!("number {n}")).await;
        forge.mirrors("acme.git", &tree).await;
        let branch = format!("topic-{n}:topic-{n}");
        let from = tree.path().display().to_string();
        far.tree.fetch(&from, &[&branch]).await.expect("known here");
    }
    let topics = [far.tree.rev_parse("topic-0").await, far.tree.rev_parse("topic-1").await];
    let urls: Vec<String> = forges.iter().map(|forge| forge.url("acme.git")).collect();
    far.announces(&urls).await;
    let refs = [(MAIN, base), ("refs/heads/topic-0", topics[0]), ("refs/heads/topic-1", topics[1])];
    let state = far.signs(THEN, &refs).await;
    far.serves(&[&state]).await;
    far.shows("refs/heads/topic-1", &topics[1]).await;
    far.shows("refs/heads/topic-0", &topics[0]).await;
}

#[tokio::test]
async fn s37_a_pull_request_is_found_where_only_it_says() {
    let (forge, own) = (Forge::start().await, Forge::start().await);
    let mut far = Far::with(&[]).await;
    let base = far.tree.commit("README", "hello").await;
    forge.mirrors("acme.git", &far.tree).await;
    far.announces(&[forge.url("acme.git")]).await;
    let state = far.signs(THEN, &[(MAIN, base)]).await;
    far.serves(&[&state]).await;
    let tip = far.tree.commit("proposal", "try this").await;
    own.mirrors("prs/fork.git", &far.tree).await;
    let draft = Draft::new(Kind::PULL_REQUEST, now()).tag(&["a", &far.acme.coordinate()]);
    let draft = draft.tag(&["c", &tip.to_hex()]).tag(&["clone", &own.url("prs/fork.git")]);
    let proposal = alice().signs(draft);
    far.publishes(&proposal).await;
    far.serves(&[&proposal]).await;
    far.shows(&format!("refs/nostr/{}", proposal.id.to_hex()), &tip).await;
    let asked = own.log().len();
    let second = far.tree.commit("README", "two").await;
    forge.mirrors("acme.git", &far.tree).await;
    let newer = far.signs(THEN + 1, &[(MAIN, second)]).await;
    far.serves(&[&newer]).await;
    assert_eq!(own.log().len(), asked, "a proposal's address is asked for nothing else");
}

#[tokio::test]
async fn s33_what_gave_up_waiting_is_revived_when_its_data_appears() {
    let forge = Forge::start_with(Manner::Lacks).await;
    let quick = [
        ("NGIT_HELD_SECS", "3"),
        ("NGIT_SYNC_HUNT_RETRY_MIN_SECS", "1"),
        ("NGIT_SYNC_HUNT_RETRY_MAX_SECS", "1"),
        ("NGIT_SYNC_WANTED_RETRY_MAX_SECS", "2"),
    ];
    let mut far = Far::with(&quick).await;
    let tip = far.tree.commit("README", "hello").await;
    forge.mirrors("acme.git", &far.tree).await;
    far.announces(&[forge.url("acme.git")]).await;
    let state = far.signs(THEN, &[(MAIN, tip)]).await;
    far.server.logs("gave up waiting for git data").await;
    until("nobody may push for it any more", || async {
        !far.tree.push(&far.url(), &["main"]).await.says("Everything")
    })
    .await;
    forge.behave(Manner::Honest);
    far.serves(&[&state]).await;
    far.shows(MAIN, &tip).await;
}

#[tokio::test]
async fn s32_a_synced_state_is_cloneable_soon_after_it_came() {
    let mirrors = Mirrors::vacant(2, |_| Vec::new()).await;
    mirrors.joins(0).await;
    mirrors.announces(1).await;
    mirrors.serves_the_repository(1).await;
    let mut times = Vec::new();
    for step in 1..=11 {
        let (state, tip) = mirrors.moves_on(0, step).await;
        let begun = Instant::now();
        until("the other one has it", || async {
            let shown = mirrors.tree().ls_remote(&mirrors.url(1)).await;
            shown.get(MAIN) == Some(&tip.to_hex())
        })
        .await;
        times.push(begun.elapsed());
        // Refs move first: for a moment the event is still on its way.
        let ids = [state.id];
        until("the event is served with them", || holds(&mirrors.servers[1], &ids)).await;
    }
    times.sort();
    let median = times[times.len() / 2];
    assert!(median < Duration::from_millis(3_000), "{times:?}");
}

#[tokio::test]
async fn lost_and_damaged_objects_of_a_served_repository_are_fetched_again() {
    let forge = Forge::start().await;
    let mut far = Far::with(&[("NGIT_SYNC_REPAIR_SECS", "1")]).await;
    let tip = far.tree.commit("README", &"hello ".repeat(500)).await;
    forge.mirrors("acme.git", &far.tree).await;
    far.announces(&[forge.url("acme.git")]).await;
    let state = far.signs(THEN, &[(MAIN, tip)]).await;
    far.serves(&[&state]).await;
    far.shows(MAIN, &tip).await;
    for ruin in [spoil, delete] {
        for entry in std::fs::read_dir(far.directory().join("objects/pack")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "pack") {
                ruin(&path);
            }
        }
        until("a clone is whole again", || async {
            let (clone, ran) = WorkTree::try_clone(&Git::any(), &far.url(), &[]).await;
            ran.ok && clone.tries(&["fsck", "--full"]).await.ok
        })
        .await;
    }
}

#[tokio::test]
async fn a_repair_waits_for_all_that_was_signed_and_keeps_what_can_still_be_read() {
    let (part, all, own) = (Forge::start().await, Forge::start().await, Forge::start().await);
    let quick = [
        ("NGIT_SYNC_REPAIR_SECS", "1"),
        ("NGIT_SYNC_HUNT_RETRY_MIN_SECS", "1"),
        ("NGIT_SYNC_HUNT_RETRY_MAX_SECS", "1"),
        ("NGIT_SYNC_WANTED_RETRY_MAX_SECS", "1"),
        ("NGIT_SYNC_HUNT_ABSENT_SECS", "0"),
        ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "1000"),
    ];
    let mut far = Far::with(&quick).await;
    // Nothing shrinks it, so the middle of the pack is in it.
    let noise: String =
        (0..20_000_u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
    let main = far.tree.commit("README", &noise).await;
    part.mirrors("acme.git", &far.tree).await;
    let side = far.tree.commit("side", "signed as well").await;
    far.tree.branch("side", &side).await;
    all.mirrors("acme.git", &far.tree).await;
    far.announces(&[part.url("acme.git"), all.url("acme.git")]).await;
    let state = far.signs(THEN, &[(MAIN, main), ("refs/heads/side", side)]).await;
    far.serves(&[&state]).await;
    let tip = far.tree.commit("proposal", "only at its own address").await;
    own.mirrors("fork.git", &far.tree).await;
    let draft = Draft::new(Kind::PULL_REQUEST, now()).tag(&["a", &far.acme.coordinate()]);
    let draft = draft.tag(&["c", &tip.to_hex()]).tag(&["clone", &own.url("fork.git")]);
    let proposal = alice().signs(draft);
    far.publishes(&proposal).await;
    far.serves(&[&proposal]).await;
    drop(own);
    all.behave(Manner::Lacks);
    far.in_its_directory(&["repack", "-a", "-d", "-q"]).await;
    for entry in std::fs::read_dir(far.directory().join("objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "pack") {
            spoil(&path);
        }
    }
    far.server.logs("cannot be read").await;
    let asked = part.log().len();
    part.until_asked(asked + 2).await;
    assert!(!far.directory().join("damaged").exists(), "not all of it is there yet");
    all.behave(Manner::Honest);
    until("a clone is whole again", || async {
        let (clone, ran) = WorkTree::try_clone(&Git::any(), &far.url(), &[]).await;
        ran.ok
            && clone.tries(&["fsck", "--full"]).await.ok
            && far.directory().join("damaged").exists()
    })
    .await;
    assert!(far.in_its_directory(&["cat-file", "-e", &format!("{}^{{tree}}", tip.to_hex())]).await);
    assert!(far.in_its_directory(&["fsck", "--full"]).await);
}

fn spoil(pack: &std::path::Path) {
    let mut bytes = std::fs::read(pack).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 8] {
        *byte ^= 0xff;
    }
    std::fs::remove_file(pack).unwrap();
    std::fs::write(pack, bytes).unwrap();
}

fn delete(pack: &std::path::Path) {
    std::fs::remove_file(pack).unwrap();
    let _ = std::fs::remove_file(pack.with_extension("idx"));
}

#[tokio::test]
async fn s43_what_is_missing_and_why_can_be_read() {
    let forge = Forge::start_with(Manner::Lacks).await;
    let mut far = Far::with(&[]).await;
    let tip = far.tree.commit("README", "hello").await;
    far.announces(&[forge.url("acme.git")]).await;
    far.signs(THEN, &[(MAIN, tip)]).await;
    let place = format!("{}/api/v1/hunts", far.server.address);
    until("it says who was asked and what came of it", || async {
        let page = grasp_testkit::http("GET", &place, &[]).await;
        let seen: serde_json::Value = serde_json::from_str(&page.body).unwrap();
        let family = &seen["families"][0];
        family["missing"] == 1
            && family["sources"][0]["url"] == forge.url("acme.git").as_str()
            && family["sources"][0]["said"].as_str().is_some_and(|said| said.contains("404"))
    })
    .await;
}
