//! NIP-77 as a client meets it: finding the difference, and where it is refused.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::{THEN, acme, alice, bob, home, serving};
use futures_util::SinkExt;
use grasp_core::id::hex_encode;
use grasp_core::{EventId, VerifiedEvent};
use grasp_relay::neg::{Difference, IdSet, Initiator, Step};
use grasp_testkit::{Client, Random, Repository};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn two_sides_find_out_exactly_what_the_other_lacks() {
    let mut random = Random::seeded(77);
    let events: Vec<_> =
        (0..3_000).map(|n| acme().issue(&alice(), THEN + n / 5, &n.to_string())).collect();
    let (mut theirs, mut ours) = (vec![acme().announcement(THEN)], vec![]);
    let mut difference = Difference::default();
    for event in events {
        match random.below(20) {
            0 => {
                difference.need.push(event.id);
                theirs.push(event);
            }
            1 => {
                difference.have.push(event.id);
                ours.push(event);
            }
            _ => {
                theirs.push(event.clone());
                ours.push(event);
            }
        }
    }
    difference.have.sort_unstable();
    difference.need.sort_unstable();
    let home = home(&[("NGIT_RELAY_MAX_NEG_FRAME_BYTES", "4096")]);
    home.imports(&theirs).await;
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    let filter = json!({"kinds": [1621]});
    let (found, rounds) = reconciles(&mut client, "n", &filter, &ours).await;
    assert_eq!(found, difference);
    assert!(rounds > 2, "small frames make it a conversation: {rounds}");
    // The same name again: a new reconciliation, over what the filter lets through.
    let window = json!({"kinds": [1621], "since": THEN + 100, "until": THEN + 199});
    let inside = |event: &&VerifiedEvent| (THEN + 100..THEN + 200).contains(&event.created_at.0);
    let (found, _) = reconciles(&mut client, "n", &window, ours.iter().filter(inside)).await;
    let ids: Vec<EventId> =
        theirs.iter().chain(&ours).filter(inside).map(|event| event.id).collect();
    let within = |all: &[EventId]| -> Vec<EventId> {
        all.iter().copied().filter(|id| ids.contains(id)).collect()
    };
    assert_eq!(found.need, within(&difference.need));
    assert_eq!(found.have, within(&difference.have));
}

#[tokio::test]
async fn a_reconciliation_sees_what_was_acknowledged_before_it() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let mut published = Vec::new();
    for n in 0..100 {
        let issue = acme.issue(&alice(), THEN + n, "new");
        assert!(client.publishes(&issue).await.accepted());
        let (found, _) = reconciles(&mut client, "n", &json!({"kinds": [1621]}), &published).await;
        assert_eq!(found.need, [issue.id]);
        assert_eq!(found.have, []);
        published.push(issue);
    }
}

#[tokio::test]
async fn a_closed_reconciliation_is_over_and_makes_room() {
    let (server, _) = serving(&[("NGIT_RELAY_MAX_NEG_SESSIONS", "2")]).await;
    let mut client = Client::connect(&server.url()).await;
    for name in ["one", "two"] {
        assert_eq!(opens(&mut client, name).await[0], "NEG-MSG");
    }
    let refused = opens(&mut client, "three").await;
    assert_eq!((&refused[0], &refused[1]), (&json!("NEG-ERR"), &json!("three")));
    assert!(says(&refused, "blocked: 2 reconciliations are open"), "{refused}");
    assert_eq!(opens(&mut client, "one").await[0], "NEG-MSG", "its own name may start again");

    client.say(&json!(["NEG-CLOSE", "one"])).await;
    client.say(&json!(["NEG-CLOSE", "never-opened"])).await;
    client.say(&json!(["NEG-MSG", "one", "61"])).await;
    let over = client.heard().await;
    assert_eq!((&over[0], &over[1]), (&json!("NEG-ERR"), &json!("one")));
    assert!(says(&over, "closed:"), "{over}");
    assert_eq!(opens(&mut client, "three").await[0], "NEG-MSG");
}

