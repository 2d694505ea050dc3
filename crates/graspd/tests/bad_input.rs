//! What strangers say by mistake or on purpose: a clear refusal each, nothing lost, memory flat.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::{THEN, alice, serving};
use futures_util::{SinkExt, StreamExt};
use grasp_core::Event;
use grasp_testkit::{Client, now};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};

const CAP: Duration = Duration::from_secs(30);

#[tokio::test]
async fn what_cannot_be_read_gets_a_notice_and_the_connection_lives() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    for junk in [
        "",
        " ",
        "hello",
        "{}",
        "[]",
        "null",
        "[1]",
        "[null]",
        "[\"EVENT\"",
        "[\"EVENT\"]",
        "[\"EVENT\",null]",
        "[\"EVENT\",{}]",
        "[\"REQ\"]",
        "[\"REQ\",\"\",{}]",
        "[\"REQ\",7,{}]",
        "[\"CLOSE\"]",
        "[\"SUBSCRIBE\",\"x\",{}]",
        "[\"event\",{}]",
        "[\"OK\",\"x\",true,\"\"]",
        "[\"NOTICE\",\"hello yourself\"]",
        "\u{feff}[\"REQ\",\"x\",{}]",
    ] {
        client.say_text(junk).await;
        let answer = client.heard().await;
        assert_eq!(answer[0], "NOTICE", "{junk:?} got {answer}");
        let text = answer[1].as_str().unwrap();
        assert!(text.starts_with("invalid: ") && text.len() > 20, "{junk:?} got {answer}");
    }
    assert_eq!(client.asks(&[json!({"kinds": [30617]})]).await.len(), 1);
}

#[tokio::test]
async fn a_question_that_cannot_be_answered_is_closed_by_name() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let filters = vec![json!({}); 21];
    let mut crowded = vec![json!("REQ"), json!("x")];
    crowded.extend(filters);
    for (question, prefix) in [
        (json!(["REQ", "x"]), "invalid:"),
        (json!(["REQ", "x", []]), "invalid:"),
        (json!(["REQ", "x", {"kinds": "1"}]), "invalid:"),
        (json!(["REQ", "x", {"kinds": [1.5]}]), "invalid:"),
        (json!(["REQ", "x", {"kinds": [65536]}]), "invalid:"),
        (json!(["REQ", "x", {"ids": ["abc"]}]), "invalid:"),
        (json!(["REQ", "x", {"ids": ["A".repeat(64)]}]), "invalid:"),
        (json!(["REQ", "x", {"authors": [null]}]), "invalid:"),
        (json!(["REQ", "x", {"limit": -1}]), "invalid:"),
        (json!(["REQ", "x", {"since": "now"}]), "invalid:"),
        (json!(["REQ", "x", {"search": "word"}]), "unsupported:"),
        (json!(["REQ", "x", {"#emoji": ["x"]}]), "unsupported:"),
        (json!(["COUNT", "x", {"#1": ["x"]}]), "unsupported:"),
        (json!(["COUNT", "x"]), "invalid:"),
        (Value::Array(crowded), "invalid: more than 20 filters"),
    ] {
        client.say(&question).await;
        let answer = client.heard().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("x")), "{question}");
        assert!(answer[2].as_str().unwrap().starts_with(prefix), "{question}: {answer}");
    }
    let twice = r#"["REQ","x",{"kinds":[1],"kinds":[2]}]"#;
    client.say_text(twice).await;
    assert_eq!(client.heard().await[0], "CLOSED");
    let long = "n".repeat(65);
    client.say(&json!(["REQ", long, {}])).await;
    let answer = client.heard().await;
    assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!(long)));
    assert!(client.fence().await.is_empty());
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_still_answered_by_its_id() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let good = acme.issue(&alice(), THEN, "text").to_json();
    let spoiled = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    for bad in [
        spoiled("\"kind\":1621", "\"kind\":1621,\"kind\":1621"),
        spoiled("\"content\":\"text\"", "\"content\":\"text\",\"content\":\"text\""),
        spoiled("\"text\"", "\"\\ud800\""),
        spoiled("\"text\"", "\"\\udc00\\ud800\""),
        spoiled("\"text\"", "null"),
        spoiled("\"kind\":1621", "\"kind\":65536"),
        spoiled("\"kind\":1621", "\"kind\":-1"),
        spoiled("\"kind\":1621", "\"kind\":1621.0"),
        spoiled("\"created_at\":1", "\"created_at\":-1"),
        spoiled("\"created_at\":1", "\"created_at\":1e"),
        spoiled("\"tags\":[", "\"tags\":[[1],"),
        spoiled("\"tags\":[", "\"tags\":[[null],"),
        spoiled("\"tags\":[", "\"tags\":[\"a\","),
        spoiled("\"sig\":\"", "\"sig\":\"00"),
        spoiled("\"pubkey\":\"", "\"pubkey\":\"zz"),
    ] {
        client.say_text(&format!("[\"EVENT\",{bad}]")).await;
        let answer = client.heard().await;
        assert_eq!((&answer[0], &answer[2]), (&json!("OK"), &json!(false)), "{bad}: {answer}");
        assert!(answer[3].as_str().unwrap().starts_with("invalid:"), "{bad}: {answer}");
    }
    // Without an id there is nobody to answer but the room.
    let nameless = good.replacen("\"id\":\"", "\"id\":\"zz", 1);
    client.say_text(&format!("[\"EVENT\",{nameless}]")).await;
    assert_eq!(client.heard().await[0], "NOTICE");
    client.say_text(&format!("[\"EVENT\",{good}]")).await;
    assert_eq!(client.heard().await[2], true, "the good one is still good");
}

