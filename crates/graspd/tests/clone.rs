//! Reading with real gits: clones of nothing and of something, whole, shallow and filtered.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{DOMAIN, Hosted, MAIN, PURGATORY, assert_refused, refs};
use common::{THEN, alice};
use grasp_core::Oid;
use grasp_testkit::{Git, Repository, UNBORN, WorkTree, http};
use std::fmt::Write;

#[tokio::test]
async fn a_fresh_announcement_has_an_empty_repository_at_once() {
    for git in Git::all() {
        let hosted = Hosted::announced(&git, &[]).await;
        assert_eq!(hosted.info_refs().await, 200);
        assert_eq!(http("GET", &hosted.place(""), &[]).await.status, 200, "and a page");
        for protocol in [0, 1, 2] {
            let git = git.speaking(protocol);
            for args in [&[][..], &["--depth=1"], &["--filter=blob:none"]] {
                let (copy, ran) = WorkTree::try_clone(&git, &hosted.url(), args).await;
                assert!(ran.ok && ran.says("empty repository"), "{protocol} {args:?} {ran:?}");
                let head = copy.git(&["symbolic-ref", "--short", "HEAD"]).await;
                assert_eq!(head, UNBORN, "the server names no branch that is not there");
                copy.fetch("origin", &["--filter=tree:0"]).await.expect("nothing, filtered");
            }
        }
        assert!(!hosted.directory().exists());
        let unheard = Repository::new(alice(), "acme").clone_url(&hosted.server.address);
        assert!(!hosted.tree.tries(&["ls-remote", &unheard]).await.ok);
    }
}

#[tokio::test]
async fn every_version_of_the_protocol_gives_the_same() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let tag = hosted.tree.annotated_tag("v1", &first).await;
    hosted.signs(&[(MAIN, second), ("refs/tags/v1", tag)]).await;
    hosted.pushes(&["main", "v1"]).await.expect("a commit and a tag");
    for git in Git::all() {
        for protocol in [0, 1, 2] {
            let git = git.speaking(protocol);
            let copy = WorkTree::clone(&git, &hosted.url(), &[]).await;
            assert_eq!(copy.read("README"), "second");
            assert_eq!(copy.git(&["symbolic-ref", "HEAD"]).await, MAIN);
            assert_eq!(copy.rev_parse("v1").await, tag);
            copy.git(&["fsck", "--strict"]).await;
        }
    }
}

#[tokio::test]
async fn a_shallow_clone_has_the_tip_and_gets_the_rest_on_request() {
    let (mut hosted, _) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let third = hosted.tree.commit("README", "third").await;
    hosted.signs(&[(MAIN, third)]).await;
    hosted.pushes(&["main"]).await.expect("two commits");
    for git in Git::all() {
        for protocol in [0, 2] {
            let git = git.speaking(protocol);
            let copy = WorkTree::clone(&git, &hosted.url(), &["--depth=1"]).await;
            assert_eq!(copy.git(&["rev-list", "--count", "HEAD"]).await, "1");
            assert!(!copy.has(&second).await);
            copy.fetch("origin", &["--deepen=1"]).await.expect("one more");
            assert_eq!(copy.git(&["rev-list", "--count", "HEAD"]).await, "2");
            copy.fetch("origin", &["--unshallow"]).await.expect("all");
            assert_eq!(copy.git(&["rev-list", "--count", "HEAD"]).await, "3");
        }
    }
}

#[tokio::test]
async fn a_filtered_clone_fetches_what_it_needs_when_it_needs_it() {
    let (mut hosted, _) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("deep/er/file", &"long ".repeat(1_000)).await;
    hosted.signs(&[(MAIN, second)]).await;
    hosted.pushes(&["main"]).await.expect("a directory");
    let blob = hosted.tree.rev_parse("HEAD:deep/er/file").await;
    let tree = hosted.tree.rev_parse("HEAD^{tree}").await;
    for git in Git::all() {
        for protocol in [0, 2] {
            let git = git.speaking(protocol);
            for filter in ["--filter=blob:none", "--filter=blob:limit=1k", "--filter=tree:0"] {
                let args = [filter, "--no-checkout"];
                let copy = WorkTree::clone(&git, &hosted.url(), &args).await;
                let here = copy.git(&["rev-list", "--objects", "--missing=print", "--all"]).await;
                assert!(here.contains(&format!("?{blob}")) || filter.contains("tree"), "{here}");
                assert_eq!(here.contains(&format!("?{tree}")), filter.contains("tree"), "{here}");
                copy.git(&["checkout", "-q", "main"]).await;
                assert_eq!(copy.read("deep/er/file").len(), 5_000);
            }
            for filter in ["--filter=tree:3", "--filter=sparse:oid=main:README"] {
                let (_, ran) = WorkTree::try_clone(&git, &hosted.url(), &[filter]).await;
                assert!(!ran.ok, "{filter}: {ran:?}");
            }
        }
    }
}

