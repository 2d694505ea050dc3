//! A server among relays that are narrow, broken or hostile: it gets what is true from those that
//! have it, is polite to the rest, and waits for nobody.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::mirrors::{Follower, Mirrors, holds, metric, metrics};
use common::{THEN, acme, alice, bob};
use grasp_core::{Event, VerifiedEvent};
use grasp_testkit::behaviour::{Answers, Behaviour, Door, Refuses};
use grasp_testkit::chaos::{BlackHole, ChaosRelay};
use grasp_testkit::{http, now, until};
use serde_json::Value;
use std::time::Duration;

const HOLES: usize = 20;

async fn relay(answers: Answers) -> ChaosRelay {
    ChaosRelay::start(Behaviour { answers, ..Behaviour::common() }).await
}

#[tokio::test]
async fn s19_a_strict_relay_without_nip77_delivers_history_beyond_one_page() {
    let strict = ChaosRelay::strict(50).await;
    let issues: Vec<VerifiedEvent> =
        (0..300).map(|n| acme().issue(&alice(), THEN + n / 3, &n.to_string())).collect();
    issues.iter().for_each(|issue| strict.publishes(issue));
    let follower = Follower::of(&[strict.url()]).await;
    follower.has(&issues.iter().collect::<Vec<_>>()).await;
    let fresh = acme().issue(&alice(), now(), "live");
    strict.publishes(&fresh);
    follower.has(&[&fresh]).await;
    let seen = strict.seen();
    assert_eq!(seen.violations, [] as [&str; 0]);
    assert_eq!((seen.connections, seen.refusals), (1, 0));
    assert!(seen.negentropy_opens <= 1, "once is enough to learn that it does not speak it");
}

#[tokio::test]
async fn s52_a_quick_reconnect_brings_what_was_missed_and_nothing_that_is_here() {
    let peer = ChaosRelay::start(Behaviour::honest()).await;
    let issues: Vec<VerifiedEvent> =
        (0..200).map(|n| acme().issue(&alice(), now() - n, &n.to_string())).collect();
    issues.iter().for_each(|issue| peer.publishes(issue));
    let follower = Follower::of(&[peer.url()]).await;
    follower.has(&issues.iter().collect::<Vec<_>>()).await;
    peer.becomes(Behaviour { door: Door::Refuses, ..Behaviour::honest() });
    peer.drops_everyone();
    let missed = acme().issue(&alice(), now(), "published while the link was down");
    peer.publishes(&missed);
    let before = peer.seen().events_sent;
    peer.becomes(Behaviour::honest());
    follower.has(&[&missed]).await;
    let resent = peer.seen().events_sent - before;
    assert!(resent < 20, "{resent} events came for one that was missed");
}

#[tokio::test]
async fn s26_bad_relays_do_not_stop_an_honest_one_and_no_forgery_is_stored() {
    let (honest, forging) = (relay(Answers::Honest).await, relay(Answers::Forged).await);
    let others = [
        relay(Answers::NeverEose).await,
        relay(Answers::Endless).await,
        relay(Answers::Wrong).await,
    ];
    let truth: Vec<VerifiedEvent> =
        (0..4).map(|n| acme().issue(&alice(), THEN + n, &format!("truth {n}"))).collect();
    truth.iter().for_each(|event| forging.publishes(event));
    let unended = acme().issue(&bob(), THEN, "told without an end");
    others[0].publishes(&unended);
    let mut urls: Vec<&str> = others.iter().map(ChaosRelay::url).collect();
    urls.extend([forging.url(), honest.url()]);
    let follower = Follower::of(&urls).await;
    until("all copies were offered", || async { forging.seen().events_sent >= 4 }).await;
    until("the flood came", || async { others[1].seen().events_sent > 100 }).await;
    assert!(!holds(&follower.server, &[truth[0].id]).await, "a forged copy is not the event");

    truth.iter().for_each(|event| honest.publishes(event));
    follower.has(&truth.iter().chain([&unended]).collect::<Vec<_>>()).await;
    for event in &truth {
        let told = follower.tells(&event.id).await.to_string();
        let told = Event::from_json(told.as_bytes()).unwrap().verify().unwrap();
        assert_eq!(told.json(), event.json());
    }
    let mut listener = follower.listener().await;
    let fresh = acme().issue(&bob(), now(), "in the middle of it");
    honest.publishes(&fresh);
    listener.hears(&fresh.id).await;
}

