//! What is taken, held and refused, and in which words. The tables are tested with the rules; here
//! a few rows of each travel over the wire.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::{THEN, acme, alice, bob, deletion, grasp_list, home, server, serving};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Client, Draft, Repository, Server};
use serde_json::json;

const PURGATORY: &str = "purgatory: won't be served until git data arrives";
const TIP: &str = "1234567890123456789012345678901234567890";

#[tokio::test]
async fn a_fresh_announcement_is_held_unseen_and_survives_a_restart() {
    let mut server = server(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let mut reader = Client::connect(&server.url()).await;
    reader.subscribes("live", &[json!({})]).await;
    let announcement = acme().announcement_listing(&server.address, THEN);
    let answer = client.publishes(&announcement).await;
    assert!(answer.ok);
    assert!(answer.text.starts_with(PURGATORY));
    let again = client.publishes(&announcement).await;
    assert!(again.ok);
    assert_eq!(again.text, "duplicate: in purgatory");
    assert_unseen(&mut client, &announcement).await;
    // Something that is served comes to the live reader first, so the held one never did.
    let list = grasp_list(&alice(), THEN);
    assert!(client.publishes(&list).await.accepted());
    assert_eq!(reader.heard().await[2]["id"], list.id.to_hex());

    server.kill().await;
    server.restart().await;
    let mut client = Client::connect(&server.url()).await;
    let again = client.publishes(&announcement).await;
    assert_eq!(again.text, "duplicate: in purgatory");
    assert_unseen(&mut client, &announcement).await;
}

#[tokio::test]
async fn an_announcement_that_does_not_list_us_is_told_what_is_missing() {
    let server = server(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let owner = Author::number(7);
    let clone = format!("http://{}/{}/x.git", server.address, owner.key.to_npub());
    let relay = server.url();
    for (tags, missing) in [
        (vec![], "both are missing"),
        (vec![["clone", clone.as_str()]], "relays is missing"),
        (vec![["relays", relay.as_str()]], "clone is missing"),
        (vec![["clone", "http://elsewhere.example/x.git"], ["relays", &relay]], "clone is missing"),
    ] {
        let draft = Draft::new(Kind::ANNOUNCEMENT, THEN).tag(&["d", "x"]);
        let event = owner.signs(tags.iter().fold(draft, |draft, tag| draft.tag(tag)));
        let answer = client.publishes(&event).await;
        assert!(answer.refused("invalid: announcement must list"), "{answer:?}");
        assert!(
            answer.text.contains(&server.address) && answer.text.contains(missing),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_state_needs_an_announcement_and_an_author_with_a_say() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let state = |by: &Author, identifier: &str| {
        let draft = Draft::new(Kind::STATE, THEN).tag(&["d", identifier]);
        by.signs(draft.tag(&["refs/heads/main", TIP]).tag(&["HEAD", "ref: refs/heads/main"]))
    };
    let orphan = client.publishes(&state(&acme.owner, "unheard-of")).await;
    assert!(orphan.refused("invalid: no announcement exists"), "{orphan:?}");
    let stranger = client.publishes(&state(&bob(), "acme")).await;
    assert!(stranger.refused("restricted: author not authorized"), "{stranger:?}");
    let rightful = state(&acme.owner, "acme");
    let answer = client.publishes(&rightful).await;
    assert!(answer.ok);
    assert!(answer.text.starts_with(PURGATORY), "its objects are not here");
    assert_unseen(&mut client, &rightful).await;
}

#[tokio::test]
async fn an_issue_is_taken_where_its_repository_is_served_and_held_where_that_is_held() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let taken = acme.issue(&alice(), THEN, "on a served repository");
    assert!(client.publishes(&taken).await.accepted());
    let fresh = Repository::new(bob(), "fresh");
    assert!(client.publishes(&fresh.announcement_listing(&server.address, THEN)).await.ok);
    let waiting = fresh.issue(&alice(), THEN, "on a held repository");
    let answer = client.publishes(&waiting).await;
    assert!(answer.ok && answer.text.starts_with("purgatory:"), "{answer:?}");
    assert_unseen(&mut client, &waiting).await;
    // What hangs on something held is held with it.
    let reply = reply_to(&waiting);
    let answer = client.publishes(&reply).await;
    assert!(answer.ok && answer.text.starts_with("purgatory:"), "{answer:?}");
    assert_unseen(&mut client, &reply).await;
}

#[tokio::test]
async fn threads_grow_from_what_is_served_and_not_from_nothing() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let issue = acme.issue(&alice(), THEN, "root");
    let reply = reply_to(&issue);
    let orphan = client.publishes(&reply).await;
    assert!(orphan.refused("restricted: event must reference an accepted"), "{orphan:?}");
    assert!(client.publishes(&issue).await.accepted());
    assert!(client.publishes(&reply).await.accepted(), "a refusal is not held against it");
    let further = client.publishes(&reply_to(&reply)).await;
    assert!(further.accepted(), "{further:?}");
    let unrelated = Draft::new(Kind(1), THEN).tag(&["p", &acme.owner.key.to_hex()]);
    let unrelated = client.publishes(&bob().signs(unrelated)).await;
    assert!(unrelated.refused("restricted:"), "a person is no repository: {unrelated:?}");
}

#[tokio::test]
async fn what_is_spoken_of_here_is_welcome_when_it_comes() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let note = bob().signs(Draft::new(Kind(1), THEN).content("elsewhere"));
    assert!(client.publishes(&note).await.refused("restricted:"));
    let quoting = acme.issue_draft(THEN + 1, "see there").tag(&["q", &note.id.to_hex()]);
    assert!(client.publishes(&alice().signs(quoting)).await.accepted());
    assert!(client.publishes(&note).await.accepted());
    assert_eq!(client.asks(&[json!({"kinds": [1]})]).await, [note.id]);
}

#[tokio::test]
async fn an_identifier_may_contain_colons_and_is_compared_whole() {
    let odd = Repository::new(alice(), "a:b:c");
    let home = home(&[]);
    home.imports(&[odd.announcement(THEN)]).await;
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    assert!(client.publishes(&odd.issue(&bob(), THEN, "here")).await.accepted());
    for other in ["a", "a:b", "a:b:", "a:b:c:", "A:B:C", "b:c"] {
        let issue = Repository::new(alice(), other).issue(&bob(), THEN, "elsewhere");
        assert!(client.publishes(&issue).await.refused("restricted:"), "{other}");
    }
}

#[tokio::test]
async fn a_pull_request_waits_for_its_commit() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let draft = Draft::new(Kind::PULL_REQUEST, THEN).tag(&["a", &acme.coordinate()]);
    let vague = client.publishes(&alice().signs(draft.clone())).await;
    assert!(vague.refused("invalid: a pull request needs a `c` tag"), "{vague:?}");
    let proposal = alice().signs(draft.tag(&["c", TIP]));
    let answer = client.publishes(&proposal).await;
    assert!(answer.ok);
    assert!(answer.text.starts_with(PURGATORY));
    assert_unseen(&mut client, &proposal).await;
    let lost = Draft::new(Kind::PULL_REQUEST, THEN).tag(&["a", "30617:00:x"]).tag(&["c", TIP]);
    let lost = client.publishes(&alice().signs(lost)).await;
    assert!(lost.refused("restricted: PR event must reference"), "{lost:?}");
}

