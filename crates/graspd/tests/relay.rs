//! The relay protocol as a client meets it: NIPs 1, 40, 42, 45, 67 and 70 over a real socket.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::{THEN, acme, alice, bob, deletion, home, server, serving};
use futures_util::SinkExt;
use grasp_core::{Event, EventId, Kind, VerifiedEvent};
use grasp_testkit::{Author, Client, Draft, Reply, now, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn every_event_gets_exactly_one_ok_whatever_becomes_of_it() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let mut expected: BTreeMap<EventId, bool> = BTreeMap::new();
    for n in 0..60 {
        let good = acme.issue(&alice(), THEN + n, "good");
        let orphan = alice().signs(Draft::new(Kind::ISSUE, THEN + n).content("about nothing"));
        let mut forged = acme.issue(&alice(), THEN + n, "forged").event().clone();
        forged.sig = good.sig;
        for (event, welcome) in [(good.event(), true), (orphan.event(), false)] {
            client.offers(event).await;
            expected.insert(event.id, welcome);
        }
        // Fewer than end the conversation.
        if n % 6 == 0 {
            client.offers(&forged).await;
            expected.insert(forged.id, false);
        }
    }
    let mut answers = BTreeMap::new();
    while answers.len() < expected.len() {
        let message = client.heard().await;
        assert_eq!(message[0], "OK", "{message}");
        let id: EventId = message[1].as_str().unwrap().parse().unwrap();
        assert_eq!(answers.insert(id, Reply::of(&message).ok), None, "answered twice: {message}");
    }
    assert_eq!(answers, expected);
    assert_eq!(client.fence().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_second_copy_is_told_to_be_a_duplicate_and_changes_nothing() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let issue = acme.issue(&alice(), THEN, "once");
    assert!(client.publishes(&issue).await.accepted());
    let again = client.publishes(&issue).await;
    assert!(again.ok && again.text.starts_with("duplicate:"), "{again:?}");
    // Both copies on their way at the same time.
    let twice = acme.issue(&alice(), THEN, "twice");
    client.offers(&twice).await;
    client.offers(&twice).await;
    let answers = [client.answer_to(&twice.id).await, client.answer_to(&twice.id).await];
    assert!(answers.iter().all(|answer| answer.ok), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.accepted()).count(), 1, "{answers:?}");
    assert_eq!(client.counts(&[json!({"kinds": [1621]})]).await, 2);
}

#[tokio::test]
async fn a_wrong_id_and_a_wrong_signature_are_refused_as_such() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let honest = acme.issue(&alice(), THEN, "honest");
    let wrong_id = Event { content: "changed".into(), ..honest.event().clone() };
    let answer = client.publishes(&wrong_id).await;
    assert!(answer.refused("invalid: the id"), "{answer:?}");
    let other = acme.issue(&alice(), THEN, "other");
    let wrong_signature = Event { sig: other.sig, ..honest.event().clone() };
    let answer = client.publishes(&wrong_signature).await;
    assert!(answer.refused("invalid: the signature"), "{answer:?}");
    assert!(client.publishes(&honest).await.accepted(), "a forgery leaves no trace");
}

#[tokio::test]
async fn what_was_acknowledged_is_found_by_the_very_next_question() {
    let (server, acme) = serving(&[]).await;
    let mut writer = Client::connect(&server.url()).await;
    let mut reader = Client::connect(&server.url()).await;
    for n in 0..300 {
        let issue = acme.issue(&alice(), THEN + n, "just now");
        assert!(writer.publishes(&issue).await.accepted());
        let found = reader.asks(&[json!({"ids": [issue.id.to_hex()]})]).await;
        assert_eq!(found, [issue.id], "after {n} others");
        assert_eq!(reader.counts(&[json!({"kinds": [1621]})]).await, n + 1);
    }
}

#[tokio::test]
async fn stored_events_come_newest_first_and_within_a_second_lowest_id_first() {
    let home = home(&[]);
    let mut events = vec![acme().announcement(THEN)];
    events.extend((0..40).map(|n| acme().issue(&alice(), THEN + n / 8, &n.to_string())));
    home.imports(&events).await;
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    let found = client.asks(&[json!({})]).await;
    assert_eq!(found, in_order(&events));
    let found = client.asks(&[json!({"kinds": [1621], "limit": 7})]).await;
    assert_eq!(found, in_order(&events[1..])[..7]);
}

