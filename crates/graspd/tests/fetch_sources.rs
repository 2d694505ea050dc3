//! Git data from servers that somebody named: honest ones of every age, one at a time. What they
//! have arrives whole and nothing else does, with as few requests as it takes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod common;
mod snare;
mod sources;

use grasp_core::Oid;
use grasp_engine::hunt::{JobEnd, Outcome};
use grasp_testkit::forge::{Forge, Manner, What};
use grasp_testkit::{Git, WorkTree, http};
use graspd::fetch::{FetchSettings, Part, Task};
use graspd::outbound::{CallLimits, StartLimits};
use snare::{Relay, Says};
use sources::{MIB, Place, acme, nowhere, part, repo, set, task, without_port};
use std::collections::BTreeSet;

/// Somebody's work, and a server that has it.
struct Story {
    tree: WorkTree,
    forge: Forge,
    /// Behind `main`, which is behind nothing.
    first: Oid,
    main: Oid,
    /// Beside `main`.
    other: Oid,
}

const PATH: &str = "alice/acme.git";

impl Story {
    async fn new(manner: Manner) -> Self {
        let tree = WorkTree::init(&Git::any()).await;
        let first = tree.commit("README", "hello").await;
        let second = tree.commit("src/lib.rs", &"fn main() {}\n".repeat(500)).await;
        tree.git(&["checkout", "-q", "-b", "other"]).await;
        let other = tree.commit("other", "a branch").await;
        tree.git(&["checkout", "-q", "-"]).await;
        let main = tree.commit("README", "hello world").await;
        tree.git(&["tag", "-a", "v1", "-m", "the first", &second.to_hex()]).await;
        let forge = Forge::start_with(manner).await;
        forge.mirrors(PATH, &tree).await;
        Self { tree, forge, first, main, other }
    }

    fn task(&self, parts: Vec<Part>) -> Task {
        task(&self.forge.url(PATH), parts)
    }

    fn questions(&self) -> Vec<What> {
        self.forge.log().iter().map(|asked| asked.what).collect()
    }
}

fn answered(end: &JobEnd, found: &[Oid], absent: &[Oid]) {
    assert_eq!(end.outcome, Outcome::Answered);
    assert_eq!((&end.found, &end.absent), (&set(found), &set(absent)));
}

#[tokio::test]
async fn s36_known_objects_are_wanted_by_id_in_one_request() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let mut desk = place.desk();
    let task = it.task(vec![part(&[it.main, it.other])]);
    let end = place.fetcher.fetch(&task, &mut desk).await;
    answered(&end, &[it.main, it.other], &[]);
    assert_eq!(desk.brought, [(acme(), set(&[it.main, it.other]))]);
    assert_eq!((desk.asked, it.questions()), (0, vec![What::FetchV2]));
    assert!(desk.received + end.bytes > 500, "{end:?}");
    assert!(place.has(&acme(), &it.first) && place.is_sound(&acme()));
    place.leaves_nothing_behind().await;
    let asked = &it.forge.log()[0];
    let version = concat!("graspd/", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("host", it.forge.address()),
        ("user-agent", version),
        ("git-protocol", "version=2"),
        ("accept-encoding", "identity"),
        ("accept", "application/x-git-upload-pack-result"),
        ("content-type", "application/x-git-upload-pack-request"),
        ("grasp-instance", place.instance.as_str()),
    ] {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn s36_what_is_here_is_not_sent_again() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let noise: String =
        (0..20_000).map(|n: u64| format!("{:x}", n.wrapping_mul(n ^ 0x5bd1e995))).collect();
    it.tree.commit("noise", &noise).await;
    let large = it.tree.rev_parse("HEAD").await;
    it.forge.mirrors(PATH, &it.tree).await;
    answered(&place.fetch(&it.task(vec![part(&[large])])).await, &[large], &[]);
    let next = it.tree.commit("README", "hello again").await;
    it.forge.mirrors(PATH, &it.tree).await;
    let more = Part { haves: vec![large], ..part(&[next]) };
    answered(&place.fetch(&it.task(vec![more])).await, &[next], &[]);
    let log = it.forge.log();
    assert_eq!(log[1].haves, [large]);
    assert!(log[1].bytes_sent < 2_000 && log[0].bytes_sent > 20_000, "{log:?}");
    assert!(place.is_sound(&acme()));
}

#[tokio::test]
async fn s36_partial_finds_are_brought_and_the_rest_is_known_to_be_absent() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let lost: Vec<Oid> = [1, 2].map(nowhere).to_vec();
    let wants = [&[it.main, it.first], &lost[..]].concat();
    let end = place.fetch(&it.task(vec![part(&wants)])).await;
    answered(&end, &[it.main, it.first], &lost);
    assert_eq!(it.questions(), [What::FetchV2; 3]);
    assert_eq!(it.forge.dials(), 1, "one connection for all of it");
}

