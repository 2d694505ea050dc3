//! Several owners of one project on one server: what one of them pushes, all of them show.

mod common;

use common::hosted::{DOMAIN, Hosted, MAIN, PURGATORY, assert_refused, refs};
use common::{THEN, alice, bob, deletion};
use grasp_core::Kind;
use grasp_testkit::{Author, Client, Draft, Git, Repository, WorkTree, until};
use std::time::Duration;
use tokio::time::Instant;

const RULES: [&str; 2] = ["listed", "confirmed"];

/// The project as bob has it.
fn twin() -> Repository {
    Repository::new(bob(), "acme")
}

#[tokio::test]
async fn a_push_to_one_owner_moves_the_others_before_it_returns() {
    for rule in RULES {
        let mut hosted = Hosted::announced(&Git::any(), &[("NGIT_MAINTAINER_RULE", rule)]).await;
        let owner = hosted.acme.owner.clone();
        let own = hosted.acme.announcement_naming(DOMAIN, THEN + 1, &[&bob()]);
        let bobs = twin().announcement_naming(DOMAIN, THEN + 1, &[&owner]);
        for announcement in [&own, &bobs] {
            assert!(hosted.client.publishes(announcement).await.text.starts_with(PURGATORY));
        }
        let there = twin().clone_url(&hosted.server.address);
        let tip = hosted.tree.commit("README", "hello").await;
        let state = hosted.signs(&[(MAIN, tip)]).await;
        hosted.pushes(&["main"]).await.expect("to one owner's address");
        for event in [&own, &bobs, &state] {
            assert!(hosted.serves(event).await, "{rule}: kind {}", event.kind.0);
        }
        assert_eq!(hosted.shown_at(&there).await, refs(&[(MAIN, tip)]), "{rule}");
        let copy = WorkTree::clone(&Git::any(), &there, &[]).await;
        assert_eq!(copy.read("README"), "hello");

        let next = copy.commit("README", "by bob").await;
        let state = twin().state(&bob(), THEN + 500, &[(MAIN, &next.to_hex())], Some("main"));
        assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
        copy.push(&there, &["main"]).await.expect("to the other's");
        assert_eq!(hosted.shown().await, refs(&[(MAIN, next)]), "{rule}");
        let copy = WorkTree::clone(&Git::any(), &hosted.url(), &[]).await;
        assert_eq!(copy.read("README"), "by bob");
    }
}

#[tokio::test]
async fn a_new_maintainers_repository_is_filled_from_what_is_here() {
    for rule in RULES {
        let (mut hosted, first) =
            Hosted::published(&Git::any(), &[("NGIT_MAINTAINER_RULE", rule)]).await;
        let invites = hosted.acme.announcement_naming(DOMAIN, THEN + 1, &[&bob()]);
        assert!(hosted.client.publishes(&invites).await.ok);
        let accepts = twin().announcement_naming(DOMAIN, THEN + 2, &[&hosted.acme.owner]);
        assert!(hosted.client.publishes(&accepts).await.ok);
        let there = twin().clone_url(&hosted.server.address);
        until("the twin is filled", || async {
            hosted.shown_at(&there).await == refs(&[(MAIN, first)])
        })
        .await;
        // Refs move before the events are served.
        let served =
            async { while !(hosted.serves(&accepts).await && hosted.serves(&invites).await) {} };
        let served = tokio::time::timeout(std::time::Duration::from_secs(30), served).await;
        served.unwrap_or_else(|_| panic!("{rule}: both announcements are served"));
        let copy = WorkTree::clone(&Git::any(), &there, &[]).await;
        assert_eq!(copy.read("README"), "hello");
    }
}

#[tokio::test]
async fn who_is_only_listed_signs_under_one_rule_and_not_under_the_other() {
    for rule in RULES {
        let (mut hosted, first) =
            Hosted::published(&Git::any(), &[("NGIT_MAINTAINER_RULE", rule)]).await;
        let invites = hosted.acme.announcement_naming(DOMAIN, THEN + 1, &[&bob()]);
        assert!(hosted.client.publishes(&invites).await.ok);
        let second = hosted.tree.commit("README", "second").await;
        let state =
            hosted.acme.state(&bob(), THEN + 500, &[(MAIN, &second.to_hex())], Some("main"));
        let answer = hosted.client.publishes(&state).await;
        let push = hosted.pushes(&["main"]).await;
        if rule == "listed" {
            assert!(answer.text.starts_with(PURGATORY));
            push.expect("bob's word counts");
            assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
        } else {
            assert!(answer.refused("restricted:"), "{answer:?}");
            assert_refused(&push, "publish a state event (kind 30618) by a maintainer");
            assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
        }
    }
}