#[tokio::test]
async fn deeply_nested_messages_are_refused_without_being_climbed() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let deep = "[".repeat(100_000);
    let closed = deep.clone() + &"]".repeat(100_000);
    let objects = "{\"a\":".repeat(100_000);
    let good = acme.issue(&alice(), THEN, "text").to_json();
    for (text, verb) in [
        (deep.clone(), "NOTICE"),
        (closed.clone(), "NOTICE"),
        (objects, "NOTICE"),
        (format!("[\"REQ\",\"x\",{closed}]"), "CLOSED"),
        (format!("[\"REQ\",\"x\",{{\"#a\":{closed}}}]"), "CLOSED"),
        (format!("[\"EVENT\",{{\"tags\":{closed}}}]"), "NOTICE"),
        (format!("[\"AUTH\",{deep}"), "NOTICE"),
    ] {
        client.say_text(&text).await;
        let answer = client.heard().await;
        assert_eq!(answer[0], verb, "{} got {answer}", &text[..40]);
    }
    // Unknown fields are no part of an event, however deep they are.
    let padded = good.replacen('{', &format!("{{\"x\":{closed},"), 1);
    client.say_text(&format!("[\"EVENT\",{padded}]")).await;
    assert_eq!(client.heard().await[2], true);
    assert!(client.fence().await.is_empty());
}

#[tokio::test]
async fn binary_frames_are_declined_and_fragments_are_put_together() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    client.socket.send(Message::binary(b"[\"REQ\",\"x\",{}]".to_vec())).await.unwrap();
    let answer = client.heard().await;
    assert_eq!(answer[0], "NOTICE");
    assert!(answer[1].as_str().unwrap().contains("binary"), "{answer}");

    let pieces = ["[\"REQ\",", "\"pie", "ces\",{\"kinds\":[30617]}", "]"];
    for (n, piece) in pieces.iter().enumerate() {
        let code = if n == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(*piece, OpCode::Data(code), n + 1 == pieces.len());
        client.socket.send(Message::Frame(frame)).await.unwrap();
        // Control frames may come in between.
        client.socket.send(Message::Ping(vec![7].into())).await.unwrap();
    }
    let heard = client.heard_until("EOSE").await;
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[0][1], "pieces");
}

#[tokio::test]
async fn events_from_the_future_wait_for_their_time() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let far = client.publishes(&acme.issue(&alice(), now() + 1_000, "tomorrow")).await;
    assert!(far.refused("invalid: created_at is more than 15 minutes ahead"), "{far:?}");
    let absurd = client.publishes(&acme.issue(&alice(), u64::MAX >> 1, "the end")).await;
    assert!(absurd.refused("invalid:"), "{absurd:?}");
    assert!(client.publishes(&acme.issue(&alice(), now() + 600, "soon")).await.accepted());
    assert!(client.publishes(&acme.issue(&alice(), 0, "1970")).await.accepted());
}

#[tokio::test]
async fn two_thousand_tags_are_fine_and_five_thousand_and_one_are_not() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let tagged = |count: usize| {
        let draft = acme.issue_draft(THEN, "tagged");
        let mut tags = (1..count).map(|n| n.to_string());
        alice().signs(tags.try_fold(draft, |draft, n| Some(draft.tag(&["t", &n]))).unwrap())
    };
    let many = tagged(2_000);
    assert!(client.publishes(&many).await.accepted());
    assert_eq!(client.asks(&[json!({"#t": ["1999"]})]).await, [many.id]);
    assert!(client.publishes(&tagged(5_000)).await.accepted());
    let more = client.publishes(&tagged(5_001)).await;
    assert!(more.refused("invalid: the event has more than 5000 tags"), "{more:?}");
}

