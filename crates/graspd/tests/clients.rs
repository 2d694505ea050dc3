//! Programs that are built on libgit2, as most Nostr clients are: what they do, and what they hear
//! when the answer is no.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN, PURGATORY, refs};
use common::{THEN, alice};
use git2::{Direction, FetchOptions, PushOptions, RemoteCallbacks, build::RepoBuilder};
use grasp_testkit::{Git, WorkTree};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a push came to.
#[derive(Debug, Default)]
struct Told {
    failed: Option<String>,
    /// The sentences shown to a person.
    words: String,
    /// Each ref's own refusal.
    refusals: Vec<String>,
}

impl Told {
    fn ok(&self) -> bool {
        self.failed.is_none() && self.refusals.is_empty()
    }
}

/// libgit2 blocks, so it has a thread of its own.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn pushes(tree: &WorkTree, url: &str, refspecs: &[&str]) -> Told {
    pushes_after(tree, url, refspecs, Duration::ZERO).await
}

/// A push whose pack takes this long to build, between the list of refs and the request that sends it.
async fn pushes_after(tree: &WorkTree, url: &str, refspecs: &[&str], pause: Duration) -> Told {
    let (path, url) = (tree.path(), url.to_owned());
    let refspecs: Vec<String> = refspecs.iter().map(|it| (*it).to_owned()).collect();
    aside(move || push(&path, &url, &refspecs, pause)).await
}

fn push(path: &Path, url: &str, refspecs: &[String], pause: Duration) -> Told {
    let repository = git2::Repository::open(path).unwrap();
    let mut told = Told::default();
    let (mut words, mut refusals) = (Vec::new(), Vec::new());
    let mut callbacks = RemoteCallbacks::new();
    callbacks.sideband_progress(|text| {
        words.extend_from_slice(text);
        true
    });
    callbacks.push_update_reference(|name, status| {
        refusals.extend(status.map(|status| format!("{name}: {status}")));
        Ok(())
    });
    let mut pause = Some(pause);
    callbacks.pack_progress(move |_, _, _| {
        if let Some(pause) = pause.take() {
            std::thread::sleep(pause);
        }
    });
    let mut options = PushOptions::new();
    options.remote_callbacks(callbacks);
    let mut remote = repository.remote_anonymous(url).unwrap();
    told.failed = remote.push(refspecs, Some(&mut options)).err().map(|it| it.message().to_owned());
    drop(options);
    Told { words: String::from_utf8_lossy(&words).into_owned(), refusals, ..told }
}

/// A clone, and where it is; it goes with the first of the two.
async fn clones(
    url: &str,
    depth: Option<i32>,
) -> Result<(tempfile::TempDir, PathBuf), git2::Error> {
    let (home, url) = (tempfile::tempdir().unwrap(), url.to_owned());
    let path = home.path().join("clone");
    let into = path.clone();
    aside(move || {
        let mut options = FetchOptions::new();
        if let Some(depth) = depth {
            options.depth(depth);
        }
        RepoBuilder::new().fetch_options(options).clone(&url, &into).map(drop)
    })
    .await?;
    Ok((home, path))
}

/// Names and ids as the server lists them.
async fn lists(tree: &WorkTree, url: &str) -> Vec<(String, String)> {
    let (path, url) = (tree.path(), url.to_owned());
    aside(move || {
        let repository = git2::Repository::open(path).unwrap();
        let mut remote = repository.remote_anonymous(&url).unwrap();
        remote.connect(Direction::Fetch).unwrap();
        let heads = remote.list().unwrap().iter();
        heads.map(|head| (head.name().to_owned(), head.oid().to_string())).collect()
    })
    .await
}

#[tokio::test]
async fn a_refusal_is_an_error_with_words() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let first = hosted.tree.commit("README", "hello").await;
    let told = pushes(&hosted.tree, &hosted.url(), &["refs/heads/main"]).await;
    assert!(told.failed.is_some(), "not mistaken for success: {told:?}");
    assert!(told.words.contains("publish a state event (kind 30618)"), "{told:?}");
    assert_eq!(told.refusals.len(), 1, "{told:?}");
    assert!(told.refusals[0].contains("no state event is waiting"), "{told:?}");
    let said = format!("{told:?}");
    assert!(!said.contains("not found") && !said.contains("404"), "{said}");

    let state = hosted.signs(&[(MAIN, first)]).await;
    let told = pushes(&hosted.tree, &hosted.url(), &["refs/heads/main"]).await;
    assert!(told.ok(), "{told:?}");
    assert!(hosted.serves(&state).await);
}

