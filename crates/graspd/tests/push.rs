//! Pushes by real gits: what moves refs, what does not, and in which words that is said.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN, PURGATORY, assert_refused, refs};
use grasp_core::{Kind, Oid};
use grasp_testkit::{Client, Draft, Git, WorkTree};
use serde_json::json;
use std::fmt::Write;

#[tokio::test]
async fn a_push_that_nobody_signed_for_is_refused_and_leaves_no_trace() {
    for git in Git::all() {
        let hosted = Hosted::announced(&git, &[]).await;
        hosted.tree.commit("README", "hello").await;
        let push = hosted.pushes(&["main"]).await;
        assert_refused(&push, "publish a state event (kind 30618)");
        assert!(push.says("no state event is waiting for this push"), "{push:?}");
        assert_eq!(hosted.shown().await, refs(&[]));
        assert!(!hosted.directory().exists(), "nothing was promoted");
    }
}

#[tokio::test]
async fn only_the_signed_commit_is_taken() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let signed = hosted.tree.commit("README", "signed").await;
    let other = hosted.tree.commit("README", "other").await;
    let state = hosted.signs(&[(MAIN, signed)]).await;
    let push = hosted.pushes(&["main"]).await;
    assert_refused(&push, "the push does not match the signed state");
    assert!(push.says(&format!("{MAIN} would be at {other}")), "{push:?}");
    assert!(!hosted.serves(&state).await);
    let signed = format!("{signed}:{MAIN}");
    hosted.pushes(&[&signed]).await.expect("the signed commit");
    assert!(hosted.serves(&state).await);
}

/// Each git of this machine as the client, and each as what the server runs.
#[tokio::test]
async fn the_first_push_serves_what_was_held_before_it_returns() {
    for (client, host) in
        Git::all().iter().flat_map(|a| Git::all().into_iter().map(move |b| (a, b)))
    {
        let binary = host.binary.display().to_string();
        let mut hosted = Hosted::announced(client, &[("NGIT_GIT_BINARY", &binary)]).await;
        let mut reader = Client::connect(&hosted.server.url()).await;
        reader.subscribes("live", &[json!({"limit": 0})]).await;
        let tip = hosted.tree.commit("README", "hello").await;
        let (state, answer) = hosted.says(&[(MAIN, tip)], Some("main")).await;
        assert!(answer.ok && answer.text.starts_with(PURGATORY), "{answer:?}");
        assert!(!hosted.serves(&state).await);

        hosted.pushes(&["main"]).await.expect("the push");
        let announcement = hosted.announcement.clone();
        assert!(hosted.serves(&state).await && hosted.serves(&announcement).await);
        let told: Vec<String> = reader
            .fence()
            .await
            .iter()
            .map(|it| it[2]["id"].as_str().unwrap().to_owned())
            .collect();
        for event in [&state, &announcement] {
            assert!(told.contains(&event.id.to_hex()), "kind {} in {told:?}", event.kind.0);
        }
        assert_eq!(told.len(), 2, "each once");
        assert_eq!(hosted.shown().await, refs(&[(MAIN, tip)]));
        assert_eq!(hosted.tree.remote_head(&hosted.url()).await.as_deref(), Some(MAIN));
        let copy = WorkTree::clone(client, &hosted.url(), &[]).await;
        assert_eq!(copy.read("README"), "hello");
        let directory = hosted.directory().display().to_string();
        hosted.tree.git(&["--git-dir", &directory, "fsck", "--strict"]).await;
    }
}

#[tokio::test]
async fn branches_move_back_and_away_as_they_are_signed() {
    for git in Git::all() {
        let (mut hosted, first) = Hosted::published(&git, &[]).await;
        let second = hosted.tree.commit("README", "second").await;
        hosted.signs(&[(MAIN, second), ("refs/heads/side", first)]).await;
        let side = format!("{first}:refs/heads/side");
        hosted.pushes(&["main", &side]).await.expect("two branches");

        hosted.tree.git(&["reset", "-q", "--hard", &first.to_hex()]).await;
        let rewritten = hosted.tree.commit("README", "rewritten").await;
        hosted.signs(&[(MAIN, rewritten), ("refs/heads/side", first)]).await;
        hosted.pushes(&["+main"]).await.expect("a forced push");
        assert_eq!(hosted.shown().await, refs(&[(MAIN, rewritten), ("refs/heads/side", first)]));

        let third = hosted.tree.commit("README", "third").await;
        hosted.signs(&[(MAIN, third)]).await;
        hosted.pushes(&["main", ":side"]).await.expect("an update and a deletion at once");
        assert_eq!(hosted.shown().await, refs(&[(MAIN, third)]));
    }
}

