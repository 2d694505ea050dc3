//! The chaos relay is what it says: honest where it should be, and really bad where it should be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception misses helpers")]

use grasp_core::event::Forged;
use grasp_core::id::hex_encode;
use grasp_core::{Event, EventId, Kind, VerifiedEvent};
use grasp_relay::neg::{Difference, IdSet, Initiator, Step};
use grasp_testkit::behaviour::{
    Answers, Behaviour, CLOSED_AUTH, CLOSED_FILTERS, CLOSED_SUBSCRIPTIONS, Door, NOTICE_RATE,
    Negentropy, REFUSALS, Refuses,
};
use grasp_testkit::chaos::{BlackHole, ChaosRelay, InfoPage, Noise, Tricks};
use grasp_testkit::{Author, Client, Draft, Repository, http, now, until};
use serde_json::{Value, json};
use std::time::Duration;

const THEN: u64 = 1_700_000_000;

fn acme() -> Repository {
    Repository::new(Author::number(1), "acme")
}

fn issues(count: u64) -> Vec<VerifiedEvent> {
    (0..count).map(|n| acme().issue(&Author::number(2), THEN + n / 2, &n.to_string())).collect()
}

async fn stocked(behaviour: Behaviour, events: &[VerifiedEvent]) -> ChaosRelay {
    let relay = ChaosRelay::start(behaviour).await;
    events.iter().for_each(|event| relay.publishes(event));
    relay
}