#[tokio::test]
async fn s36_a_server_that_lacks_much_is_asked_what_it_has() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let lost: Vec<Oid> = (1..=9).map(nowhere).collect();
    let wants = [&[it.main, it.other], &lost[..]].concat();
    let end = place.fetch(&it.task(vec![part(&wants)])).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[it.main, it.other])));
    assert!(end.absent.is_subset(&set(&lost)) && end.absent.len() >= 3);
    use What::{FetchV2, LsRefs};
    let questions = it.questions();
    assert_eq!(questions[..5], [FetchV2, FetchV2, FetchV2, LsRefs, FetchV2]);
    assert!(questions.len() <= 8, "{questions:?}");
}

#[tokio::test]
async fn s36_each_part_is_handed_over_as_soon_as_it_is_here() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let mut desk = place.desk();
    let parts = vec![
        part(&[it.main]),
        Part { to: repo(2), ..part(&[it.main, nowhere(7)]) },
        Part { to: repo(3), ..part(&[nowhere(7)]) },
    ];
    let end = place.fetcher.fetch(&it.task(parts), &mut desk).await;
    answered(&end, &[it.main], &[nowhere(7)]);
    assert_eq!(desk.brought, [(acme(), set(&[it.main])), (repo(2), set(&[it.main]))]);
    assert_eq!(it.forge.log().len(), 3, "what is known to be absent is not asked for again");
    assert!(place.is_sound(&acme()) && place.is_sound(&repo(2)));
}

#[tokio::test]
async fn a_server_that_knows_only_the_first_protocol_gives_what_it_lists() {
    let (place, it) = (Place::new().await, Story::new(Manner::V0Only).await);
    let tag = it.tree.rev_parse("v1").await;
    let end = place.fetch(&it.task(vec![part(&[it.main, tag])])).await;
    answered(&end, &[it.main, tag], &[]);
    use What::{FetchV0, FetchV2, InfoRefs};
    assert_eq!(it.questions(), [FetchV2, InfoRefs, FetchV0]);
    let end = place.fetch(&it.task(vec![part(&[it.other])])).await;
    answered(&end, &[it.other], &[]);
    assert_eq!(it.questions()[3..], [InfoRefs, FetchV0], "known by now");
    let last = it.forge.log().pop().unwrap();
    assert_eq!(last.header("git-protocol"), None);
    it.forge.behave(Manner::Honest);
    let newer = it.tree.commit("README", "newer").await;
    it.forge.mirrors(PATH, &it.tree).await;
    answered(&place.fetch(&it.task(vec![part(&[newer])])).await, &[newer], &[]);
    let again = it.tree.commit("README", "newer still").await;
    it.forge.mirrors(PATH, &it.tree).await;
    answered(&place.fetch(&it.task(vec![part(&[again])])).await, &[again], &[]);
    assert_eq!(it.questions().last(), Some(&FetchV2), "it has learnt, and so have we");
    assert!(place.is_sound(&acme()));
}

#[tokio::test]
async fn where_only_branches_are_given_away_ours_is_looked_for_in_them_and_nothing_else_is_kept() {
    let (place, it) = (Place::new().await, Story::new(Manner::V0Only).await);
    let wants = part(&[it.first, nowhere(1)]);
    let end = place.fetch(&it.task(vec![wants.clone()])).await;
    answered(&end, &[it.first], &[nowhere(1)]);
    assert!(place.has(&acme(), &it.first) && place.is_sound(&acme()));
    assert!(!place.has(&acme(), &it.main) && !place.has(&acme(), &it.other));
    place.leaves_nothing_behind().await;
    let lost = part(&[nowhere(1)]);
    for _ in 0..2 {
        answered(&place.fetch(&it.task(vec![lost.clone()])).await, &[], &[nowhere(1)]);
    }
    use What::{FetchV0, FetchV2, InfoRefs};
    let first = [FetchV2, InfoRefs, FetchV0];
    let then = [InfoRefs, FetchV0, InfoRefs];
    assert_eq!(it.questions(), [first, then].concat(), "the same is not searched twice");
}

