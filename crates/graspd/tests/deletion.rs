//! Requests to forget, as a client meets them: NIP-09 and NIP-62.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::{THEN, alice, bob, deletion, grasp_list, serving};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Client, Draft, Repository, now};
use serde_json::json;

#[tokio::test]
async fn a_deleted_event_is_gone_and_stays_away() {
    let (mut server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let doomed = acme.issue(&alice(), THEN, "doomed");
    let spared = acme.issue(&alice(), THEN, "spared");
    for issue in [&doomed, &spared] {
        assert!(client.publishes(issue).await.accepted());
    }
    let request = deletion(&alice(), THEN + 1, &[&doomed]);
    assert!(client.publishes(&request).await.accepted());
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, [spared.id]);
    assert_eq!(client.counts(&[json!({"ids": [doomed.id.to_hex()]})]).await, 0);
    assert_eq!(client.asks(&[json!({"kinds": [5]})]).await, [request.id], "the request is served");
    let back = client.publishes(&doomed).await;
    assert!(back.refused("invalid: this event is deleted"), "{back:?}");

    assert!(server.stop().await);
    server.restart().await;
    let mut client = Client::connect(&server.url()).await;
    let back = client.publishes(&doomed).await;
    assert!(back.refused("invalid: this event is deleted"), "after a restart: {back:?}");
}

#[tokio::test]
async fn an_address_is_deleted_up_to_the_moment_of_the_request() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let list = |at: u64| grasp_list(&alice(), at);
    assert!(client.publishes(&list(THEN)).await.accepted());
    let address = format!("10317:{}:", alice().key.to_hex());
    let request = alice().signs(Draft::new(Kind::DELETION, THEN + 10).tag(&["a", &address]));
    assert!(client.publishes(&request).await.accepted());
    let mine = [json!({"kinds": [10317]})];
    assert_eq!(client.asks(&mine).await, []);
    for old in [THEN, THEN + 5, THEN + 10] {
        let answer = client.publishes(&list(old)).await;
        assert!(answer.refused("invalid: this event is deleted"), "{answer:?}");
    }
    let newer = list(THEN + 11);
    assert!(client.publishes(&newer).await.accepted());
    assert_eq!(client.asks(&mine).await, [newer.id]);
}

#[tokio::test]
async fn an_owner_takes_a_repository_back_by_its_address() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let draft = Draft::new(Kind::DELETION, now()).tag(&["a", &acme.coordinate()]);
    assert!(client.publishes(&acme.owner.signs(draft)).await.accepted());
    assert_eq!(client.asks(&[json!({"kinds": [30617]})]).await, []);
    let late = client.publishes(&acme.issue(&alice(), THEN, "too late")).await;
    assert!(late.refused("restricted:"), "{late:?}");
}

#[tokio::test]
async fn who_names_anothers_event_is_refused_whole() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let mine = acme.issue(&bob(), THEN, "mine");
    let theirs = acme.issue(&alice(), THEN, "theirs");
    for issue in [&mine, &theirs] {
        assert!(client.publishes(issue).await.accepted());
    }
    let greedy = client.publishes(&deletion(&bob(), THEN + 1, &[&mine, &theirs])).await;
    assert!(greedy.refused("invalid: the deletion names an event of another"), "{greedy:?}");
    assert_eq!(client.counts(&[json!({"kinds": [1621]})]).await, 2, "not even their own went");
    // Another's address is no target at all.
    let draft = Draft::new(Kind::DELETION, now()).tag(&["a", &acme.coordinate()]);
    assert!(client.publishes(&bob().signs(draft)).await.refused("invalid:"));
    assert_eq!(client.counts(&[json!({"kinds": [30617]})]).await, 1);
}

#[tokio::test]
async fn a_deletion_may_come_before_what_it_deletes() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let first = acme.issue(&alice(), THEN, "first");
    let second = acme.issue(&alice(), THEN, "second");
    assert!(client.publishes(&first).await.accepted());
    assert!(client.publishes(&deletion(&alice(), THEN + 1, &[&second])).await.accepted());
    let answer = client.publishes(&second).await;
    assert!(answer.refused("invalid: this event is deleted"), "{answer:?}");
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, [first.id]);
}

#[tokio::test]
async fn a_strangers_deletion_waits_until_its_author_is_known() {
    let (mut server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let doomed = acme.issue(&alice(), THEN, "doomed");
    let request = deletion(&alice(), THEN + 1, &[&doomed]);
    let kept = client.publishes(&request).await;
    assert!(kept.ok && kept.text.starts_with("purgatory:"), "{kept:?}");
    assert_eq!(client.asks(&[json!({"kinds": [5]})]).await, [], "kept aside is not served");

    assert!(server.stop().await);
    server.restart().await;
    let mut client = Client::connect(&server.url()).await;
    assert!(client.publishes(&acme.issue(&alice(), THEN, "hello")).await.accepted());
    assert_eq!(client.asks(&[json!({"kinds": [5]})]).await, [request.id], "now it counts");
    let answer = client.publishes(&doomed).await;
    assert!(answer.refused("invalid: this event is deleted"), "{answer:?}");
}

#[tokio::test]
async fn a_strangers_deletion_also_takes_the_very_event_that_makes_them_known() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let doomed = acme.issue(&alice(), THEN, "doomed");
    assert!(client.publishes(&deletion(&alice(), THEN + 1, &[&doomed])).await.ok);
    let mut reader = Client::connect(&server.url()).await;
    reader.subscribes("live", &[json!({"limit": 0})]).await;
    let answer = client.publishes(&doomed).await;
    assert!(answer.refused("invalid: this event is deleted"), "{answer:?}");
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, []);
    assert_eq!(reader.heard().await[2]["kind"], 5, "only the request is shown to anybody");
    let again = client.publishes(&doomed).await;
    assert!(again.refused("invalid: this event is deleted"), "{again:?}");
}

