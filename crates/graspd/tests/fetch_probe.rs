//! Whether git servers that somebody named give out the objects of the refs they list: a look costs a
//! few hundred bytes, says so only when it is about the objects, and is never fooled into storing them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod sources;

use grasp_core::{CloneUrl, Oid};
use grasp_engine::hunt::Outcome;
use grasp_git::Quarantine;
use grasp_testkit::forge::{Asked, Forge, Manner, What};
use grasp_testkit::{Git, WorkTree};
use graspd::fetch::{Depth, Desk, Part, Probed};
use graspd::outbound::Rule;
use sources::{Place, nowhere, part, set, task};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PATH: &str = "acme.git";

/// A server with a repository of two commits.
struct House {
    forge: Forge,
    tree: WorkTree,
    dir: PathBuf,
    place: Place,
    first: Oid,
    tip: Oid,
}

impl House {
    async fn new() -> Self {
        let tree = WorkTree::init(&Git::any()).await;
        let first = tree.commit("README", "hello").await;
        let tip = tree.commit("README", "again").await;
        let forge = Forge::start().await;
        let dir = forge.mirrors(PATH, &tree).await;
        Self { forge, tree, dir, place: Place::hasty().await, first, tip }
    }

    async fn filters(&self, filters: bool) {
        let value = if filters { "true" } else { "false" };
        let dir = self.dir.display().to_string();
        self.tree.git(&["--git-dir", &dir, "config", "uploadpack.allowFilter", value]).await;
    }

    /// What a look comes to, how many bytes it took, and what was asked.
    async fn looks(
        &self,
        wants: &[Oid],
        depth: Depth,
    ) -> (Result<Probed, Outcome>, u64, Vec<Asked>) {
        let before = self.forge.log().len();
        let url: CloneUrl = self.forge.url(PATH).parse().unwrap();
        let mut desk = self.place.desk();
        let mut visit = self.place.fetcher.visit(&url, Rule::Operator, &mut desk);
        let listed = visit.list().await.unwrap();
        assert!(listed.values().any(|oid| *oid == self.tip), "{listed:?}");
        let probed = visit.probe(&set(wants), depth).await;
        drop(visit);
        self.place.leaves_nothing_behind().await;
        (probed, desk.received, self.forge.log().split_off(before))
    }

    async fn probed(&self, depth: Depth) -> Result<Probed, Outcome> {
        self.looks(&[self.tip], depth).await.0
    }
}

/// Takes everything and counts how often it was told that a server is not to be relied upon.
#[derive(Debug, Default)]
struct Doubter(usize);

impl Desk for Doubter {
    async fn may_request(&mut self) -> bool {
        true
    }

    fn received(&mut self, _: u64, _: u64) {}

    async fn brought(&mut self, _: &Part, _: Quarantine, _: BTreeSet<Oid>) -> bool {
        true
    }

    fn doubts(&mut self, _: &Part) {
        self.0 += 1;
    }
}

fn fetches(log: &[Asked]) -> usize {
    log.iter().filter(|asked| matches!(asked.what, What::FetchV2 | What::FetchV0)).count()
}

/// The loose object goes, as it does on a disk that fails.
fn lose(dir: &Path, oid: &Oid) {
    let hex = oid.to_hex();
    let (first, rest) = hex.split_at(2);
    std::fs::remove_file(dir.join("objects").join(first).join(rest)).unwrap();
}

#[tokio::test]
async fn s43_a_look_at_objects_is_one_small_request_on_the_same_connection() {
    let house = House::new().await;
    house.filters(true).await;
    let (probed, bytes, log) = house.looks(&[house.tip], Depth::Routine).await;
    assert_eq!(probed, Ok(Probed::Given));
    assert_eq!((log.len(), house.forge.dials()), (2, 1));
    assert!((200..1_000).contains(&bytes), "{bytes}");

    house.filters(false).await;
    let (probed, _, log) = house.looks(&[house.tip], Depth::Routine).await;
    assert_eq!((probed, fetches(&log)), (Ok(Probed::Given), 2), "asked once more without");
    let (probed, _, log) = house.looks(&[house.tip], Depth::Routine).await;
    assert_eq!((probed, fetches(&log)), (Ok(Probed::Given), 1), "and that is remembered");
    house.forge.behave(Manner::V0Only);
    let (probed, _, log) = house.looks(&[house.tip], Depth::Routine).await;
    assert_eq!(
        (probed, fetches(&log)),
        (Ok(Probed::Unclear), 0),
        "nobody prepares a clone for that"
    );
    assert_eq!(house.probed(Depth::Thorough).await, Ok(Probed::Given));
}