#[tokio::test]
async fn who_refuses_everything_by_id_is_searched_once_and_not_far() {
    let (place, it) = (Place::new().await, Story::new(Manner::RefusesOids).await);
    answered(&place.fetch(&it.task(vec![part(&[it.first])])).await, &[it.first], &[]);
    assert!(place.is_sound(&acme()) && !place.has(&acme(), &it.main));
    use What::{FetchV2, LsRefs};
    assert_eq!(it.questions(), [FetchV2, LsRefs, FetchV2]);
    let lost = Part { to: repo(2), ..part(&[nowhere(1)]) };
    for _ in 0..2 {
        answered(&place.fetch(&it.task(vec![lost.clone()])).await, &[], &[nowhere(1)]);
    }
    assert_eq!(it.questions()[3..], [FetchV2, LsRefs, FetchV2, FetchV2]);
    let settings = FetchSettings { search_bytes_max: 100, ..FetchSettings::default() };
    let thrifty = Place::with(CallLimits::default(), settings).await;
    answered(&thrifty.fetch(&it.task(vec![part(&[it.first])])).await, &[], &[it.first]);
    thrifty.leaves_nothing_behind().await;
}

#[tokio::test]
async fn a_mirror_whose_branches_are_all_here_is_not_searched() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let tag = it.tree.rev_parse("v1").await;
    answered(
        &place.fetch(&it.task(vec![part(&[it.main, it.other, tag])])).await,
        &[it.main, it.other, tag],
        &[],
    );
    answered(&place.fetch(&it.task(vec![part(&[nowhere(1)])])).await, &[], &[nowhere(1)]);
    assert_eq!(it.questions()[1..], [What::FetchV2, What::LsRefs]);
}

#[tokio::test]
async fn what_is_fetched_to_repair_a_repository_builds_on_nothing_in_it() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    answered(&place.fetch(&it.task(vec![part(&[it.main])])).await, &[it.main], &[]);
    let packs = place.layout.repository(&acme()).join("objects/pack");
    for entry in std::fs::read_dir(&packs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "pack") {
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0xff;
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
    }
    assert!(!place.is_sound(&acme()));
    let mut desk = place.desk();
    let damaged = Part { whole: true, haves: vec![it.first], ..part(&[it.main]) };
    let end = place.fetcher.fetch(&it.task(vec![damaged]), &mut desk).await;
    answered(&end, &[it.main], &[]);
    let log = it.forge.log();
    // What git makes of the same objects differs by a few bytes.
    let [first, second] = [0, 1].map(|n: usize| log[n].bytes_sent);
    assert!(log[1].haves.is_empty() && first.abs_diff(second) < 50, "all of it: {log:?}");
}

#[tokio::test]
async fn s35_every_request_but_the_first_needs_leave() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let task = it.task(vec![part(&[it.main, nowhere(1), nowhere(2)])]);
    for leaves in 0..2 {
        let mut desk = place.desk();
        desk.leaves = leaves;
        let end = place.fetcher.fetch(&task, &mut desk).await;
        assert_eq!((end.outcome, end.absent.len()), (Outcome::Cancelled, leaves + 1));
        assert_eq!(desk.asked, leaves + 1);
    }
    assert_eq!(it.forge.log().len(), 3);
    let mut desk = place.desk();
    desk.leaves = 2;
    answered(&place.fetcher.fetch(&task, &mut desk).await, &[it.main], &[nowhere(1), nowhere(2)]);
    place.leaves_nothing_behind().await;
}

#[tokio::test]
async fn s35_an_address_gets_so_many_requests_in_a_window_under_however_many_names() {
    let it = Story::new(Manner::Honest).await;
    let starts = StartLimits { starts_max: 2, ..StartLimits::default() };
    let limits = CallLimits { starts, ..CallLimits::default() };
    let place = Place::with(limits, FetchSettings::default()).await;
    let end = place.fetch(&it.task(vec![part(&[it.main, nowhere(1), nowhere(2)])])).await;
    assert!(matches!(end.outcome, Outcome::Crowded { .. }), "{end:?}");
    let dials = it.forge.dials();
    let other_name = it.forge.url(PATH).replace("127.0.0.1", "localhost");
    let end = place.fetch(&task(&other_name, vec![part(&[it.main])])).await;
    assert!(matches!(end.outcome, Outcome::Crowded { .. }), "{end:?}");
    assert_eq!((it.forge.log().len(), it.forge.dials()), (2, dials), "not even a connection");
}

#[tokio::test]
async fn s37_a_byte_budget_holds_for_all_parts_together() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    place.fetch(&it.task(vec![part(&[it.main])])).await;
    let once = it.forge.log()[0].bytes_sent;
    let parts: Vec<Part> = (2..9).map(|n| Part { to: repo(n), ..part(&[it.main]) }).collect();
    let mut desk = place.desk();
    let task = Task { bytes_max: once * 3 + once / 2, ..it.task(parts) };
    let end = place.fetcher.fetch(&task, &mut desk).await;
    assert_eq!((end.outcome, desk.brought.len()), (Outcome::TooLarge, 3));
    place.leaves_nothing_behind().await;
}