#[tokio::test]
async fn a_deletion_of_a_deletion_changes_nothing() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let doomed = acme.issue(&alice(), THEN, "doomed");
    assert!(client.publishes(&doomed).await.accepted());
    let request = deletion(&alice(), THEN + 1, &[&doomed]);
    assert!(client.publishes(&request).await.accepted());
    assert!(client.publishes(&deletion(&alice(), THEN + 2, &[&request])).await.ok);
    assert_eq!(client.asks(&[json!({"ids": [request.id.to_hex()]})]).await, [request.id]);
    let back = client.publishes(&doomed).await;
    assert!(back.refused("invalid: this event is deleted"), "{back:?}");
}

#[tokio::test]
async fn a_held_event_can_be_taken_back_as_well() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let fresh = Repository::new(alice(), "fresh");
    let announcement = fresh.announcement_listing(&server.address, THEN);
    assert!(client.publishes(&announcement).await.ok);
    let request = deletion(&alice(), THEN + 1, &[&announcement]);
    assert!(client.publishes(&request).await.accepted());
    let back = client.publishes(&announcement).await;
    assert!(back.refused("invalid: this event is deleted"), "{back:?}");
}

#[tokio::test]
async fn who_vanishes_leaves_nothing_behind_and_does_not_come_back() {
    let (mut server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let past: Vec<_> = (0..20).map(|n| acme.issue(&alice(), THEN + n, "past")).collect();
    for issue in &past {
        assert!(client.publishes(issue).await.accepted());
    }
    let wrap = Draft::new(Kind::GIFT_WRAP, THEN).tag(&["p", &alice().key.to_hex()]);
    let wrap = bob().signs(wrap.tag(&["a", &acme.coordinate()]));
    let unrelated = acme.issue(&bob(), THEN, "stays");
    assert!(client.publishes(&wrap).await.accepted());
    assert!(client.publishes(&unrelated).await.accepted());

    let request = vanishes(&alice(), THEN + 100, &server.url());
    assert!(client.publishes(&request).await.accepted());
    let by_alice = [json!({"authors": [alice().key.to_hex()]})];
    assert_eq!(client.asks(&by_alice).await, [request.id]);
    assert_eq!(client.asks(&[json!({"kinds": [1059]})]).await, [], "gifts to her go, too");
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, [unrelated.id]);
    let back = client.publishes(&past[0]).await;
    assert!(back.refused("blocked: this pubkey has requested to vanish"), "{back:?}");
    let other = client.publishes(&acme.issue(&alice(), THEN + 100, "just before")).await;
    assert!(other.refused("blocked:"), "{other:?}");
    assert!(client.publishes(&deletion(&alice(), THEN + 101, &[&request])).await.ok);
    assert_eq!(client.asks(&[json!({"kinds": [62]})]).await, [request.id], "it cannot be undone");

    assert!(server.stop().await);
    server.restart().await;
    let mut client = Client::connect(&server.url()).await;
    assert!(client.publishes(&past[1]).await.refused("blocked:"));
    let later = acme.issue(&alice(), THEN + 102, "a new beginning");
    assert!(client.publishes(&later).await.accepted());
}

#[tokio::test]
async fn a_request_to_vanish_from_other_relays_is_not_for_us() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let issue = acme.issue(&alice(), THEN, "stays");
    assert!(client.publishes(&issue).await.accepted());
    let elsewhere = vanishes(&alice(), THEN + 1, "wss://elsewhere.example");
    assert!(client.publishes(&elsewhere).await.refused("invalid:"));
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, [issue.id]);
    assert!(client.publishes(&vanishes(&alice(), THEN + 1, "ALL_RELAYS")).await.accepted());
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, []);
}

#[tokio::test]
async fn a_disrespectful_server_keeps_requests_and_what_they_name() {
    let (server, acme) = serving(&[("NGIT_DELETION_REQUEST_DISRESPECTOR", "true")]).await;
    let mut client = Client::connect(&server.url()).await;
    let issue = acme.issue(&alice(), THEN, "stays");
    assert!(client.publishes(&issue).await.accepted());
    assert!(client.publishes(&deletion(&alice(), THEN + 1, &[&issue])).await.accepted());
    assert!(client.publishes(&vanishes(&alice(), THEN + 2, "ALL_RELAYS")).await.accepted());
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, [issue.id]);
}

fn vanishes(who: &Author, at: u64, relay: &str) -> VerifiedEvent {
    who.signs(Draft::new(Kind::VANISH, at).tag(&["relay", relay]))
}
