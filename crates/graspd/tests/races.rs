//! Things that happen while a push is under way, and at the same moment.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{DOMAIN, Hosted, MAIN, refs};
use common::wire::{SlowPush, report};
use common::{THEN, alice, deletion};
use grasp_core::Oid;
use grasp_testkit::{Git, Repository, http, until};

/// After everything these stories sign.
const LATE: u64 = THEN + 100_000;

/// A push whose last bytes have not been sent.
async fn begun(settings: &[(&str, &str)]) -> (Hosted, [Oid; 2], SlowPush) {
    let (mut hosted, first) = Hosted::published(&Git::any(), settings).await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    let push = hosted.push_of(&first, &second).await;
    let slow = SlowPush::begins(&hosted.place(""), push).await;
    until("the push has begun", || async { hosted.incoming() == 1 }).await;
    (hosted, [first, second], slow)
}

#[tokio::test]
async fn a_state_deleted_during_its_push_authorises_it_no_longer() {
    let (mut hosted, [first, second], slow) = begun(&[]).await;
    let owner = hosted.acme.owner.clone();
    let state = hosted.acme.state(&owner, THEN + 20, &[(MAIN, &second.to_hex())], Some("main"));
    let request = deletion(&owner, LATE, &[&state]);
    assert!(hosted.client.publishes(&request).await.accepted());
    let page = slow.ends().await;
    assert!(report(&page).contains("unpack no state event is waiting"), "{page:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    until("nothing is kept of it", || async { hosted.incoming() == 0 }).await;
}

#[tokio::test]
async fn a_newer_state_during_a_push_ends_its_authority() {
    let (mut hosted, [first, second], slow) = begun(&[]).await;
    let third = hosted.tree.commit("README", "third").await;
    hosted.signs(&[(MAIN, third)]).await;
    let page = slow.ends().await;
    assert!(report(&page).contains("unpack the push does not match"), "{page:?}");
    assert!(page.body.contains(&second.to_hex()) && page.body.contains(&third.to_hex()));
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    hosted.pushes(&["main"]).await.expect("what is signed now");
}

#[tokio::test]
async fn an_owner_who_leaves_during_a_push_has_left() {
    let (mut hosted, [first, second], slow) = begun(&[]).await;
    let leaves = hosted.acme.announcement_listing("elsewhere.example", THEN + 50);
    assert!(hosted.client.publishes(&leaves).await.text.contains("no longer served here"));
    let page = slow.ends().await;
    assert!(report(&page).starts_with("00") && !report(&page).contains("unpack ok"), "{page:?}");
    assert_eq!(hosted.info_refs().await, 404);
    let back = hosted.acme.announcement_listing(DOMAIN, THEN + 60);
    assert!(hosted.client.publishes(&back).await.ok);
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    assert_ne!(first, second);
}

#[tokio::test]
async fn time_stands_still_for_what_a_push_is_under_way_for() {
    let (mut hosted, [_, second], slow) = begun(&[("NGIT_HELD_SECS", "5")]).await;
    // Announced after the push began, and given up before it ends.
    let other = Repository::new(alice(), "other");
    assert!(hosted.client.publishes(&other.announcement_listing(DOMAIN, THEN)).await.ok);
    let place = other.clone_url(&hosted.server.address);
    let place = format!("{}/info/refs?service=git-upload-pack", &place["http://".len()..]);
    until("the other sleeps", || async { http("GET", &place, &[]).await.status == 404 }).await;
    let page = slow.ends().await;
    assert!(report(&page).contains("unpack ok"), "{page:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}

#[tokio::test]
async fn of_two_pushes_at_once_for_different_states_one_is_the_newer() {
    let (mut hosted, [first, second], slow) = begun(&[]).await;
    // The older push is not finished when a newer state has been pushed and served.
    hosted.tree.git(&["reset", "-q", "--hard", &first.to_hex()]).await;
    let third = hosted.tree.commit("README", "third").await;
    let state = hosted.signs(&[(MAIN, third)]).await;
    hosted.pushes(&["main"]).await.expect("the newer one");
    let page = slow.ends().await;
    assert!(!report(&page).contains("unpack ok"), "{page:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, third)]));
    assert!(hosted.serves(&state).await);
    assert_ne!(second, third);
}

#[tokio::test]
async fn two_pushes_at_once_for_one_state_both_succeed() {
    let (hosted, [_, second], slow) = begun(&[]).await;
    hosted.pushes(&["main"]).await.expect("the quicker");
    let page = slow.ends().await;
    assert!(report(&page).contains("unpack ok"), "the slower: {page:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
    until("nothing is kept of it", || async { hosted.incoming() == 0 }).await;
}

#[tokio::test]
async fn a_power_cut_during_a_push_leaves_it_to_be_pushed_again() {
    let (mut hosted, [first, second], slow) = begun(&[]).await;
    hosted.crashes().await;
    drop(slow);
    assert_eq!(hosted.incoming(), 0, "half of a push is nothing");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    hosted.pushes(&["main"]).await.expect("again");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}

/// Two branches that always move together, seen while they do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_half_of_a_change() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let (a, z) = ("refs/heads/a", "refs/heads/z");
    hosted.signs(&[(a, second), (z, second), (MAIN, second)]).await;
    let pair = [format!("{second}:{a}"), format!("{second}:{z}")];
    hosted.pushes(&["main", &pair[0], &pair[1]]).await.expect("three branches");
    let place = hosted.place("/info/refs?service=git-upload-pack");
    let watching = tokio::spawn(async move {
        let mut seen = [0_u32; 2];
        while seen.iter().any(|count| *count < 20) {
            let body = http("GET", &place, &[]).await.body;
            let at = |oid: &Oid| body.matches(&format!("{oid} refs/heads/")).count();
            let counts = [at(&first), at(&second)];
            assert!(counts == [3, 0] || counts == [0, 3], "half: {counts:?}");
            seen[usize::from(counts[0] == 0)] += 1;
        }
    });
    let mut turns = 0;
    while !watching.is_finished() && turns < 500 {
        let tip = if turns % 2 == 0 { first } else { second };
        hosted.signs(&[(a, tip), (z, tip), (MAIN, tip)]).await;
        turns += 1;
    }
    watching.await.unwrap();
}