#[tokio::test]
async fn several_filters_are_one_answer_with_each_event_once() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let by_alice = acme.issue(&alice(), THEN + 1, "a");
    let by_bob = acme.issue(&bob(), THEN + 2, "b");
    let newer_by_bob = acme.issue(&bob(), THEN + 3, "c");
    for issue in [&by_alice, &by_bob, &newer_by_bob] {
        assert!(client.publishes(issue).await.accepted());
    }
    let (alice, bob) = (alice().key.to_hex(), bob().key.to_hex());
    let filters = [
        json!({"authors": [alice]}),
        json!({"authors": [alice], "kinds": [1621]}),
        json!({"authors": [bob], "limit": 1}),
    ];
    assert_eq!(client.asks(&filters).await, [newer_by_bob.id, by_alice.id]);
}

#[tokio::test]
async fn the_end_of_stored_events_says_whether_there_is_more() {
    let home = home(&[("NGIT_RELAY_FILTER_LIMIT", "50")]);
    let mut events = vec![acme().announcement(THEN)];
    events.extend((1..=120).map(|n| acme().issue(&alice(), THEN + n, &n.to_string())));
    home.imports(&events).await;
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    for (filters, hint) in [
        (vec![json!({"kinds": [1621], "limit": 3})], json!(["more"])),
        (vec![json!({"kinds": [30617], "limit": 1})], json!(["finish"])),
        (vec![json!({"kinds": [30617]})], json!(["finish"])),
        (vec![json!({"kinds": [1621]})], json!(["more"])),
        (vec![json!({"kinds": [30617]}), json!({"kinds": [1621], "limit": 5})], json!(["more"])),
        (vec![json!({"kinds": [4242]})], json!(["finish"])),
        (vec![json!({"kinds": [1621], "limit": 0})], Value::Null),
    ] {
        let heard = client.subscribes("s", &filters).await;
        assert_eq!(heard.last().unwrap()[2], hint, "{filters:?}");
    }
    // Page by page, believing the hint.
    let (mut found, mut end) = (Vec::new(), u64::MAX >> 12);
    loop {
        let heard = client.subscribes("p", &[json!({"kinds": [1621], "until": end})]).await;
        found.extend(heard.iter().filter_map(|message| message[2]["id"].as_str().map(hex)));
        if heard.last().unwrap()[2] == json!(["finish"]) {
            break;
        }
        end = heard[heard.len() - 2][2]["created_at"].as_u64().unwrap() - 1;
    }
    assert_eq!(found, in_order(&events[1..]));
}

#[tokio::test]
async fn a_limit_of_zero_waits_for_what_comes() {
    let (server, acme) = serving(&[]).await;
    let mut reader = Client::connect(&server.url()).await;
    let heard = reader.subscribes("live", &[json!({"limit": 0})]).await;
    assert_eq!(heard, [json!(["EOSE", "live"])], "nothing stored, though something is");
    let mut writer = Client::connect(&server.url()).await;
    let issue = acme.issue(&alice(), THEN, "news");
    assert!(writer.publishes(&issue).await.accepted());
    assert_eq!(reader.heard().await, live("live", &issue));
}

#[tokio::test]
async fn a_new_event_reaches_exactly_those_who_asked_for_it() {
    let (server, acme) = serving(&[]).await;
    let mut reader = Client::connect(&server.url()).await;
    let (alice_hex, coordinate) = (alice().key.to_hex(), acme.coordinate());
    reader.subscribes("author", &[json!({"authors": [alice_hex]})]).await;
    reader.subscribes("tag", &[json!({"#a": [coordinate], "kinds": [1621]})]).await;
    reader.subscribes("upper", &[json!({"#A": [coordinate]})]).await;
    reader.subscribes("past", &[json!({"until": THEN})]).await;
    let mut writer = Client::connect(&server.url()).await;
    let by_alice = acme.issue(&alice(), THEN + 1, "a");
    let by_bob = acme.issue(&bob(), THEN + 1, "b");
    for issue in [&by_alice, &by_bob] {
        assert!(writer.publishes(issue).await.accepted());
    }
    let mut heard = vec![reader.heard().await, reader.heard().await, reader.heard().await];
    heard.extend(reader.fence().await);
    let expected = [live("author", &by_alice), live("tag", &by_alice), live("tag", &by_bob)];
    assert_eq!(sorted(heard), sorted(expected.to_vec()));
    assert!(writer.fence().await.is_empty(), "who did not subscribe hears nothing");
}