#[tokio::test]
async fn objects_are_fetched_by_their_ids() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    hosted.pushes(&["main"]).await.expect("a second commit");
    let unknown: Oid = "1234567890123456789012345678901234567890".parse().unwrap();
    for git in Git::all() {
        for protocol in [0, 1, 2] {
            let git = git.speaking(protocol);
            for oid in [second, first] {
                let copy = WorkTree::init(&git).await;
                copy.fetch(&hosted.url(), &[&oid.to_hex()]).await.expect("by id");
                assert_eq!(copy.rev_parse("FETCH_HEAD").await, oid);
            }
            let copy = WorkTree::init(&git).await;
            let ran = copy.fetch(&hosted.url(), &[&unknown.to_hex()]).await;
            assert!(!ran.ok, "{ran:?}");
        }
    }
}

/// What a client has to say about itself may be long; git compresses that.
#[tokio::test]
async fn a_client_with_much_history_of_its_own_is_understood() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    for git in Git::all() {
        for protocol in [0, 2] {
            let copy = WorkTree::clone(&git.speaking(protocol), &hosted.url(), &[]).await;
            copy.git_reading(&["fast-import", "--quiet"], history(600).as_bytes()).await;
            copy.git(&["update-ref", "-d", "refs/remotes/origin/main"]).await;
            let known: Vec<String> =
                [first].iter().map(|oid| format!("{oid}:refs/heads/seen")).collect();
            copy.git(&["fetch", "-q", ".", &known[0]]).await;
            hosted.signs(&[(MAIN, second)]).await;
            hosted.pushes(&["main"]).await.expect("a second commit");
            copy.fetch(&hosted.url(), &["main"]).await.expect("between strangers");
            assert_eq!(copy.rev_parse("FETCH_HEAD").await, second);
            hosted.signs(&[(MAIN, first)]).await;
        }
    }
}

#[tokio::test]
async fn any_identifier_a_person_may_choose_can_be_pushed_to_and_cloned() {
    let git = Git::any();
    let mut hosted = Hosted::announced(&git, &[]).await;
    let tip = hosted.tree.commit("README", "hello").await;
    for identifier in ["Acme Tools", "a:b", "\u{1f355}", "100%", "%2e%2e", "-x", "a.git", "..."] {
        let odd = Repository::new(alice(), identifier);
        let answer = hosted.client.publishes(&odd.announcement_listing(DOMAIN, THEN)).await;
        assert!(answer.text.starts_with(PURGATORY), "{identifier}");
        let state = odd.state(&odd.owner, THEN, &[(MAIN, &tip.to_hex())], Some("main"));
        assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY), "{identifier}");
        let url = odd.clone_url(&hosted.server.address);
        hosted.tree.push(&url, &["main"]).await.expect(identifier);
        assert_eq!(WorkTree::clone(&git, &url, &[]).await.read("README"), "hello");
        assert!(hosted.directory_of(&odd).is_dir(), "{identifier} is what its directory is called");
        let lower = url.replace("%3A", "%3a").replace("%F0%9F%8D%95", "%f0%9f%8d%95");
        assert_eq!(hosted.shown_at(&lower).await, refs(&[(MAIN, tip)]));
    }
}

#[tokio::test]
async fn what_is_kept_for_going_back_is_not_shown() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    hosted.pushes(&["main"]).await.expect("a second commit");
    hosted.signs(&[(MAIN, first)]).await;
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    for protocol in [0, 2] {
        let git = Git::any().speaking(protocol);
        let copy = WorkTree::clone(&git, &hosted.url(), &["--mirror"]).await;
        assert!(!copy.has(&second).await, "a mirror is what is signed");
        let hidden = copy.fetch(&hosted.url(), &[&format!("refs/internal/{second}")]).await;
        assert!(!hidden.ok, "{hidden:?}");
    }
}

#[tokio::test]
async fn a_pushed_repository_moved_to_another_directory_is_still_one() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let elsewhere = tempfile_beside(&hosted);
    hosted.server.kill().await;
    std::fs::rename(hosted.directory(), &elsewhere).unwrap();
    let path = elsewhere.display().to_string();
    for git in Git::all() {
        let copy = WorkTree::clone(&git, &path, &[]).await;
        assert_eq!(copy.rev_parse("HEAD").await, first);
    }
    std::fs::rename(&elsewhere, hosted.directory()).unwrap();
    hosted.returns().await;
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    assert_refused(&hosted.pushes(&["main:other"]).await, "no state event is waiting");
}

fn tempfile_beside(hosted: &Hosted) -> std::path::PathBuf {
    hosted.server.data_path().join("moved.git")
}

/// A line of commits that nobody else has, as `fast-import` reads it.
fn history(commits: usize) -> String {
    let mut text = String::new();
    for n in 0..commits {
        let _ = write!(
            text,
            "commit refs/heads/own\ncommitter A <a@example.com> {} +0000\ndata 1\nx",
            1_600_000_000 + n
        );
        let _ = writeln!(text, "\nM 644 inline f\ndata {}\n{n}", n.to_string().len());
    }
    text
}