#[tokio::test]
async fn profiles_are_kept_for_those_who_take_part() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let profile = |by: &Author| by.signs(Draft::new(Kind(0), THEN).content("{}"));
    assert!(client.publishes(&profile(&alice())).await.refused("restricted: profiles"));
    assert!(client.publishes(&acme.issue(&alice(), THEN, "here I am")).await.accepted());
    assert!(client.publishes(&profile(&alice())).await.accepted());
}

#[tokio::test]
async fn a_served_repository_stays_served_through_a_new_announcement_and_leaves_at_once() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let renewed = acme.announcement_listing(&server.address, THEN + 1);
    assert!(client.publishes(&renewed).await.accepted());
    let served = [json!({"kinds": [30617]})];
    assert_eq!(client.asks(&served).await, [renewed.id]);
    let leaving = acme.announcement(THEN + 2);
    let answer = client.publishes(&leaving).await;
    assert!(answer.text.contains("no longer served here"), "{answer:?}");
    assert_eq!(client.asks(&served).await, []);
    let back = client.publishes(&renewed).await;
    assert!(!back.accepted(), "an older version brings nothing back: {back:?}");
    assert_eq!(client.asks(&served).await, []);
}

#[tokio::test]
async fn lists_of_the_operator_are_obeyed() {
    let (alice_npub, bob_npub) = (alice().key.to_npub(), bob().key.to_npub());
    let whitelist = format!("{alice_npub}/chosen,shared");
    let (server, acme) = serving(&[
        ("NGIT_REPOSITORY_WHITELIST", &whitelist),
        ("NGIT_REPOSITORY_BLACKLIST", "cursed"),
        ("NGIT_EVENT_BLACKLIST", &bob_npub),
    ])
    .await;
    let mut client = Client::connect(&server.url()).await;
    let announces = |identifier: &str| {
        Repository::new(alice(), identifier).announcement_listing(&server.address, THEN)
    };
    for welcome in ["chosen", "shared"] {
        assert!(client.publishes(&announces(welcome)).await.text.starts_with(PURGATORY));
    }
    let other = client.publishes(&announces("other")).await;
    assert!(other.refused("restricted: this server hosts chosen repositories"), "{other:?}");
    assert!(client.publishes(&announces("cursed")).await.refused("blocked:"));
    let banned = client.publishes(&acme.issue(&bob(), THEN, "me again")).await;
    assert!(banned.refused("blocked:") && banned.text.contains(&bob_npub), "{banned:?}");
}