#[tokio::test]
async fn an_event_too_large_is_refused_by_its_id() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let large = acme.issue(&alice(), THEN, &"x".repeat(300_000));
    let answer = client.publishes(&large).await;
    assert!(answer.refused("invalid: the event is larger than 262144 bytes"), "{answer:?}");
    let fits = acme.issue(&alice(), THEN, &"x".repeat(260_000));
    assert!(client.publishes(&fits).await.accepted());
    // Padding is not part of the event.
    let small = acme.issue(&alice(), THEN, "small").to_json();
    client.say_text(&format!("[\"EVENT\",{}{small}]", " ".repeat(600_000))).await;
    assert_eq!(client.heard().await[2], true);
}

#[tokio::test]
async fn a_message_too_large_is_told_so_before_the_connection_closes() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let huge = format!("[\"REQ\",\"x\",{{\"#t\":[\"{}\"]}}]", "x".repeat(2 << 20));
    // The server may stop listening before all of it is sent.
    let _ = client.socket.send(Message::text(huge)).await;
    let mut end = None;
    while let Some(Ok(message)) = timeout(CAP, client.socket.next()).await.unwrap() {
        if let Message::Close(frame) = message {
            end = frame;
        }
    }
    let CloseFrame { code, reason } = end.expect("a closing frame with a reason");
    assert_eq!(code, CloseCode::Size);
    assert!(reason.contains("1048576"), "{reason}");
    assert_eq!(Client::connect(&server.url()).await.counts(&[json!({})]).await, 1);
}

#[tokio::test]
async fn twenty_forgeries_end_the_conversation() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let good = acme.issue(&alice(), THEN, "good");
    let forged = |n: u64| {
        let honest = acme.issue(&alice(), THEN + n, "forged").event().clone();
        Event { sig: good.sig, ..honest }
    };
    for n in 1..20 {
        assert!(client.publishes(&forged(n)).await.refused("invalid: the signature"));
    }
    assert!(client.publishes(&good).await.accepted(), "nineteen are forgiven");
    assert!(client.publishes(&forged(20)).await.refused("invalid: the signature"));
    let last = client.heard().await;
    assert_eq!(last[0], "NOTICE");
    assert!(last[1].as_str().unwrap().starts_with("blocked: 20 events"), "{last}");
    assert_eq!(client.hear().await, None);
    let mut again = Client::connect(&server.url()).await;
    assert_eq!(again.counts(&[json!({"kinds": [1621]})]).await, 1);
}

#[tokio::test]
async fn ten_thousand_reqs_on_one_connection_cost_no_more_than_five_hundred() {
    let (server, _) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    let (mut before, mut answers) = (0, std::collections::BTreeMap::<String, usize>::new());
    for block in 0..50 {
        // The limit is reached and every thread has warmed up; from here on it is all refusals.
        if block == 5 {
            before = server.anonymous_kib();
        }
        for n in 0..200 {
            client
                .say(&json!(["REQ", format!("s{block}-{n}"), {"kinds": [4242], "#t": ["x"]}]))
                .await;
        }
        for _ in 0..200 {
            let answer = client.heard().await;
            *answers.entry(answer[0].as_str().unwrap().to_owned()).or_default() += 1;
            if answer[0] == "CLOSED" {
                let why = answer[2].as_str().unwrap();
                assert!(why.starts_with("rate-limited: 500 subscriptions are open"), "{why}");
            }
        }
    }
    assert_eq!(answers, [("CLOSED".to_owned(), 9_500), ("EOSE".to_owned(), 500)].into());
    let grown = server.anonymous_kib().saturating_sub(before);
    assert!(grown < 4 << 10, "{grown} KiB more than after the first thousand");
    client.say(&json!(["CLOSE", "s0-0"])).await;
    client.subscribes("one-more", &[json!({"limit": 0})]).await;
}

#[tokio::test]
async fn filters_are_bounded_by_what_they_occupy() {
    let (server, _) = serving(&[
        ("NGIT_RELAY_MAX_CONNECTION_FILTERS_BYTES", "100000"),
        ("NGIT_RELAY_MAX_IP_FILTERS_BYTES", "100000"),
    ])
    .await;
    let mut client = Client::connect(&server.url()).await;
    let heavy = json!({"#t": (0..800).map(|n| format!("{n:040}")).collect::<Vec<_>>()});
    client.subscribes("one", std::slice::from_ref(&heavy)).await;
    client.say(&json!(["REQ", "two", heavy])).await;
    let answer = client.heard().await;
    assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("two")));
    assert!(answer[2].as_str().unwrap().starts_with("rate-limited: the filters"), "{answer}");
    client.say(&json!(["CLOSE", "one"])).await;
    client.subscribes("two", &[heavy]).await;
}
