//! Waiting for git data, and going back: restarts, deletions, replacements, expiry, owners leaving.

mod common;

use common::hosted::{DOMAIN, Hosted, MAIN, PURGATORY, assert_refused, refs};
use common::{THEN, alice, deletion};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Client, Draft, Git, Repository, WorkTree, http, until};
use serde_json::json;

/// After everything these stories sign.
const LATE: u64 = THEN + 100_000;

#[tokio::test]
async fn a_power_cut_takes_nothing_from_those_who_wait() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let tip = hosted.tree.commit("README", "hello").await;
    let state = hosted.signs(&[(MAIN, tip)]).await;
    hosted.crashes().await;
    assert_eq!(hosted.client.publishes(&state).await.text, "duplicate: in purgatory");
    assert_eq!(hosted.info_refs().await, 200);
    hosted.pushes(&["main"]).await.expect("after the restart");
    hosted.crashes().await;
    assert!(hosted.serves(&state).await && hosted.serves(&hosted.announcement.clone()).await);
    assert_eq!(hosted.shown().await, refs(&[(MAIN, tip)]));
    assert_eq!(hosted.tree.remote_head(&hosted.url()).await.as_deref(), Some(MAIN));
}

#[tokio::test]
async fn a_held_state_that_is_taken_back_authorises_nothing() {
    for by_coordinate in [false, true] {
        let mut hosted = Hosted::announced(&Git::any(), &[]).await;
        let tip = hosted.tree.commit("README", "hello").await;
        let state = hosted.signs(&[(MAIN, tip)]).await;
        let owner = hosted.acme.owner.clone();
        let request = match by_coordinate {
            false => deletion(&owner, LATE, &[&state]),
            true => deletion_at(&hosted.acme, Kind::STATE, LATE),
        };
        assert!(hosted.client.publishes(&request).await.accepted());
        assert_refused(&hosted.pushes(&["main"]).await, "no state event is waiting");
        assert!(!hosted.client.publishes(&state).await.ok, "it does not come back");
        assert_eq!(hosted.info_refs().await, 200, "the announcement waits on");
    }
}

#[tokio::test]
async fn a_newer_state_ends_the_authority_of_one_that_waits() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let older = hosted.tree.commit("README", "older").await;
    hosted.signs(&[(MAIN, older)]).await;
    let newer = hosted.tree.commit("README", "newer").await;
    let state = hosted.signs(&[(MAIN, newer)]).await;
    let push = hosted.pushes(&[&format!("{older}:{MAIN}")]).await;
    assert_refused(&push, "the push does not match the signed state");
    hosted.pushes(&["main"]).await.expect("the newer one");
    assert!(hosted.serves(&state).await);
}

#[tokio::test]
async fn a_deleted_state_gives_way_to_the_one_before_it() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let old = hosted.client.asks(&[json!({"kinds": [30618]})]).await;
    let second = hosted.tree.commit("README", "second").await;
    let state = hosted.signs(&[(MAIN, second), ("refs/heads/side", second)]).await;
    hosted.pushes(&["main", "main:side"]).await.expect("a second state");
    assert_eq!(hosted.client.asks(&[json!({"kinds": [30618]})]).await, [state.id]);
    let mut reader = Client::connect(&hosted.server.url()).await;
    reader.subscribes("live", &[json!({"kinds": [30618], "limit": 0})]).await;

    let request = deletion(&hosted.acme.owner.clone(), LATE, &[&state]);
    assert!(hosted.client.publishes(&request).await.accepted());
    assert_eq!(hosted.client.asks(&[json!({"kinds": [30618]})]).await, old);
    assert_eq!(reader.fence().await.len(), 1, "who listens is told which one counts");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    let copy = WorkTree::clone(&Git::any(), &hosted.url(), &[]).await;
    assert_eq!(copy.read("README"), "hello");
    hosted.crashes().await;
    assert_eq!(hosted.client.asks(&[json!({"kinds": [30618]})]).await, old);
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