#[tokio::test]
async fn a_subscription_begun_in_the_middle_of_things_misses_nothing_and_hears_nothing_twice() {
    let (server, acme) = serving(&[]).await;
    let mut writer = Client::connect(&server.url()).await;
    let issues: Vec<_> = (0..400).map(|n| acme.issue(&alice(), THEN + n, "steady")).collect();
    let mut readers = Vec::new();
    for (n, issue) in issues.iter().enumerate() {
        writer.offers(issue).await;
        if n % 20 == 7 {
            let mut reader = Client::connect(&server.url()).await;
            reader.say(&json!(["REQ", "all", {"kinds": [1621]}])).await;
            readers.push(reader);
        }
    }
    for _ in &issues {
        assert_eq!(writer.heard().await[2], true);
    }
    let last = acme.issue(&bob(), THEN, "the last one");
    assert!(writer.publishes(&last).await.accepted());
    for mut reader in readers {
        let mut heard = Vec::new();
        while heard.last() != Some(&last.id) {
            let message = reader.heard().await;
            heard.extend(message[2]["id"].as_str().map(hex));
        }
        heard.pop();
        heard.sort_unstable();
        let mut expected: Vec<EventId> = issues.iter().map(|issue| issue.id).collect();
        expected.sort_unstable();
        assert_eq!(heard, expected);
    }
}

#[tokio::test]
async fn a_closed_subscription_is_silent() {
    let (server, acme) = serving(&[]).await;
    let mut reader = Client::connect(&server.url()).await;
    reader.subscribes("ended", &[json!({"kinds": [1621]})]).await;
    reader.subscribes("stays", &[json!({"kinds": [1621]})]).await;
    reader.say(&json!(["CLOSE", "ended"])).await;
    reader.say(&json!(["CLOSE", "never-opened"])).await;
    assert!(reader.fence().await.is_empty(), "CLOSE has no answer");
    let mut writer = Client::connect(&server.url()).await;
    let issue = acme.issue(&alice(), THEN, "after");
    assert!(writer.publishes(&issue).await.accepted());
    assert_eq!(reader.heard().await, live("stays", &issue));
    assert!(reader.fence().await.is_empty());
}

#[tokio::test]
async fn a_second_req_of_the_same_name_replaces_the_first() {
    let (server, acme) = serving(&[]).await;
    let mut reader = Client::connect(&server.url()).await;
    reader.subscribes("s", &[json!({"authors": [alice().key.to_hex()]})]).await;
    reader.subscribes("s", &[json!({"authors": [bob().key.to_hex()]})]).await;
    let mut writer = Client::connect(&server.url()).await;
    let by_alice = acme.issue(&alice(), THEN, "a");
    let by_bob = acme.issue(&bob(), THEN, "b");
    for issue in [&by_alice, &by_bob] {
        assert!(writer.publishes(issue).await.accepted());
    }
    assert_eq!(reader.heard().await, live("s", &by_bob));
    assert!(reader.fence().await.is_empty());
}

#[tokio::test]
async fn a_count_counts_everything_that_matches_each_event_once() {
    let (server, acme) = serving(&[("NGIT_RELAY_FILTER_LIMIT", "2")]).await;
    let mut client = Client::connect(&server.url()).await;
    for n in 0..5 {
        let issue = acme.issue(&alice(), THEN + n, "counted");
        assert!(client.publishes(&issue).await.accepted());
    }
    assert_eq!(client.counts(&[json!({})]).await, 6);
    assert_eq!(client.counts(&[json!({"kinds": [1621], "limit": 1})]).await, 5);
    assert_eq!(client.counts(&[json!({"kinds": [1621]}), json!({"since": THEN})]).await, 6);
    assert_eq!(client.counts(&[json!({"kinds": []})]).await, 0);
    assert_eq!(client.counts(&[json!({"since": THEN + 3, "until": THEN + 3})]).await, 1);
}

#[tokio::test]
async fn questions_of_the_same_name_do_not_swallow_each_others_answers() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let all = json!({"kinds": [1621]});
    for round in 0..20 {
        // All in one packet, so that each is asked before the one before it is answered.
        for verb in ["REQ", "COUNT", "COUNT"] {
            let question = json!([verb, "x", all]).to_string();
            client.socket.feed(Message::text(question)).await.unwrap();
        }
        client.socket.flush().await.unwrap();
        let mut verbs: Vec<String> = Vec::new();
        for _ in 0..3 {
            verbs.push(client.heard().await[0].as_str().unwrap().to_owned());
        }
        verbs.sort_unstable();
        assert_eq!(verbs, ["COUNT", "COUNT", "EOSE"], "round {round}");
    }
    let issue = acme.issue(&alice(), THEN, "still subscribed");
    let mut writer = Client::connect(&server.url()).await;
    assert!(writer.publishes(&issue).await.accepted());
    assert_eq!(client.heard().await, live("x", &issue));
}