#[tokio::test]
async fn too_many_events_for_one_reconciliation_are_refused_with_advice() {
    let home = home(&[("NGIT_RELAY_MAX_NEG_ITEMS", "100")]);
    let mut events = vec![acme().announcement(THEN)];
    events.extend((0..101).map(|n| acme().issue(&alice(), THEN + n, "one of many")));
    home.imports(&events).await;
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    client.say(&opening("n", &json!({"kinds": [1621]}))).await;
    let refused = client.heard().await;
    assert_eq!(refused[0], "NEG-ERR");
    assert!(says(&refused, "blocked: more than 100 events match"), "{refused}");
    client.say(&opening("n", &json!({"kinds": [1621], "until": THEN + 99}))).await;
    assert_eq!(client.heard().await[0], "NEG-MSG", "a narrower filter fits");
}

/// Everything, under a filter that no other number has.
fn all_of(number: usize) -> Value {
    json!({"kinds": [1621], "since": number})
}

#[tokio::test]
async fn all_reconciliations_together_have_a_limit_and_the_idlest_one_ends_for_the_next() {
    let home =
        home(&[("NGIT_RELAY_MAX_NEG_ITEMS", "100"), ("NGIT_RELAY_MAX_NEG_TOTAL_ITEMS", "250")]);
    let mut events = vec![acme().announcement(THEN)];
    events.extend((0..100).map(|n| acme().issue(&alice(), THEN + n, "one of many")));
    home.imports(&events).await;
    let server = home.serve().await;
    let mut greedy = Client::connect(&server.url()).await;
    for (number, name) in ["one", "two"].into_iter().enumerate() {
        greedy.say(&opening(name, &all_of(number))).await;
        assert_eq!(greedy.heard().await[0], "NEG-MSG");
    }
    let mut other = Client::connect(&server.url()).await;
    other.say(&opening("shared", &all_of(1))).await;
    assert_eq!(other.heard().await[0], "NEG-MSG", "the same set, which takes no more room");
    other.say(&opening("n", &all_of(2))).await;
    assert_eq!(other.heard().await[0], "NEG-MSG");
    greedy.say(&json!(["NEG-MSG", "one", "61"])).await;
    let ended = greedy.heard().await;
    assert_eq!((&ended[0], &ended[1]), (&json!("NEG-ERR"), &json!("one")), "{ended}");
    assert!(says(&ended, "closed: others needed the room"), "{ended}");
    greedy.say(&json!(["NEG-CLOSE", "two"])).await;
    greedy.fence().await;
}

#[tokio::test]
async fn two_hundred_reconciliations_of_one_address_leave_room_for_another_address() {
    let home = home(&[
        ("NGIT_RELAY_MAX_NEG_ITEMS", "1000"),
        ("NGIT_RELAY_MAX_NEG_TOTAL_ITEMS", "4000"),
        ("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8"),
    ]);
    let mut events = vec![acme().announcement(THEN)];
    events.extend((0..300).map(|n| acme().issue(&alice(), THEN + n, "one of many")));
    home.imports(&events).await;
    let server = home.serve().await;
    let (mut greedy, mut opened) = (Vec::new(), 0);
    for connection in 0..20 {
        let from = [("X-Forwarded-For", "203.0.113.1")];
        let mut client = Client::connect_with(&server.url(), &from).await;
        for number in 0..10 {
            client.say(&opening(&format!("n{number}"), &all_of(10 * connection + number))).await;
            let answer = client.heard().await;
            opened += usize::from(answer[0] == "NEG-MSG");
            let refused = "blocked: the reconciliations of your address keep 1000 events";
            assert!(answer[0] == "NEG-MSG" || says(&answer, refused), "{answer}");
        }
        greedy.push(client);
    }
    assert_eq!(opened, 3, "a quarter of the room");
    let from = [("X-Forwarded-For", "203.0.113.2")];
    let mut other = Client::connect_with(&server.url(), &from).await;
    let (found, _) = reconciles(&mut other, "n", &json!({"kinds": [1621]}), &[]).await;
    assert_eq!(found.need.len(), 300);
}

#[tokio::test]
async fn a_client_that_makes_no_headway_is_stopped() {
    let (server, _) = serving(&[("NGIT_RELAY_MAX_NEG_ROUNDS", "5")]).await;
    let mut client = Client::connect(&server.url()).await;
    let opening = opening("n", &json!({}));
    client.say(&opening).await;
    let mut answers = vec![client.heard().await];
    while answers.last().unwrap()[0] == "NEG-MSG" {
        assert!(answers.len() < 10, "for ever");
        client.say(&json!(["NEG-MSG", "n", opening[3]])).await;
        answers.push(client.heard().await);
    }
    assert_eq!(answers.len(), 6);
    let end = answers.last().unwrap();
    assert!(says(end, "blocked: 5 rounds without headway"), "{end}");
}