#[tokio::test]
async fn everything_a_maintainer_does_works() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let url = hosted.url();
    let second = hosted.tree.commit("README", "second").await;
    let tag = hosted.tree.annotated_tag("v1", &first).await;
    let (side, v1) = ("refs/heads/side", "refs/tags/v1");
    hosted.tree.branch("side", &first).await;
    hosted.signs(&[(MAIN, second), (side, first), (v1, tag)]).await;
    let told = pushes(&hosted.tree, &url, &[MAIN, side, v1]).await;
    assert!(told.ok(), "{told:?}");
    let told = pushes(&hosted.tree, &url, &[MAIN, side, v1, ":refs/heads/never-there"]).await;
    assert!(told.ok(), "what is so already: {told:?}");

    hosted.tree.git(&["reset", "-q", "--hard", &first.to_hex()]).await;
    let other = hosted.tree.commit("README", "other").await;
    hosted.signs(&[(MAIN, other)]).await;
    let told = pushes(&hosted.tree, &url, &["+refs/heads/main", ":refs/heads/side"]).await;
    assert!(told.ok(), "the tag goes with the state: {told:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, other)]));
    let forced = ["+refs/heads/main", ":refs/heads/side", ":refs/tags/v1"];
    let told = pushes(&hosted.tree, &url, &forced).await;
    assert!(told.ok(), "what is so already: {told:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, other)]));
    let listed = lists(&hosted.tree, &url).await;
    let both = [("HEAD".to_owned(), other.to_hex()), (MAIN.to_owned(), other.to_hex())];
    assert_eq!(listed, both);
}

#[tokio::test]
async fn clones_are_whole_shallow_or_of_nothing() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let (_home, path) = clones(&hosted.url(), None).await.unwrap();
    assert!(git2::Repository::open(path).unwrap().is_empty().unwrap());
    assert_eq!(lists(&hosted.tree, &hosted.url()).await, []);
    hosted.tree.commit("README", "hello").await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    assert!(pushes(&hosted.tree, &hosted.url(), &[MAIN]).await.ok());
    for (depth, count) in [(None, 2), (Some(1), 1)] {
        let (_home, path) = clones(&hosted.url(), depth).await.unwrap();
        assert_eq!(std::fs::read_to_string(path.join("README")).unwrap(), "second");
        let repository = git2::Repository::open(path).unwrap();
        let mut walk = repository.revwalk().unwrap();
        walk.push_head().unwrap();
        assert_eq!(walk.count(), count, "{depth:?}");
        assert_eq!(repository.head().unwrap().name().ok(), Some(MAIN));
    }
    let unheard = hosted.url().replace("acme", "unheard-of");
    assert!(clones(&unheard, None).await.is_err());
}

#[tokio::test]
async fn a_pull_request_travels_before_its_event_and_is_fetched_by_id() {
    let (mut hosted, _) = Hosted::published(&Git::any(), &[]).await;
    let tip = hosted.tree.commit("README", "better").await;
    let event = hosted.acme.pull_request(&alice(), THEN + 1_000, &tip);
    let place = format!("refs/nostr/{}", event.id);
    let told = pushes(&hosted.tree, &hosted.url(), &[&format!("{MAIN}:{place}")]).await;
    assert!(told.ok(), "{told:?}");
    assert!(hosted.client.publishes(&event).await.accepted());
    let (_home, path) = clones(&hosted.url(), None).await.unwrap();
    let (url, oid) = (hosted.url(), tip.to_hex());
    let fetched = aside(move || {
        let repository = git2::Repository::open(path).unwrap();
        let mut remote = repository.remote_anonymous(&url).unwrap();
        remote.fetch(&[&oid], None, None).unwrap();
        repository.find_commit(git2::Oid::from_str(&oid).unwrap()).is_ok()
    })
    .await;
    assert!(fetched);

    let wrong = hosted.tree.commit("README", "worse").await;
    let told = pushes(&hosted.tree, &hosted.url(), &[&format!("+{MAIN}:{place}")]).await;
    assert!(told.failed.is_some() && told.words.contains(&tip.to_hex()), "{told:?}");
    assert_ne!(wrong, tip);
}

#[tokio::test]
async fn a_large_push_arrives_in_chunks() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let mut random = grasp_testkit::Random::seeded(3);
    let noise: String = (0..300_000).map(|_| format!("{:x}\n", random.next_u64())).collect();
    let tip = hosted.tree.commit("noise", &noise).await;
    let (_, answer) = hosted.says(&[(MAIN, tip)], Some("main")).await;
    assert!(answer.text.starts_with(PURGATORY));
    let told = pushes(&hosted.tree, &hosted.url(), &[MAIN]).await;
    assert!(told.ok(), "{told:?}");
    let (_home, path) = clones(&hosted.url(), None).await.unwrap();
    assert_eq!(std::fs::read_to_string(path.join("noise")).unwrap(), noise);
}

/// A history of this many objects: one commit with as many files as that takes.
async fn many_objects(hosted: &Hosted, count: usize) {
    let mut random = grasp_testkit::Random::seeded(7);
    let mut stream =
        format!("commit {MAIN}\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\n.\n");
    for number in 0..count {
        let content = format!("{:016x}", random.next_u64());
        stream
            .push_str(&format!("M 100644 inline d{}/{number}\ndata 16\n{content}\n", number % 100));
    }
    hosted.tree.git_reading(&["fast-import", "--quiet"], stream.as_bytes()).await;
}

/// Lists the refs, thinks for a while, and sends the pack on the same connection.
async fn a_pause_before_the_pack(objects: usize, pause: Duration) {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    many_objects(&hosted, objects).await;
    let tip = hosted.tree.rev_parse(MAIN).await;
    hosted.signs(&[(MAIN, tip)]).await;
    let started = Instant::now();
    let told = pushes_after(&hosted.tree, &hosted.url(), &[MAIN], pause).await;
    assert!(told.ok(), "{told:?}");
    assert!(started.elapsed() >= pause, "the pause was made");
    println!("{objects} objects after a pause of {pause:?}: {:?}", started.elapsed());
    assert_eq!(hosted.shown().await, refs(&[(MAIN, tip)]));
}

#[tokio::test]
async fn a_client_may_build_its_pack_for_a_while_on_an_open_connection() {
    a_pause_before_the_pack(1_000, Duration::from_secs(15)).await;
}

#[tokio::test]
#[ignore = "takes minutes: scripts/slow-clients"]
async fn a_client_may_build_a_large_pack_for_a_minute_on_an_open_connection() {
    a_pause_before_the_pack(120_000, Duration::from_secs(60)).await;
}