#[tokio::test]
async fn strangers_with_the_same_name_share_nothing() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let namesake = Repository::new(alice(), "acme");
    let announcement = namesake.announcement_listing(DOMAIN, THEN);
    assert!(hosted.client.publishes(&announcement).await.text.starts_with(PURGATORY));
    let state = namesake.state(&alice(), THEN + 500, &[(MAIN, &first.to_hex())], Some("main"));
    assert!(
        hosted.client.publishes(&state).await.text.starts_with(PURGATORY),
        "her data is not here"
    );
    let there = namesake.clone_url(&hosted.server.address);
    assert_eq!(hosted.shown_at(&there).await, refs(&[]));
    hosted.tree.push(&there, &["main"]).await.expect("her own copy");
    let own = WorkTree::init(&Git::any()).await;
    let other = own.commit("README", "something else").await;
    let state = namesake.state(&alice(), THEN + 600, &[(MAIN, &other.to_hex())], Some("main"));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    own.push(&there, &["+HEAD:main"]).await.expect("and on her own way");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    assert_eq!(hosted.shown_at(&there).await, refs(&[(MAIN, other)]));
}

#[tokio::test]
async fn when_one_owner_leaves_the_others_stay() {
    let (mut hosted, _) = Hosted::published(&Git::any(), &[]).await;
    let owner = hosted.acme.owner.clone();
    let own = hosted.acme.announcement_naming(DOMAIN, THEN + 1, &[&bob()]);
    let bobs = twin().announcement_naming(DOMAIN, THEN + 2, &[&owner]);
    for announcement in [&own, &bobs] {
        assert!(hosted.client.publishes(announcement).await.ok);
    }
    let there = twin().clone_url(&hosted.server.address);
    let next = hosted.tree.commit("README", "both agree").await;
    let state = twin().state(&bob(), THEN + 500, &[(MAIN, &next.to_hex())], Some("main"));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    hosted.pushes(&["main"]).await.expect("bob's state at the owner's address");
    assert_eq!(hosted.shown_at(&there).await, refs(&[(MAIN, next)]));
    let leaves = hosted.acme.announcement_listing("elsewhere.example", THEN + 50);
    assert!(hosted.client.publishes(&leaves).await.ok, "as bob's co-maintainer he stays known");
    assert_eq!(hosted.info_refs().await, 404);
    assert_eq!(hosted.shown_at(&there).await, refs(&[(MAIN, next)]));
    assert!(hosted.serves(&state).await && hosted.serves(&bobs).await);
    assert!(!hosted.serves(&own).await);
}

#[tokio::test]
async fn a_state_taken_back_gives_way_to_another_maintainers() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let owner = hosted.acme.owner.clone();
    let own = hosted.acme.announcement_naming(DOMAIN, THEN + 1, &[&bob()]);
    let bobs = twin().announcement_naming(DOMAIN, THEN + 2, &[&owner]);
    for announcement in [&own, &bobs] {
        assert!(hosted.client.publishes(announcement).await.ok);
    }
    let there = twin().clone_url(&hosted.server.address);
    until("the twin is filled", || async {
        hosted.shown_at(&there).await == refs(&[(MAIN, first)])
    })
    .await;
    let by_bob = hosted.tree.commit("README", "by bob").await;
    let state = twin().state(&bob(), THEN + 20, &[(MAIN, &by_bob.to_hex())], Some("main"));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    hosted.pushes(&["main"]).await.expect("bob's");
    let newest = hosted.tree.commit("README", "by the owner").await;
    hosted.later();
    let last = hosted.signs(&[(MAIN, newest)]).await;
    hosted.pushes(&["main"]).await.expect("the owner's");
    for (deleted, by, tip) in [(&last, &owner, by_bob), (&state, &bob(), first)] {
        let request = deletion(by, THEN + 900, &[deleted]);
        assert!(hosted.client.publishes(&request).await.accepted());
        assert_eq!(hosted.shown().await, refs(&[(MAIN, tip)]));
        assert_eq!(hosted.shown_at(&there).await, refs(&[(MAIN, tip)]));
    }
}