#[tokio::test]
async fn an_event_that_expired_is_refused_and_one_that_expires_vanishes() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let expiring = |text: &str, at: u64| {
        let draft = acme.issue_draft(THEN, text).tag(&["expiration", &at.to_string()]);
        alice().signs(draft)
    };
    let late = client.publishes(&expiring("late", now() - 1)).await;
    assert!(late.refused("invalid: event is expired"), "{late:?}");
    let lasting = expiring("lasting", now() + 3_600);
    let end = now() + 2;
    let fleeting = expiring("fleeting", end);
    assert!(client.publishes(&lasting).await.accepted());
    assert!(client.publishes(&fleeting).await.accepted());
    let seen = client.asks(&[json!({"kinds": [1621]})]).await.len();
    assert!(seen == 2 || now() >= end, "it is served until it expires");
    until("the end of the fleeting one", || async { now() >= end }).await;
    assert_eq!(client.asks(&[json!({"kinds": [1621]})]).await, [lasting.id]);
    assert_eq!(client.asks(&[json!({"ids": [fleeting.id.to_hex()]})]).await, []);
    assert_eq!(client.counts(&[json!({"kinds": [1621]})]).await, 1);
    let back = client.publishes(&fleeting).await;
    assert!(!back.accepted(), "{back:?}");
}

#[tokio::test]
async fn a_protected_event_comes_from_its_author_only() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let protected = |by: &Author| by.signs(acme.issue_draft(THEN, "mine").tag(&["-"]));
    let (mine, theirs) = (protected(&alice()), protected(&bob()));

    client.offers(&mine).await;
    let challenge = client.heard().await;
    assert_eq!(challenge[0], "AUTH");
    assert!(client.answer_to(&mine.id).await.refused("auth-required:"));

    let answers = |by: &Author, challenge: &Value, relay: &str, at: u64| {
        let draft = Draft::new(Kind::AUTH, at).tag(&["relay", relay]);
        by.signs(draft.tag(&["challenge", challenge.as_str().unwrap()]))
    };
    let ours = server.url();
    for (challenge, relay, at) in [
        (&json!("guessed"), ours.as_str(), now()),
        (&challenge[1], "wss://elsewhere.example", now()),
        (&challenge[1], ours.as_str(), THEN),
    ] {
        let wrong = authenticates(&mut client, &answers(&alice(), challenge, relay, at)).await;
        assert!(wrong.refused("invalid:"), "{wrong:?}");
    }
    let right = answers(&alice(), &challenge[1], &ours, now());
    assert!(authenticates(&mut client, &right).await.accepted());

    assert!(client.publishes(&mine).await.accepted());
    let foreign = client.publishes(&theirs).await;
    assert!(foreign.refused("restricted:"), "{foreign:?}");
    let mut stranger = Client::connect(&server.url()).await;
    assert_eq!(stranger.asks(&[json!({"kinds": [1621]})]).await, [mine.id], "anybody may read");
    let replayed = stranger.publishes(&theirs).await;
    assert!(replayed.refused("auth-required:"), "authentication ends with its connection");
}