#[tokio::test]
async fn a_repository_takes_no_larger_pack_than_a_push_to_it_may_bring() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let mut small = part(&[it.main]);
    small.limits.bytes_max = 100;
    let end = place.fetch(&it.task(vec![small])).await;
    let why = "127.0.0.1: its pack is larger than 100 bytes";
    assert_eq!(without_port(end.outcome), Outcome::Unacceptable(why.into()));
    place.leaves_nothing_behind().await;
}

#[tokio::test]
async fn nothing_is_asked_for_when_the_disk_is_nearly_full() {
    let it = Story::new(Manner::Honest).await;
    let mut place = Place::new().await;
    place.measures(|_| Some(5 << 20), 1 << 30);
    let end = place.fetch(&it.task(vec![part(&[it.main])])).await;
    let Outcome::Failed(why) = end.outcome else { panic!("{end:?}") };
    assert!(why.contains("5 MiB free on this server's disk, 1 GiB kept in reserve"), "{why}");
    assert_eq!(it.forge.dials(), 0);
}

#[tokio::test]
async fn a_server_that_closes_after_every_answer_is_dialled_again_at_the_same_address() {
    let (place, it) = (Place::new().await, Story::new(Manner::Honest).await);
    let mut desk = Interrupter { forge: &it.forge, found: BTreeSet::new() };
    let task = it.task(vec![part(&[it.main, nowhere(1), nowhere(2)])]);
    let end = place.fetcher.fetch(&task, &mut desk).await;
    answered(&end, &[it.main], &[nowhere(1), nowhere(2)]);
    assert_eq!(it.forge.dials(), 3);
}

/// Ends all connections whenever leave is asked for.
struct Interrupter<'a> {
    forge: &'a Forge,
    found: BTreeSet<Oid>,
}

impl graspd::fetch::Desk for Interrupter<'_> {
    async fn may_request(&mut self) -> bool {
        self.forge.drops_everyone();
        true
    }

    fn received(&mut self, _: u64, _: u64) {}

    async fn brought(&mut self, _: &Part, _: grasp_git::Quarantine, found: BTreeSet<Oid>) -> bool {
        self.found.extend(found);
        true
    }
}

#[tokio::test]
async fn a_fetch_that_nobody_waits_for_any_longer_leaves_nothing_behind() {
    let (place, it) = (Place::new().await, Story::new(Manner::StallMidPack(600)).await);
    let task = it.task(vec![part(&[it.main])]);
    let mut desk = place.desk();
    tokio::select! {
        end = place.fetcher.fetch(&task, &mut desk) => panic!("{end:?}"),
        () = it.forge.until_asked(1) => {}
    }
    it.forge.until_ended(1).await;
    place.leaves_nothing_behind().await;
}

#[tokio::test]
async fn s40_our_own_server_answers_a_fetch_of_its_own_with_its_nonce() {
    let (server, repository) = common::serving(&[]).await;
    let page = http("GET", &server.address, &[("Accept", "application/nostr+json")]).await;
    let info: serde_json::Value = serde_json::from_str(&page.body).unwrap();
    let ours = info["instance"].as_str().unwrap();
    let url = repository.clone_url(&server.address);
    let url = url.trim_start_matches("http://");
    let refs = format!("{url}/info/refs?service=git-upload-pack");
    let post = format!("{url}/git-upload-pack");
    let kind = ("Content-Type", "application/x-git-upload-pack-request");
    for (method, place) in [("GET", &refs), ("POST", &post)] {
        let refused = http(method, place, &[kind, ("Grasp-Instance", ours)]).await;
        assert_eq!((refused.status, refused.header("grasp-instance")), (409, Some(ours)));
    }
    assert_ne!(http("GET", &refs, &[("Grasp-Instance", "00")]).await.status, 409);
}

#[tokio::test]
async fn s40_a_fetch_from_ourselves_ends_with_knowing_it() {
    let place = Place::new().await;
    let ours = format!("Grasp-Instance: {}\r\n", place.instance.as_str());
    let us = Relay::plain(Says::socket(), Says::page(409, &ours, "ourselves\n")).await;
    let url = us.url_as("http", "127.0.0.1") + "/npub1x/acme.git";
    let end = place.fetch(&task(&url, vec![part(&[nowhere(1)])])).await;
    assert_eq!((end.outcome, us.heads().len()), (Outcome::Ourselves, 1));
    let other = "Grasp-Instance: 00\r\n";
    let them = Relay::plain(Says::socket(), Says::page(409, other, "")).await;
    let url = them.url_as("http", "127.0.0.1") + "/npub1x/acme.git";
    let end = place.fetch(&Task { bytes_max: MIB, ..task(&url, vec![part(&[nowhere(1)])]) }).await;
    let why = "127.0.0.1: it answers with status 409";
    assert_eq!(without_port(end.outcome), Outcome::Failed(why.into()));
}