#[tokio::test]
async fn a_stored_repository_that_is_blacklisted_later_is_no_longer_served() {
    let (cursed, spared) = (acme(), Repository::new(alice(), "spared"));
    let mut home = home(&[]);
    home.imports(&[cursed.announcement(THEN), spared.announcement(THEN)]).await;
    home.set("NGIT_REPOSITORY_BLACKLIST", "acme");
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    let served = client.asks(&[json!({"kinds": [30617]})]).await;
    assert_eq!(served, [spared.announcement(THEN).id]);
    assert!(client.publishes(&cursed.issue(&bob(), THEN, "?")).await.refused("restricted:"));
    assert!(client.publishes(&spared.issue(&bob(), THEN, "!")).await.accepted());
    assert!(!client.publishes(&cursed.announcement(THEN)).await.ok);
}

#[tokio::test]
async fn a_full_waiting_room_refuses_newcomers_and_keeps_who_was_let_in() {
    // A quarter of it is for announcements that clients send.
    let server = server(&[("NGIT_RELAY_MAX_HELD_EVENTS", "12")]).await;
    let mut client = Client::connect(&server.url()).await;
    let announces = |n: u64| {
        let repository = Repository::new(Author::number(50 + n), "waiting");
        repository.announcement_listing(&server.address, THEN)
    };
    for n in 0..3 {
        assert!(client.publishes(&announces(n)).await.text.starts_with(PURGATORY));
    }
    let fourth = client.publishes(&announces(3)).await;
    assert!(fourth.refused("rate-limited:"), "{fourth:?}");
    assert_eq!(client.publishes(&announces(0)).await.text, "duplicate: in purgatory");
    let leaves = Author::number(50);
    assert!(client.publishes(&deletion(&leaves, THEN + 1, &[&announces(0)])).await.ok);
    assert!(client.publishes(&announces(3)).await.text.starts_with(PURGATORY));
}

#[tokio::test]
async fn under_a_base_path_only_that_path_means_us() {
    let server: Server = server(&[("NGIT_BASE_PATH", "/grasp")]).await;
    assert!(server.address.ends_with("/grasp"), "{}", server.address);
    let mut client = Client::connect(&server.url()).await;
    let here = acme().announcement_listing(&server.address, THEN);
    assert!(client.publishes(&here).await.text.starts_with(PURGATORY));
    let root = server.address.trim_end_matches("/grasp");
    let beside = Repository::new(bob(), "acme").announcement_listing(root, THEN);
    assert!(client.publishes(&beside).await.refused("invalid: announcement must list"));
}

fn reply_to(event: &VerifiedEvent) -> VerifiedEvent {
    bob().signs(Draft::new(Kind(1111), THEN + 1).tag(&["e", &event.id.to_hex()]))
}

/// Neither asked for nor counted.
async fn assert_unseen(client: &mut Client, event: &VerifiedEvent) {
    let filters = [
        json!({"ids": [event.id.to_hex()]}),
        json!({"kinds": [event.kind], "authors": [event.pubkey.to_hex()]}),
        json!({}),
    ];
    for filter in filters {
        let found = client.asks(std::slice::from_ref(&filter)).await;
        assert!(!found.contains(&event.id), "{filter}");
        assert_eq!(client.counts(&[filter]).await, found.len() as u64);
    }
}