#[tokio::test]
async fn a_pull_request_to_several_owners_is_shown_by_each() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let owner = hosted.acme.owner.clone();
    let own = hosted.acme.announcement_naming(DOMAIN, THEN + 1, &[&bob()]);
    let bobs = twin().announcement_naming(DOMAIN, THEN + 2, &[&owner]);
    for announcement in [&own, &bobs] {
        assert!(hosted.client.publishes(announcement).await.ok);
    }
    let there = twin().clone_url(&hosted.server.address);
    let tip = hosted.tree.commit("README", "better").await;
    let draft = Draft::new(Kind::PULL_REQUEST, THEN + 500).tag(&["a", &hosted.acme.coordinate()]);
    let draft = draft.tag(&["a", &twin().coordinate()]).tag(&["c", &tip.to_hex()]);
    let event = alice().signs(draft);
    let place = format!("refs/nostr/{}", event.id);
    hosted.pushes(&[&format!("{tip}:{place}")]).await.expect("to one of them");
    assert!(hosted.client.publishes(&event).await.accepted());
    let shown = refs(&[(MAIN, first), (&place, tip)]);
    assert_eq!(hosted.shown().await, shown);
    until("the other shows it, too", || async { hosted.shown_at(&there).await == shown }).await;
    let stranger = WorkTree::init(&Git::any()).await;
    stranger.fetch(&there, &[&place]).await.expect("from the other");
    let request = deletion(&alice(), THEN + 900, &[&event]);
    assert!(hosted.client.publishes(&request).await.accepted());
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    assert_eq!(hosted.shown_at(&there).await, refs(&[(MAIN, first)]));
}

#[tokio::test]
async fn who_is_no_longer_a_maintainer_moves_nothing_more() {
    let (mut hosted, first) =
        Hosted::published(&Git::any(), &[("NGIT_MAINTAINER_RULE", "listed")]).await;
    let invites = hosted.acme.announcement_naming(DOMAIN, THEN + 1, &[&bob()]);
    assert!(hosted.client.publishes(&invites).await.ok);
    let second = hosted.tree.commit("README", "second").await;
    let state = hosted.acme.state(&bob(), THEN + 500, &[(MAIN, &second.to_hex())], Some("main"));
    assert!(hosted.client.publishes(&state).await.text.starts_with(PURGATORY));
    let alone = hosted.acme.announcement_listing(DOMAIN, THEN + 2);
    assert!(hosted.client.publishes(&alone).await.ok);
    assert_refused(&hosted.pushes(&["main"]).await, "by a maintainer");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

/// So many invented people, each of whom lists the next and the one before; the owner is one of them.
async fn ring_around(hosted: &mut Hosted, count: u64) {
    let mut people: Vec<Author> = (0..count).map(|n| Author::number(10_000 + n)).collect();
    people.push(hosted.acme.owner.clone());
    let mut ids = Vec::new();
    for (at, owner) in people.iter().enumerate() {
        let next = &people[(at + 1) % people.len()];
        let before = &people[(at + people.len() - 1) % people.len()];
        let repository = Repository::new(owner.clone(), "acme");
        let announcement = repository.announcement_naming(DOMAIN, THEN + 1, &[next, before]);
        hosted.client.offers(&announcement).await;
        ids.push(announcement.id);
    }
    for id in ids {
        let answer = hosted.client.answer_to(&id).await;
        assert!(answer.ok, "{answer:?}");
    }
}

/// How long others wait at most for an answer while a client pushes into a group of this size.
async fn wait_during_push_into_ring(count: u64) -> Duration {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    ring_around(&mut hosted, count).await;
    let tip = hosted.tree.commit("README", "hello").await;
    hosted.signs(&[(MAIN, tip)]).await;
    let mut stranger = Client::connect(&hosted.server.url()).await;
    let (mut worst, mut asked) = (Duration::ZERO, 0);
    let mut push = std::pin::pin!(hosted.pushes(&["main"]));
    let pushed = loop {
        let other = Repository::new(Author::number(50_000 + asked), &format!("other{asked}"));
        asked += 1;
        let began = Instant::now();
        let event = other.announcement_listing(DOMAIN, THEN);
        let answer = stranger.publishes(&event);
        let (done, answer) = {
            let mut answer = std::pin::pin!(answer);
            tokio::select! {
                answer = &mut answer => (None, answer),
                done = &mut push => (Some(done), answer.await),
            }
        };
        assert!(answer.ok, "{answer:?}");
        worst = worst.max(began.elapsed());
        if let Some(done) = done {
            break done;
        }
    };
    pushed.expect("the push into the group");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, tip)]));
    println!("{count} maintainers: {asked} others asked, the slowest was answered after {worst:?}");
    worst
}

#[tokio::test]
async fn a_push_into_a_large_invented_group_keeps_nobody_else_waiting() {
    let worst = wait_during_push_into_ring(400).await;
    assert!(worst < Duration::from_secs(1), "{worst:?}");
}

/// Run by `scripts/large-group`.
#[tokio::test]
#[ignore = "takes minutes"]
async fn a_push_into_a_group_of_four_thousand_keeps_nobody_else_waiting() {
    let worst = wait_during_push_into_ring(4_000).await;
    assert!(worst < Duration::from_secs(1), "{worst:?}");
}
