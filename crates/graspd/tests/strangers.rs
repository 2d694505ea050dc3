//! People who want what is not theirs, and histories that are not straight: nobody's refs move, and
//! nothing that was acknowledged is lost.

mod common;

use common::hosted::{DOMAIN, Hosted, MAIN, PURGATORY, refs};
use common::{THEN, alice, bob, deletion};
use grasp_testkit::{Author, Git, Repository, until};

const LATER: u64 = THEN + 700;

#[tokio::test]
async fn a_word_about_nothing_takes_no_push_back() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let owner = hosted.acme.owner.clone();
    let second = hosted.tree.commit("README", "second").await;
    let state = hosted.acme.state(&owner, THEN + 20, &[(MAIN, &second.to_hex())], Some("main"));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    // Newer, and says where HEAD is and nothing else.
    let about_nothing = hosted.acme.state(&owner, THEN + 30, &[], Some("main"));
    assert!(hosted.client.publishes(&about_nothing).await.accepted());
    hosted.pushes(&["main"]).await.expect("the state that waits");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
    hosted.crashes().await;
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));

    // What the branches follow is no longer served, and can be taken back all the same.
    let request = deletion(&owner, LATER, &[&state]);
    assert!(hosted.client.publishes(&request).await.accepted());
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

#[tokio::test]
async fn a_crowd_that_lists_the_owner_keeps_nobody_from_pushing() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let owner = hosted.acme.owner.clone();
    for number in 1_000..1_150 {
        let squatter = Repository::new(Author::number(number), "acme");
        let announcement = squatter.announcement_naming(DOMAIN, THEN, &[&owner]);
        assert!(hosted.client.publishes(&announcement).await.text.starts_with(PURGATORY));
    }
    let tip = hosted.tree.commit("README", "hello").await;
    hosted.signs(&[(MAIN, tip)]).await;
    hosted.pushes(&["main"]).await.expect("whoever else uses the name");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, tip)]));
}

#[tokio::test]
async fn naming_somebody_elses_commit_brings_none_of_their_objects() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let twin = Repository::new(bob(), "acme");
    let announcement = twin.announcement_naming(DOMAIN, THEN, &[&hosted.acme.owner]);
    assert!(hosted.client.publishes(&announcement).await.text.starts_with(PURGATORY));
    let state = twin.state(&bob(), LATER, &[(MAIN, &first.to_hex())], Some("main"));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    assert!(!hosted.serves(&state).await && !hosted.serves(&announcement).await);
    assert!(!hosted.directory_of(&twin).exists());
}

#[tokio::test]
async fn a_pull_request_carries_nothing_to_strangers() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let other = Repository::new(bob(), "acme");
    let announcement = other.announcement_listing(DOMAIN, THEN);
    assert!(hosted.client.publishes(&announcement).await.ok);
    let tip = hosted.tree.commit("README", "bob's").await;
    // The tip of a branch would need no ref of its own.
    let newest = hosted.tree.commit("README", "bob's newest").await;
    let state = other.state(&bob(), THEN + 1, &[(MAIN, &newest.to_hex())], Some("main"));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    let there = other.clone_url(&hosted.server.address);
    hosted.tree.push(&there, &["main"]).await.expect("bob's own repository");
    let both = [hosted.acme.coordinate(), other.coordinate()];
    let draft = grasp_testkit::Draft::new(grasp_core::Kind::PULL_REQUEST, LATER)
        .tag(&["a", &both[0]])
        .tag(&["a", &both[1]])
        .tag(&["c", &tip.to_hex()]);
    let event = alice().signs(draft);
    assert!(hosted.client.publishes(&event).await.accepted(), "its commit is here");
    let place = format!("refs/nostr/{}", event.id);
    assert_eq!(hosted.shown_at(&there).await, refs(&[(MAIN, newest), (&place, tip)]));
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]), "nothing came from a stranger");
}

#[tokio::test]
async fn the_same_upload_twice_takes_its_place_once() {
    let (hosted, _) = Hosted::published(&Git::any(), &[]).await;
    let tip = hosted.tree.commit("README", "better").await;
    let event = hosted.acme.pull_request(&alice(), LATER, &tip);
    let proposal = format!("{tip}:refs/nostr/{}", event.id);
    for _ in 0..3 {
        hosted.pushes(&[&proposal]).await.expect("before its event");
    }
    until("only one is kept", || async { hosted.incoming() == 1 }).await;
}