#[tokio::test]
async fn half_of_what_was_signed_is_not_enough() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let third = hosted.tree.commit("README", "third").await;
    hosted.tree.branch("side", &third).await;
    hosted.tree.git(&["reset", "-q", "--hard", &first.to_hex()]).await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second), ("refs/heads/side", third)]).await;
    let half = hosted.pushes(&["main"]).await;
    assert_refused(&half, "refs/heads/side would be absent");
    hosted.tree.branch("more", &second).await;
    assert_refused(&hosted.pushes(&["main", "side", "more"]).await, "refs/heads/more would be at");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    hosted.pushes(&["main", "side"]).await.expect("all of it");
}

#[tokio::test]
async fn a_push_of_one_branch_completes_the_signed_state() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let old = hosted.tree.commit("README", "old").await;
    hosted.tree.branch("old", &old).await;
    hosted.tree.branch("next", &first).await;
    let branches = [(MAIN, old), ("refs/heads/old", old), ("refs/heads/next", first)];
    hosted.signs(&branches).await;
    hosted.pushes(&["main", "old", "next"]).await.expect("three branches");
    // `old` goes, `next` moves to a commit that is here, `v1` is new and comes with `main`.
    let second = hosted.tree.commit("README", "second").await;
    let signed = [(MAIN, second), ("refs/heads/next", old), ("refs/tags/v1", second)];
    let state = hosted.signs(&signed).await;
    assert!(!hosted.serves(&state).await);
    hosted.pushes(&["main"]).await.expect("one branch of three");
    assert_eq!(hosted.shown().await, refs(&signed));
    assert!(hosted.serves(&state).await);
}

#[tokio::test]
async fn tags_are_compared_by_the_id_they_have_themselves() {
    for git in Git::all() {
        let (mut hosted, first) = Hosted::published(&git, &[]).await;
        hosted.tree.tag("light", &first).await;
        let annotated = hosted.tree.annotated_tag("v1", &first).await;
        let (light, v1, peeled) = ("refs/tags/light", "refs/tags/v1", "refs/tags/v1^{}");
        // Clients copy the peeled line of `ls-remote` into their states.
        hosted.signs(&[(MAIN, first), (light, first), (v1, annotated), (peeled, first)]).await;
        hosted.pushes(&["--tags"]).await.expect("both tags");
        let shown = [(MAIN, first), (light, first), (v1, annotated), (peeled, first)];
        assert_eq!(hosted.shown().await, refs(&shown));
        let copy = WorkTree::clone(&git, &hosted.url(), &[]).await;
        assert_eq!(copy.rev_parse("v1").await, annotated);
        assert_eq!(copy.git(&["cat-file", "-t", "v1"]).await, "tag");
        hosted.signs(&[(MAIN, first), (v1, annotated)]).await;
        assert_eq!(hosted.shown().await, refs(&[(MAIN, first), (v1, annotated), (peeled, first)]));
    }
}

#[tokio::test]
async fn a_branch_becomes_a_directory_of_branches_and_one_branch_again() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let (a, ab) = ("refs/heads/a", "refs/heads/a/b");
    hosted.signs(&[(MAIN, first), (a, first)]).await;
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first), (a, first)]));
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, first), (ab, second)]).await;
    let down = format!("{second}:{ab}");
    hosted.pushes(&[":refs/heads/a", &down]).await.expect("a becomes a/b");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first), (ab, second)]));
    let third = hosted.tree.commit("README", "third").await;
    hosted.signs(&[(MAIN, first), (a, third)]).await;
    let up = format!("{third}:{a}");
    hosted.pushes(&[":refs/heads/a/b", &up]).await.expect("a/b becomes a");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first), (a, third)]));
}

#[tokio::test]
async fn a_signed_state_moves_refs_by_itself_where_its_objects_are_here() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second), ("refs/heads/side", first)]).await;
    hosted.tree.branch("side", &first).await;
    hosted.pushes(&["main", "side"]).await.expect("two branches");

    let rewound = [(MAIN, first), ("refs/heads/side", first)];
    let (state, answer) = hosted.says(&rewound, Some("main")).await;
    assert!(answer.accepted(), "nothing is missing: {answer:?}");
    assert!(hosted.serves(&state).await);
    assert_eq!(hosted.shown().await, refs(&rewound));
    let (_, answer) = hosted.says(&rewound, Some("side")).await;
    assert!(answer.accepted(), "{answer:?}");
    let head = hosted.tree.remote_head(&hosted.url()).await;
    assert_eq!(head.as_deref(), Some("refs/heads/side"));
    let (_, answer) = hosted.says(&[(MAIN, second)], Some("main")).await;
    assert!(answer.accepted(), "and forward again, with a branch less: {answer:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}

#[tokio::test]
async fn head_follows_the_state_to_branches_that_are_there() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let (side, owner) = ("refs/heads/side", hosted.acme.owner.clone());
    let tip = first.to_hex();
    for (head, then) in [
        ("ref: refs/heads/side", side),
        ("refs/heads/main", MAIN),
        ("ref: refs/heads/never-there", MAIN),
        ("ref: refs/heads/side", side),
        ("ref: refs/tags/side", side),
        ("ref: ../../etc/passwd", side),
    ] {
        let draft = Draft::new(Kind::STATE, hosted.later()).tag(&["d", "acme"]);
        let draft = draft.tag(&[MAIN, &tip]).tag(&[side, &tip]).tag(&["HEAD", head]);
        let answer = hosted.client.publishes(&owner.signs(draft)).await;
        assert!(answer.accepted(), "{head}: {answer:?}");
        let shown = hosted.tree.remote_head(&hosted.url()).await;
        assert_eq!(shown.as_deref(), Some(then), "after {head}");
    }
}