#[tokio::test]
async fn an_authentication_is_no_event() {
    let server = server(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let auth = alice().signs(Draft::new(Kind::AUTH, now()));
    assert!(client.publishes(&auth).await.refused("invalid:"));
}

#[tokio::test]
async fn an_ephemeral_event_is_passed_on_and_not_kept() {
    let (server, acme) = serving(&[]).await;
    let mut reader = Client::connect(&server.url()).await;
    reader.subscribes("live", &[json!({"kinds": [20_001]})]).await;
    let mut writer = Client::connect(&server.url()).await;
    let draft = Draft::new(Kind(20_001), THEN).tag(&["a", &acme.coordinate()]);
    let passing = alice().signs(draft);
    assert!(writer.publishes(&passing).await.accepted());
    assert_eq!(reader.heard().await, live("live", &passing));
    assert_eq!(reader.asks(&[json!({"kinds": [20_001]})]).await, []);
}

#[tokio::test]
async fn of_a_replaceable_event_the_latest_stays_and_in_one_second_the_lower_id() {
    let server = server(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let mine = [json!({"authors": [alice().key.to_hex()]})];
    let version =
        |at: u64, text: &str| alice().signs(Draft::new(Kind::GRASP_LIST, at).content(text));
    let mut rivals = [version(THEN, "one"), version(THEN, "two")];
    rivals.sort_by_key(|event| event.id);
    let [lower, higher] = rivals;
    assert!(client.publishes(&higher).await.accepted());
    assert!(client.publishes(&lower).await.accepted());
    assert_eq!(client.asks(&mine).await, [lower.id]);
    let beaten = client.publishes(&higher).await;
    assert!(beaten.ok && beaten.text.starts_with("duplicate: superseded"), "{beaten:?}");
    let newer = version(THEN + 1, "three");
    assert!(client.publishes(&newer).await.accepted());
    let older = client.publishes(&version(THEN - 1, "zero")).await;
    assert!(older.ok && older.text.starts_with("duplicate: superseded"), "{older:?}");
    assert_eq!(client.asks(&mine).await, [newer.id]);
}

#[tokio::test]
async fn a_long_answer_arrives_whole_while_others_publish_and_delete() {
    let home = home(&[]);
    let mut events = vec![acme().announcement(THEN)];
    events.extend((0..1_500).map(|n| acme().issue(&alice(), THEN + n, &"long ".repeat(400))));
    home.imports(&events).await;
    let server = home.serve().await;
    let (mut reader, mut writer) =
        (Client::connect(&server.url()).await, Client::connect(&server.url()).await);
    reader.say(&json!(["REQ", "all", {"kinds": [1621], "until": THEN + 10_000}])).await;
    for n in 0..50 {
        let extra = acme().issue(&bob(), THEN + 20_000 + n, "meanwhile");
        assert!(writer.publishes(&extra).await.accepted());
        assert!(writer.publishes(&deletion(&bob(), THEN + 30_000 + n, &[&extra])).await.ok);
    }
    let heard = reader.heard_until("EOSE").await;
    let found: Vec<EventId> =
        heard.iter().filter_map(|message| message[2]["id"].as_str().map(hex)).collect();
    assert_eq!(found, in_order(&events[1..]));
}

#[tokio::test]
async fn a_query_cut_by_its_time_never_looks_complete() {
    let home = home(&[("NGIT_RELAY_QUERY_BUDGET_MS", "1")]);
    let text = "x".repeat(100_000);
    let events: Vec<_> = (0..300).map(|n| acme().issue(&alice(), THEN + n, &text)).collect();
    home.imports(&events).await;
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    client.say(&json!(["REQ", "all", {}])).await;
    let heard = client.heard_until("CLOSED").await;
    assert!(heard.iter().all(|message| message[0] != "EOSE"));
    let why = heard.last().unwrap()[2].as_str().unwrap();
    assert!(why.starts_with("error: the query took too long"), "{why}");
    assert_eq!(client.asks(&[json!({"limit": 1})]).await, [events[299].id]);
}

#[tokio::test]
async fn a_stored_event_is_served_in_the_bytes_its_id_was_made_of() {
    let server = server(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let text = "\u{1}\u{8}\t\n\u{c}\r\u{1f}\"\\/\u{7f}é\u{2028}🦀";
    let event = alice().signs(Draft::new(Kind::GRASP_LIST, THEN).content(text).tag(&["t", text]));
    assert!(client.publishes(&event).await.accepted());
    let heard = client.subscribes("s", &[json!({"#t": [text]})]).await;
    let served = Event::from_json(heard[0][2].to_string().as_bytes()).unwrap();
    assert_eq!(served.verify().unwrap().id, event.id);
}

fn in_order(events: &[VerifiedEvent]) -> Vec<EventId> {
    let mut events: Vec<_> = events.iter().map(|event| (event.created_at, event.id)).collect();
    events.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    events.into_iter().map(|(_, id)| id).collect()
}

fn live(sub: &str, event: &Event) -> Value {
    let event: Value = serde_json::from_str(&event.to_json()).unwrap();
    json!(["EVENT", sub, event])
}

fn sorted(mut messages: Vec<Value>) -> Vec<Value> {
    messages.sort_by_key(Value::to_string);
    messages
}

fn hex(id: &str) -> EventId {
    id.parse().unwrap()
}

async fn authenticates(client: &mut Client, event: &Event) -> Reply {
    client.say_text(&format!("[\"AUTH\",{}]", event.to_json())).await;
    client.answer_to(&event.id).await
}