#[tokio::test]
async fn without_a_state_the_announcement_waits_again() {
    for by_coordinate in [false, true] {
        let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
        let request = match by_coordinate {
            true => deletion_at(&hosted.acme, Kind::STATE, THEN + 50),
            false => {
                let ids = hosted.client.asks(&[json!({"kinds": [30618]})]).await;
                let draft = Draft::new(Kind::DELETION, THEN + 50);
                hosted.acme.owner.signs(draft.tag(&["e", &ids[0].to_hex()]))
            }
        };
        assert!(hosted.client.publishes(&request).await.accepted());
        assert_eq!(hosted.client.asks(&[json!({"kinds": [30617, 30618]})]).await, []);
        let again = hosted.client.publishes(&hosted.announcement.clone()).await;
        assert_eq!(again.text, "duplicate: in purgatory");
        assert_eq!(hosted.info_refs().await, 200);
        assert_eq!(hosted.shown().await, refs(&[]));
        assert_refused(&hosted.pushes(&["main"]).await, "no state event is waiting");
        for _ in 0..10 {
            hosted.later();
        }
        // The objects are still here, so the word of the owner is all it takes.
        let (state, answer) = hosted.says(&[(MAIN, first)], Some("main")).await;
        assert!(answer.accepted(), "{answer:?}");
        assert!(hosted.serves(&state).await && hosted.serves(&hosted.announcement.clone()).await);
        assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    }
}

#[tokio::test]
async fn an_owner_who_leaves_is_gone_at_once_and_can_come_back() {
    for deletes in [true, false] {
        let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
        let state = hosted.client.asks(&[json!({"kinds": [30618]})]).await;
        let leaves = match deletes {
            true => deletion_at(&hosted.acme, Kind::ANNOUNCEMENT, THEN + 50),
            false => hosted.acme.announcement_listing("elsewhere.example", THEN + 50),
        };
        // What asks to be hosted elsewhere is not kept, so it is not told yes either.
        assert_eq!(hosted.client.publishes(&leaves).await.ok, deletes);
        assert_eq!(hosted.info_refs().await, 404);
        assert_eq!(http("GET", &hosted.place(""), &[]).await.status, 404);
        assert!(!hosted.tree.tries(&["ls-remote", &hosted.url()]).await.ok);
        assert!(!hosted.pushes(&["main"]).await.ok);
        assert!(hosted.directory().is_dir(), "the data is kept for a while");
        assert_eq!(hosted.client.asks(&[json!({"kinds": [30617, 30618]})]).await, []);

        hosted.crashes().await;
        assert_eq!(hosted.info_refs().await, 404);
        let back = hosted.acme.announcement_listing(DOMAIN, THEN + 60);
        let answer = hosted.client.publishes(&back).await;
        assert!(answer.accepted(), "everything is still here: {answer:?}");
        assert!(hosted.serves(&back).await);
        assert_eq!(hosted.client.asks(&[json!({"kinds": [30618]})]).await, state);
        assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    }
}

#[tokio::test]
async fn a_held_announcement_that_is_taken_back_is_no_repository() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let tip = hosted.tree.commit("README", "hello").await;
    hosted.signs(&[(MAIN, tip)]).await;
    let request = deletion(&hosted.acme.owner.clone(), LATE, &[&hosted.announcement]);
    assert!(hosted.client.publishes(&request).await.accepted());
    assert_eq!(hosted.info_refs().await, 404);
    assert!(!hosted.pushes(&["main"]).await.ok);
    assert!(!hosted.directory().exists());
}

#[tokio::test]
async fn a_deleted_version_of_an_announcement_gives_way_to_the_one_before_it() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let newer = hosted.acme.announcement_listing(DOMAIN, THEN + 1);
    assert!(hosted.client.publishes(&newer).await.accepted());
    let request = deletion(&hosted.acme.owner.clone(), LATE, &[&newer]);
    assert!(hosted.client.publishes(&request).await.accepted());
    let served = hosted.client.asks(&[json!({"kinds": [30617]})]).await;
    assert_eq!(served, [hosted.announcement.id]);
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

#[tokio::test]
async fn who_vanishes_takes_the_repository_along() {
    let (mut hosted, _) = Hosted::published(&Git::any(), &[]).await;
    let draft = Draft::new(Kind::VANISH, LATE).tag(&["relay", "ALL_RELAYS"]);
    let request = hosted.acme.owner.signs(draft);
    assert!(hosted.client.publishes(&request).await.accepted());
    assert_eq!(hosted.info_refs().await, 404);
    assert_eq!(hosted.client.asks(&[json!({"kinds": [30617, 30618]})]).await, []);
}