#[tokio::test]
async fn what_is_not_negentropy_is_told_so_and_the_connection_lives() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    for message in ["", "61ff", "60", "ff00ff", "616161616161"] {
        client.say(&json!(["NEG-OPEN", "n", {}, message])).await;
        let answer = client.heard().await;
        assert!(answer[0] == "NEG-ERR" || answer[0] == "NEG-MSG", "{message}: {answer}");
        client.say(&json!(["NEG-CLOSE", "n"])).await;
    }
    for odd in [
        json!(["NEG-OPEN", "n", {}, "6"]),
        json!(["NEG-OPEN", "n", {}, "zz"]),
        json!(["NEG-OPEN", "n", {"kind": 1}, "61"]),
        json!(["NEG-OPEN", "n", {}]),
        json!(["NEG-MSG", "n"]),
    ] {
        client.say(&odd).await;
        let answer = client.heard().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("NEG-ERR"), &json!("n")), "{odd}");
    }
    assert_eq!(opens(&mut client, "n").await[0], "NEG-MSG");
}

#[tokio::test]
async fn a_reconciliation_and_a_subscription_may_share_a_name() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    for _ in 0..10 {
        let filter = json!({"kinds": [1621]});
        for question in [json!(["REQ", "x", filter]), opening("x", &filter)] {
            client.socket.feed(Message::text(question.to_string())).await.unwrap();
        }
        client.socket.flush().await.unwrap();
        let mut verbs = [client.heard().await[0].clone(), client.heard().await[0].clone()];
        verbs.sort_by_key(Value::to_string);
        assert_eq!(verbs, ["EOSE", "NEG-MSG"]);
        client.say(&json!(["NEG-CLOSE", "x"])).await;
    }
    let issue = acme.issue(&bob(), THEN, "still subscribed");
    let mut writer = Client::connect(&server.url()).await;
    assert!(writer.publishes(&issue).await.accepted());
    assert_eq!(client.heard().await[0], "EVENT");
}

#[tokio::test]
async fn what_is_held_is_in_no_reconciliation() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let fresh = Repository::new(alice(), "fresh");
    let held = fresh.announcement_listing(&server.address, THEN);
    assert!(client.publishes(&held).await.text.starts_with("purgatory:"));
    let none: [VerifiedEvent; 0] = [];
    let (found, _) = reconciles(&mut client, "n", &json!({}), &none).await;
    assert_eq!(found.need, [acme.announcement(THEN).id]);
}

/// The whole conversation, with what we have on our side; also how many messages it took.
async fn reconciles<'a>(
    client: &mut Client,
    name: &str,
    filter: &Value,
    ours: impl IntoIterator<Item = &'a VerifiedEvent>,
) -> (Difference, usize) {
    let items = ours.into_iter().map(|event| (event.created_at, event.id));
    let set = IdSet::collect(items, usize::MAX - 1).unwrap();
    let mut initiator = Initiator::new(set, 4096).unwrap();
    let first = hex_encode(&initiator.initiate().unwrap());
    client.say(&json!(["NEG-OPEN", name, filter, first])).await;
    let mut rounds = 1;
    loop {
        let message = client.heard().await;
        assert_eq!((&message[0], &message[1]), (&json!("NEG-MSG"), &json!(name)), "{message}");
        match initiator.handle_answer(&bytes(message[2].as_str().unwrap())).unwrap() {
            Step::Send(next) => {
                client.say(&json!(["NEG-MSG", name, hex_encode(&next)])).await;
                rounds += 1;
            }
            Step::Done(difference) => {
                client.say(&json!(["NEG-CLOSE", name])).await;
                return (difference, rounds);
            }
        }
    }
}

/// What somebody with nothing says first.
fn opening(name: &str, filter: &Value) -> Value {
    let mut initiator = Initiator::new(IdSet::default(), 4096).unwrap();
    json!(["NEG-OPEN", name, filter, hex_encode(&initiator.initiate().unwrap())])
}

async fn opens(client: &mut Client, name: &str) -> Value {
    client.say(&opening(name, &json!({}))).await;
    client.heard().await
}

fn says(message: &Value, text: &str) -> bool {
    message[2].as_str().is_some_and(|why| why.starts_with(text))
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