fn event_of(message: &Value) -> Event {
    Event::from_json(message[2].to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn an_honest_one_tells_the_past_in_order_and_then_what_is_new() {
    let events = issues(9);
    let relay = stocked(Behaviour::honest(), &events).await;
    let mut client = Client::connect(relay.url()).await;
    let heard = client.subscribes("all", &[json!({"kinds": [1621], "limit": 4})]).await;
    let told: Vec<Event> = heard[..4].iter().map(event_of).collect();
    let mut expected: Vec<&VerifiedEvent> = events.iter().collect();
    expected.sort_by_key(|event| (std::cmp::Reverse(event.created_at), event.id));
    let ids = |events: &[&VerifiedEvent]| events.iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(told.iter().map(|it| it.id).collect::<Vec<_>>(), ids(&expected[..4]));
    assert_eq!(heard[4], json!(["EOSE", "all", ["more"]]));

    let fresh = acme().issue(&Author::number(2), THEN + 100, "fresh");
    let mut other = Client::connect(relay.url()).await;
    assert!(other.publishes(&fresh).await.accepted());
    assert_eq!(event_of(&client.heard().await), *fresh.event());
    assert!(relay.holds(&fresh.id));
    assert_eq!(other.publishes(&fresh).await.text, "duplicate: already have this event");
    client.say(&json!(["CLOSE", "all"])).await;
    client.fence().await;
    relay.publishes(&acme().issue(&Author::number(2), THEN + 200, "later"));
    assert_eq!(client.fence().await, [] as [Value; 0]);
    let seen = relay.seen();
    assert_eq!((seen.connections, seen.connections_most, seen.requests), (2, 2, 1));
    assert_eq!((seen.subscriptions_most, seen.violations.len()), (1, 0));
    assert_eq!(seen.last_requests[0][0].limit, Some(4));
    assert!(seen.bytes_sent > 4 * 300 && seen.handed_in == [fresh.id, fresh.id]);
}

#[tokio::test]
async fn a_strict_one_refuses_what_is_beyond_its_caps() {
    let relay = ChaosRelay::strict(5).await;
    issues(12).iter().for_each(|event| relay.publishes(event));
    let mut client = Client::connect(relay.url()).await;
    assert_eq!(client.asks(&[json!({"limit": 100})]).await.len(), 5, "a page, whatever is asked");
    let many = vec![json!({"kinds": [1]}); 11];
    client.say(&Value::Array([vec![json!("REQ"), json!("many")], many].concat())).await;
    assert_eq!(client.heard().await, json!(["CLOSED", "many", CLOSED_FILTERS]));
    for n in 0..20 {
        client.subscribes(&n.to_string(), &[json!({"kinds": [1]})]).await;
    }
    client.say(&json!(["REQ", "20", {"kinds": [1]}])).await;
    assert_eq!(client.heard().await, json!(["CLOSED", "20", CLOSED_SUBSCRIPTIONS]));
    client.subscribes("19", &[json!({"kinds": [2]})]).await;
    client.say(&json!(["CLOSE", "7"])).await;
    client.subscribes("20", &[json!({"kinds": [1]})]).await;
    client.say(&json!(["NEG-OPEN", "n", {}, "61"])).await;
    assert_eq!(client.heard().await[0], "NOTICE", "it does not speak NIP-77");
    let seen = relay.seen();
    assert_eq!((seen.subscriptions_most, seen.violations.len(), seen.refusals), (20, 2, 2));
}

#[tokio::test]
async fn negentropy_finds_the_difference_and_can_lie() {
    let events = issues(300);
    let ours = &events[..200];
    let relay = stocked(Behaviour::honest(), &events[100..]).await;
    let mut client = Client::connect(relay.url()).await;
    let ids = |of: &[VerifiedEvent]| {
        let mut ids: Vec<EventId> = of.iter().map(|event| event.id).collect();
        ids.sort_unstable();
        ids
    };
    let found = reconciles(&mut client, ours).await.unwrap();
    assert_eq!((found.have, found.need), (ids(&events[..100]), ids(&events[200..])));
    let lying = |negentropy| Behaviour { negentropy, ..Behaviour::honest() };
    relay.becomes(lying(Negentropy::Claims { ids: 50 }));
    let found = reconciles(&mut client, ours).await.unwrap();
    assert_eq!(found.need.len(), 150);
    assert_eq!(found.need.iter().filter(|id| relay.holds(id)).count(), 100);
    relay.becomes(lying(Negentropy::Hides { one_in: 3 }));
    let found = reconciles(&mut client, ours).await.unwrap();
    assert!(found.need.len() < 90 && found.have.len() > 110, "{found:?}");
    relay.becomes(lying(Negentropy::Endless));
    assert_eq!(reconciles(&mut client, ours).await, None, "it would go on for ever");
    assert_eq!(relay.seen().negentropy_opens, 4);
}

#[tokio::test]
async fn forged_copies_have_the_right_id_and_nothing_else() {
    let events = issues(6);
    let relay =
        stocked(Behaviour { answers: Answers::Forged, ..Behaviour::common() }, &events).await;
    let mut client = Client::connect(relay.url()).await;
    let mut heard = client.subscribes("f", &[json!({})]).await;
    assert_eq!(heard.pop().unwrap()[0], "EOSE");
    let live = acme().issue(&Author::number(2), THEN + 9, "live");
    relay.publishes(&live);
    heard.push(client.heard().await);
    let verdicts: Vec<Forged> =
        heard.iter().map(|message| event_of(message).verify().unwrap_err()).collect();
    assert!(verdicts.contains(&Forged::Id) && verdicts.contains(&Forged::Signature));
    let known: Vec<EventId> = events.iter().chain([&live]).map(|event| event.id).collect();
    assert!(heard.iter().all(|message| known.contains(&event_of(message).id)));
}

#[tokio::test]
async fn one_that_never_says_eose_still_tells_everything() {
    let behaviour = Behaviour { answers: Answers::NeverEose, ..Behaviour::common() };
    let relay = stocked(behaviour, &issues(5)).await;
    let mut client = Client::connect(relay.url()).await;
    client.say(&json!(["REQ", "x", {}])).await;
    for n in 0..5 {
        relay.publishes(&acme().issue(&Author::number(2), THEN + 100 + n, "live"));
    }
    let heard = client.fence().await;
    let rest: Vec<Value> = heard.iter().filter(|message| message[0] != "EVENT").cloned().collect();
    assert_eq!((heard.len(), rest), (10, vec![]));
}

#[tokio::test]
async fn endless_events_fit_the_question_and_end_with_it() {
    let relay =
        ChaosRelay::start(Behaviour { answers: Answers::Endless, ..Behaviour::common() }).await;
    let mut client = Client::connect(relay.url()).await;
    let filter = json!({"kinds": [30617, 30618], "since": THEN});
    client.say(&json!(["REQ", "x", filter])).await;
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..500 {
        let event = event_of(&client.heard().await).verify().unwrap();
        assert!(event.kind == Kind::ANNOUNCEMENT && event.created_at.0 >= THEN);
        assert!(ids.insert(event.id), "each is new");
    }
    client.say(&json!(["CLOSE", "x"])).await;
    client.fence().await;
    let sent = relay.seen().events_sent;
    client.fence().await;
    assert_eq!(relay.seen().events_sent, sent);
    relay.becomes(Behaviour { answers: Answers::Wrong, ..Behaviour::common() });
    let heard = client.subscribes("w", &[filter]).await;
    assert!(heard.len() > 20);
    let wrong = heard.iter().filter(|message| message[0] == "EVENT").map(event_of);
    assert!(wrong.map(|event| event.verify().unwrap()).all(|event| event.kind == Kind(1)));
}

#[tokio::test]
async fn every_refusal_is_said_as_told_and_who_signs_in_is_let_in() {
    let relay = ChaosRelay::start(Behaviour::common()).await;
    let mut client = Client::connect(relay.url()).await;
    let refusing = |refuses| Behaviour { refuses, ..Behaviour::honest() };
    for text in REFUSALS.iter().flat_map(|(_, texts)| *texts) {
        relay.becomes(refusing(Refuses::All(text)));
        client.say(&json!(["REQ", "x", {}])).await;
        assert_eq!(client.heard().await, json!(["CLOSED", "x", text]));
        client.say(&json!(["NEG-OPEN", "n", {}, "6100000200"])).await;
        assert_eq!(client.heard().await, json!(["NEG-ERR", "n", text]));
    }
    relay.becomes(refusing(Refuses::RateByNotice { per_minute: 2 }));
    client.asks(&[json!({})]).await;
    client.asks(&[json!({})]).await;
    client.say(&json!(["REQ", "x", {}])).await;
    assert_eq!(client.heard().await, json!(["NOTICE", NOTICE_RATE]));

    relay.becomes(refusing(Refuses::WithoutAuth { never: false }));
    let mut client = Client::connect(relay.url()).await;
    let challenge = client.heard().await[1].as_str().unwrap().to_owned();
    client.say(&json!(["REQ", "x", {}])).await;
    assert_eq!(client.heard().await, json!(["CLOSED", "x", CLOSED_AUTH]));
    for (to, ok) in [("ws://elsewhere.example", false), (relay.url(), true)] {
        let draft = Draft::new(Kind(22242), now());
        let draft = draft.tag(&["relay", to]).tag(&["challenge", &challenge]);
        let answer = Author::number(5).signs(draft);
        client.say_text(&format!("[\"AUTH\",{}]", answer.to_json())).await;
        assert_eq!(client.answer_to(&answer.id).await.ok, ok);
    }
    client.subscribes("x", &[json!({})]).await;
    let seen = relay.seen();
    assert_eq!((seen.signed_in, seen.bad_auths.len()), (vec![Author::number(5).key], 1));
}

#[tokio::test]
async fn the_page_about_itself_says_what_it_is_told_to_say() {
    let accept = [("Accept", "application/nostr+json")];
    let relay = ChaosRelay::start(Behaviour::honest()).await;
    let page = http("GET", relay.address(), &accept).await;
    let told: Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(told["limitation"]["max_subscriptions"], 500);
    assert_eq!(told["supported_nips"], json!([1, 11, 77]));
    for (info, status) in [
        (InfoPage::Missing, 404),
        (InfoPage::Redirect("http://127.0.0.1:1/".to_owned()), 302),
        (InfoPage::Long(300_000), 200),
        (InfoPage::Nonsense, 200),
    ] {
        let tricks = Tricks { info, noise: Noise::None };
        let relay = ChaosRelay::start_with(Behaviour::honest(), tricks, 7).await;
        assert_eq!(http("GET", relay.address(), &accept).await.status, status);
        assert_eq!((relay.seen().info_pages, relay.seen().connections), (1, 0));
    }
}

#[tokio::test]
async fn noise_comes_before_answers_and_byte_by_byte_is_still_an_answer() {
    let noises =
        [Noise::Garbage, Noise::Huge(1 << 20), Noise::Strangers, Noise::Drip(Duration::ZERO)];
    for noise in noises {
        let tricks = Tricks { noise, ..Tricks::default() };
        let relay = ChaosRelay::start_with(Behaviour::common(), tricks, 7).await;
        relay.publishes(&issues(1)[0]);
        let mut client = Client::connect(relay.url()).await;
        client.say(&json!(["REQ", "mine", {}])).await;
        let mut heard = Vec::new();
        while heard.last() != Some(&json!(["EOSE", "mine"])) {
            use futures_util::StreamExt;
            let frame = client.socket.next().await.unwrap().unwrap();
            let text = frame.to_text().unwrap_or_default();
            heard.push(serde_json::from_str(text).unwrap_or(Value::Null));
        }
        assert_eq!(heard.len() > 2, !matches!(noise, Noise::Drip(_)), "{noise:?}");
    }
}

#[tokio::test]
async fn doors_that_do_not_open_and_doors_that_do_not_stay_open() {
    let flapping = Door::Flapping { after: Duration::from_millis(50) };
    let relay = ChaosRelay::start(Behaviour { door: flapping, ..Behaviour::common() }).await;
    let mut client = Client::connect(relay.url()).await;
    assert_eq!(client.hear().await, None, "it hangs up by itself");
    relay.becomes(Behaviour { door: Door::Refuses, ..Behaviour::common() });
    assert!(Client::try_connect(relay.url(), &[]).await.is_none());
    let hole = BlackHole::open().await;
    relay.becomes(Behaviour { door: Door::BlackHole, ..Behaviour::common() });
    for url in [relay.url(), &hole.url()] {
        let dial = Client::try_connect(url, &[]);
        assert!(tokio::time::timeout(Duration::from_millis(300), dial).await.is_err(), "{url}");
    }
    relay.becomes(Behaviour::common());
    let mut client = Client::connect(relay.url()).await;
    client.fence().await;
    relay.drops_everyone();
    assert_eq!(client.hear().await, None);
    until("nobody is left", || async { relay.seen().connections_open == 0 }).await;
    Client::connect(relay.url()).await.fence().await;
}

/// Both sides' difference; `None` if a hundred rounds do not settle it.
async fn reconciles(client: &mut Client, ours: &[VerifiedEvent]) -> Option<Difference> {
    let set = IdSet::collect(ours.iter().map(|it| (it.created_at, it.id)), 10_000).unwrap();
    let mut initiator = Initiator::new(set, 60_000).unwrap();
    let opening = hex_encode(&initiator.initiate().unwrap());
    client.say(&json!(["NEG-OPEN", "n", {"kinds": [1621]}, opening])).await;
    for _ in 0..100 {
        let message = client.heard().await;
        assert_eq!(message[0], "NEG-MSG", "{message}");
        let bytes = unhex(message[2].as_str().unwrap());
        match initiator.handle_answer(&bytes).unwrap() {
            Step::Send(next) => client.say(&json!(["NEG-MSG", "n", hex_encode(&next)])).await,
            Step::Done(difference) => {
                client.say(&json!(["NEG-CLOSE", "n"])).await;
                return Some(difference);
            }
        }
    }
    client.say(&json!(["NEG-CLOSE", "n"])).await;
    None
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