#[tokio::test]
async fn what_waited_too_long_goes_and_an_announcement_sleeps_first() {
    let mut hosted = Hosted::announced(&Git::any(), &[("NGIT_HELD_SECS", "6")]).await;
    let tip = hosted.tree.commit("README", "hello").await;
    hosted.signs(&[(MAIN, tip)]).await;
    hosted.server.logs("gave up waiting for git data").await;
    until("the announcement sleeps", || async { hosted.info_refs().await == 404 }).await;
    assert!(!hosted.pushes(&["main"]).await.ok);
    let next = hosted.tree.commit("README", "next").await;
    let state = hosted.signs(&[(MAIN, next)]).await;
    assert_eq!(hosted.info_refs().await, 200, "a state wakes it");
    let outdated = hosted.pushes(&[&format!("{tip}:{MAIN}")]).await;
    assert_refused(&outdated, "does not match the signed state");
    hosted.pushes(&["main"]).await.expect("what was signed last");
    assert!(hosted.serves(&state).await);
}

#[tokio::test]
async fn an_expired_state_authorises_nothing_and_may_be_published_again() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[("NGIT_HELD_SECS", "6")]).await;
    let second = hosted.tree.commit("README", "second").await;
    let state = hosted.signs(&[(MAIN, second)]).await;
    hosted.server.logs("gave up waiting for git data").await;
    assert_refused(&hosted.pushes(&["main"]).await, "no state event is waiting");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    hosted.pushes(&["main"]).await.expect("signed for again");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}

#[tokio::test]
async fn an_announcement_nobody_woke_is_forgotten() {
    let settings = [("NGIT_HELD_SECS", "1"), ("NGIT_HELD_ANNOUNCEMENT_SECS", "1")];
    let mut hosted = Hosted::announced(&Git::any(), &settings).await;
    hosted.server.logs("gave up waiting for git data").await;
    assert_eq!(hosted.info_refs().await, 404);
    let tip = hosted.tree.commit("README", "hello").await;
    let (_, answer) = hosted.says(&[(MAIN, tip)], Some("main")).await;
    assert!(answer.refused("invalid: no announcement exists"), "{answer:?}");
    let again = hosted.client.publishes(&hosted.announcement.clone()).await;
    assert!(again.text.starts_with(PURGATORY), "a person may try again");
}

#[tokio::test]
async fn what_is_about_a_held_repository_is_held_and_comes_out_with_it() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let issue = hosted.acme.issue(&alice(), THEN + 1, "when will it be here?");
    let reply = Draft::new(Kind(1111), THEN + 2).tag(&["e", &issue.id.to_hex()]);
    let reply = alice().signs(reply.content("soon"));
    for event in [&issue, &reply] {
        let answer = hosted.client.publishes(event).await;
        assert!(answer.ok && answer.text.starts_with("purgatory:"), "{answer:?}");
        assert!(!hosted.serves(event).await);
    }
    let mut reader = Client::connect(&hosted.server.url()).await;
    reader.subscribes("live", &[json!({"limit": 0})]).await;
    let tip = hosted.tree.commit("README", "hello").await;
    hosted.signs(&[(MAIN, tip)]).await;
    hosted.pushes(&["main"]).await.expect("the data");
    assert!(hosted.serves(&issue).await && hosted.serves(&reply).await);
    assert_eq!(reader.fence().await.len(), 4, "announcement, state, issue and reply");
}

#[tokio::test]
async fn states_that_no_data_can_satisfy_move_nothing() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let before = hosted.client.asks(&[json!({"kinds": [30618]})]).await;
    let at = hosted.later();
    let odd = hosted.acme.state(&hosted.acme.owner, at, &[(MAIN, "abc123")], Some("main"));
    let answer = hosted.client.publishes(&odd).await;
    assert!(answer.ok && answer.text.starts_with("purgatory:"), "{answer:?}");
    assert_eq!(hosted.client.asks(&[json!({"kinds": [30618]})]).await, before);
    let (empty, answer) = hosted.says(&[], None).await;
    assert!(answer.accepted(), "a state of nothing is served: {answer:?}");
    assert!(hosted.serves(&empty).await);
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]), "and wipes nothing");
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    hosted.pushes(&["main"]).await.expect("after all that");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}

/// Kind 5 for whatever is at an address.
fn deletion_at(repository: &Repository, kind: Kind, at: u64) -> VerifiedEvent {
    let owner = &repository.owner;
    let address = format!("{}:{}:{}", kind.0, owner.key.to_hex(), repository.identifier);
    owner.signs(Draft::new(Kind::DELETION, at).tag(&["a", &address]))
}