#[tokio::test]
async fn s43_a_server_that_lists_a_commit_it_lost_is_found_out() {
    let house = House::new().await;
    house.filters(true).await;
    lose(&house.dir, &house.first);
    assert_eq!(house.probed(Depth::Routine).await, Ok(Probed::Given), "that one is not asked for");
    assert_eq!(house.probed(Depth::Thorough).await, Ok(Probed::Lacking));
    lose(&house.dir, &house.tip);
    for depth in [Depth::Routine, Depth::Thorough] {
        assert_eq!(house.probed(depth).await, Ok(Probed::Lacking), "{depth:?}");
    }
    let house = House::new().await;
    let (probed, ..) = house.looks(&[house.tip, nowhere(7)], Depth::Routine).await;
    assert_eq!(probed, Ok(Probed::Lacking), "one of two");
}

#[tokio::test]
async fn s43_packs_that_break_off_or_are_broken_are_not_given_out_and_other_trouble_proves_nothing()
{
    let house = House::new().await;
    for filters in [true, false] {
        house.filters(filters).await;
        for (manner, probed) in [
            (Manner::Truncate(20), Some(Probed::Lacking)),
            (Manner::Truncate(150), Some(Probed::Lacking)),
            (Manner::CorruptPack, Some(Probed::Lacking)),
            (Manner::EndlessPack, Some(Probed::Given)),
            (Manner::EndlessProgress, Some(Probed::Unclear)),
            (Manner::PackfileUris, Some(Probed::Unclear)),
            (Manner::HangUpMidPack(150), None),
            (Manner::StallMidPack(150), None),
            (Manner::Honest, Some(Probed::Given)),
        ] {
            house.forge.behave(manner.clone());
            let (found, bytes, _) = house.looks(&[house.tip], Depth::Routine).await;
            assert_eq!(found.clone().ok(), probed, "{manner:?} {found:?}");
            assert!(bytes < 1 << 20, "{manner:?} {bytes}");
        }
    }
    house.forge.behave(Manner::EndlessPack);
    let (found, bytes, _) = house.looks(&[house.tip], Depth::Thorough).await;
    assert_eq!(found, Ok(Probed::Given), "so much of it is enough");
    assert!((64 << 20..66 << 20).contains(&bytes), "{bytes}");
    house.forge.behave(Manner::ShallowAnswer);
    assert_eq!(house.probed(Depth::Thorough).await, Ok(Probed::Lacking), "its history is cut off");
}

#[tokio::test]
async fn s43_a_fetch_casts_doubt_on_a_server_only_by_what_it_sends_of_objects() {
    let house = House::new().await;
    for (manner, doubts) in [
        (Manner::Honest, false),
        (Manner::Truncate(20), true),
        (Manner::Truncate(150), true),
        (Manner::ShallowAnswer, true),
        (Manner::HangUpMidPack(150), false),
        (Manner::Status(429, None), false),
        (Manner::Lacks, false),
        (Manner::Html, false),
        (Manner::V0Only, false),
        // What is damaged is not asked for again for a while, so it comes last.
        (Manner::CorruptPack, true),
    ] {
        house.forge.behave(manner.clone());
        let mut desk = Doubter::default();
        let task = task(&house.forge.url(PATH), vec![part(&[house.tip])]);
        let end = house.place.fetcher.fetch(&task, &mut desk).await;
        assert_eq!(desk.0 > 0, doubts, "{manner:?} {end:?}");
    }
    house.forge.behave(Manner::Honest);
    let mut desk = Doubter::default();
    let task = task(&house.forge.url(PATH), vec![part(&[nowhere(9)])]);
    house.place.fetcher.fetch(&task, &mut desk).await;
    assert_eq!(desk.0, 0, "that something new is not there yet is no news");
}