#[tokio::test]
async fn what_is_already_so_succeeds() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    hosted.pushes(&["main"]).await.expect("everything up to date");
    hosted.pushes(&[":refs/heads/never-there"]).await.expect("absent already");
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    let (one, two) = tokio::join!(hosted.pushes(&["main"]), hosted.pushes(&["main"]));
    one.expect("one of two at once");
    two.expect("the other");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_served_state_repairs_a_repository_that_lost_its_refs_or_everything() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    hosted.server.kill().await;
    std::fs::remove_file(hosted.directory().join("packed-refs")).unwrap();
    hosted.returns().await;
    hosted.pushes(&["main"]).await.expect("the same push again");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    hosted.server.kill().await;
    std::fs::remove_dir_all(hosted.directory()).unwrap();
    hosted.returns().await;
    assert_eq!(hosted.shown().await, refs(&[]));
    hosted.pushes(&["main"]).await.expect("the same push once more");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    let copy = WorkTree::clone(&Git::any(), &hosted.url(), &[]).await;
    assert_eq!(copy.read("README"), "hello");
}

#[tokio::test]
async fn places_that_are_not_the_clients_are_refused() {
    let (hosted, first) = Hosted::published(&Git::any(), &[]).await;
    for place in ["refs/foo/x", "refs/internal/x", "refs/nostr/123", "refs/notes/commits"] {
        let push = hosted.pushes(&[&format!("{first}:{place}")]).await;
        assert_refused(&push, &format!("{place} is not a place this server accepts pushes to"));
    }
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

#[tokio::test]
async fn a_push_larger_than_gits_buffer_is_taken_and_one_from_a_shallow_clone_is_not() {
    for git in Git::all() {
        let (mut hosted, _) = Hosted::published(&git, &[]).await;
        let mut random = grasp_testkit::Random::seeded(7);
        let noise: String = (0..400_000).fold(String::new(), |mut text, _| {
            let _ = writeln!(text, "{:x}", random.next_u64());
            text
        });
        let big = hosted.tree.commit("noise", &noise).await;
        hosted.signs(&[(MAIN, big)]).await;
        // More than a megabyte: it is probed first, then sent in pieces of no declared length.
        hosted.pushes(&["main"]).await.expect("some megabytes");
        let copy = WorkTree::clone(&git, &hosted.url(), &["--depth=1"]).await;
        assert_eq!(copy.read("noise"), noise);
        let next = copy.commit("README", "from a shallow clone").await;
        hosted.signs(&[(MAIN, next)]).await;
        let push = copy.push(&hosted.url(), &["HEAD:main"]).await;
        assert!(!push.ok && push.says("git fetch --unshallow"), "{push:?}");
        copy.fetch(&hosted.url(), &["--unshallow"]).await.expect("the rest");
        copy.push(&hosted.url(), &["HEAD:main"]).await.expect("a whole clone");
    }
}

/// Git itself needs time for many refs, so how fast the server is with thousands is measured by hand
/// in `git_http.rs`.
#[tokio::test]
async fn hundreds_of_branches_are_pushed_at_once_and_more_than_allowed_are_not() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[("NGIT_GIT_MAX_REFS", "600")]).await;
    let names: Vec<String> = (0..1_000).map(|n| format!("refs/heads/b{n:04}")).collect();
    let many: Vec<(&str, Oid)> = names.iter().map(|name| (name.as_str(), first)).collect();
    let second = hosted.tree.commit("README", "second").await;
    let all = [&[(MAIN, second)], &many[..500]].concat();
    hosted.signs(&all).await;
    pack_refs(&hosted.tree, &all);
    hosted.pushes(&["refs/heads/*:refs/heads/*"]).await.expect("501 branches");
    assert_eq!(hosted.shown().await, refs(&all));
    let (_, answer) = hosted.says(&[(MAIN, second)], Some("main")).await;
    assert!(answer.accepted(), "{answer:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
    pack_refs(&hosted.tree, &many);
    let push = hosted.pushes(&["refs/heads/b*:refs/heads/b*"]).await;
    assert!(!push.ok && push.says("more than 600 refs in one push"), "{push:?}");
}

/// As many refs as one likes, without a file or a process for each.
fn pack_refs(tree: &WorkTree, all: &[(&str, Oid)]) {
    let mut text = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for (name, oid) in refs(all) {
        let _ = writeln!(text, "{oid} {name}");
    }
    std::fs::write(tree.path().join(".git/packed-refs"), text).unwrap();
}