#[tokio::test]
async fn s23_auth_required_is_answered_once_with_the_relays_own_key() {
    let refuses = Refuses::WithoutAuth { never: false };
    let closed = ChaosRelay::start(Behaviour { refuses, ..Behaviour::common() }).await;
    let issue = acme().issue(&alice(), THEN, "for members");
    closed.publishes(&issue);
    let never = Refuses::WithoutAuth { never: true };
    let never = ChaosRelay::start(Behaviour { refuses: never, ..Behaviour::common() }).await;
    let follower = Follower::of(&[closed.url(), never.url()]).await;
    follower.has(&[&issue]).await;
    let accept = [("Accept", "application/nostr+json")];
    let page = http("GET", &follower.server.address, &accept).await;
    let page: Value = serde_json::from_str(&page.body).unwrap();
    until("it tried here, too", || async { !never.seen().signed_in.is_empty() }).await;
    for relay in [&closed, &never] {
        let seen = relay.seen();
        let keys: Vec<String> = seen.signed_in.iter().map(|key| key.to_hex()).collect();
        assert_eq!(keys, [page["pubkey"].as_str().unwrap()]);
        assert_eq!(seen.bad_auths, [] as [&str; 0]);
    }
    // What one connection proved holds for its live subscriptions.
    let fresh = acme().issue(&alice(), now(), "live, for members");
    closed.publishes(&fresh);
    follower.has(&[&fresh]).await;
    assert_eq!(closed.seen().connections, 1);
}

#[tokio::test]
async fn s1_this_very_server_under_another_name_is_recognised() {
    let honest = relay(Answers::Honest).await;
    let mirrors = Mirrors::vacant(1, |servers| {
        let port = servers[0].address.rsplit(':').next().unwrap();
        vec![format!("ws://localhost:{port}"), honest.url().to_owned()]
    })
    .await;
    mirrors.joins(0).await;
    let server = &mirrors.servers[0];
    let (attempts, alias) = ("ngit_sync_connection_attempts_total", "relay=\"ws://localhost:");
    until("it dialled itself", || async { metrics(server, attempts, alias).await >= 1 }).await;
    let issue = mirrors.acme.issue(&alice(), now(), "from a real relay");
    honest.publishes(&issue);
    mirrors.one_holds(0, &[issue]).await;
    // These stories ask by COUNT: a REQ could only have come from the server itself.
    assert_eq!(metric(server, "ngit_websocket_messages_received_total{type=\"REQ\"}").await, 0);
    assert_eq!(metrics(server, "ngit_sync_relay_connected", alias).await, 0);
}

#[tokio::test]
async fn s24_silent_limiting_and_black_hole_relays_hold_up_nobody() {
    let (alone, _) = first_event(&[]).await;

    let silent = relay(Answers::Silent).await;
    let refuses = Refuses::RateByNotice { per_minute: 1 };
    let limiting = ChaosRelay::start(Behaviour { refuses, ..Behaviour::common() }).await;
    let deaf = Behaviour { door: Door::BlackHole, ..Behaviour::common() };
    let (mut full, mut mute) = (Vec::new(), Vec::new());
    for _ in 0..HOLES / 2 {
        full.push(BlackHole::open().await);
        mute.push(ChaosRelay::start(deaf.clone()).await);
    }
    let mut crowd: Vec<String> = full.iter().map(BlackHole::url).collect();
    crowd.extend(mute.iter().chain([&silent, &limiting]).map(|relay| relay.url().to_owned()));
    let (crowded, (honest, follower)) = first_event(&crowd).await;
    let delay = crowded.saturating_sub(alone);
    assert!(delay < Duration::from_secs(6), "alone {alone:?}, in the crowd {crowded:?}");

    let mut listener = follower.listener().await;
    for n in 0..10 {
        let issue = acme().issue(&bob(), now(), &format!("live {n}"));
        honest.publishes(&issue);
        let took = listener.hears(&issue.id).await;
        assert!(took < Duration::from_secs(1), "event {n} took {took:?}");
    }
}

/// From the start of a server until it serves what an honest relay, named last, always had.
async fn first_event(crowd: &[String]) -> (Duration, (ChaosRelay, Follower)) {
    let honest = relay(Answers::Honest).await;
    let issue = acme().issue(&alice(), THEN, "always there");
    honest.publishes(&issue);
    let mut urls: Vec<&str> = crowd.iter().map(String::as_str).collect();
    urls.push(honest.url());
    let follower = Follower::of(&urls).await;
    follower.has(&[&issue]).await;
    (follower.started.elapsed(), (honest, follower))
}
