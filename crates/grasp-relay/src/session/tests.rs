use super::*;
use crate::budgets::{Budgets, IpKey, Loopback, Unlimited};
use grasp_core::event::Forged;
use grasp_core::service::Authority;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

const NOW: Time = Time::from_secs(1_700_000_000);
const CHALLENGE: &str = "the-challenge";

/// A session and somebody who talks to it.
struct Client(Session);

impl Client {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let service = Service::new(Authority::parse("relay.example").unwrap(), vec![], "");
        Self(Session::new(Arc::new(limits), Arc::new(service), CHALLENGE.to_owned()))
    }

    fn says(&mut self, text: &str) -> Vec<Action> {
        self.0.handle_text(text, NOW, &mut Unlimited);
        self.actions()
    }

    fn says_json(&mut self, message: &Value) -> Vec<Action> {
        self.says(&message.to_string())
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.0.poll_action()).collect()
    }

    /// Says something that gets exactly one frame and causes nothing else.
    fn hears(&mut self, message: &Value) -> Value {
        only_frame(&self.says_json(message))
    }
}

fn only_frame(actions: &[Action]) -> Value {
    match actions {
        [Action::Send(frame)] => serde_json::from_str(frame).unwrap(),
        other => panic!("expected one frame, got {other:?}"),
    }
}

fn frames(actions: &[Action]) -> Vec<Value> {
    let frames = actions.iter().filter_map(|action| match action {
        Action::Send(frame) => Some(serde_json::from_str(frame).unwrap()),
        _ => None,
    });
    frames.collect()
}

fn sub(text: &str) -> SubId {
    SubId::parse(text).unwrap()
}

fn event(kind: u32, tags: &Value, content: &str) -> Value {
    json!({
        "id": "aa".repeat(32), "pubkey": "bb".repeat(32), "sig": "cc".repeat(64),
        "created_at": 1_700_000_000, "kind": kind, "tags": tags, "content": content,
    })
}

fn auth_event(key: &str, relay: &str, challenge: &str, created_at: u64) -> Value {
    let tags = json!([["relay", relay], ["challenge", challenge]]);
    let mut event = event(22242, &tags, "");
    event["pubkey"] = key.repeat(32).into();
    event["created_at"] = created_at.into();
    event
}

/// Authenticates and pretends that the signature holds.
fn authenticate(client: &mut Client, key: &str) -> Vec<Action> {
    let event = auth_event(key, "wss://relay.example", CHALLENGE, 1_700_000_000);
    let actions = client.says_json(&json!(["AUTH", event]));
    let [Action::CheckAuth(event)] = actions.as_slice() else { return actions };
    let verified = grasp_core::VerifiedEvent::from_stored(event.to_json().into()).unwrap();
    client.0.auth_checked(event.id, Ok(verified));
    client.actions()
}

#[test]
fn a_sound_event_is_handed_on_and_answered_by_the_server() {
    let actions = Client::new().says_json(&json!(["EVENT", event(1, &json!([]), "hi")]));
    assert!(matches!(actions.as_slice(), [Action::Ingest(event)] if event.content == "hi"));
}

#[test]
fn a_refused_event_gets_exactly_one_ok() {
    let limits = Limits { event_bytes_max: 600, tags_max: 2, ..Limits::default() };
    let inner = event(1, &json!([["-"]]), "").to_string();
    for (event, why) in [
        (event(1, &json!([]), &"x".repeat(600)), "invalid: the event is larger than 600 bytes"),
        (event(1, &json!([["a"], ["b"], ["c"]]), ""), "invalid: the event has more than 2 tags"),
        (event(22242, &json!([]), ""), "invalid: kind 22242 belongs in an AUTH message"),
        (event(70000, &json!([]), ""), "invalid: "),
        (event(6, &json!([]), &inner), "blocked: it reposts"),
        (event(16, &json!([]), &inner), "blocked: it reposts"),
    ] {
        // Reposts carry a whole event and need room.
        let roomy = Limits { event_bytes_max: 6_000, ..limits.clone() };
        let limits = if why.starts_with("blocked") { roomy } else { limits.clone() };
        let answer = Client::with(limits).hears(&json!(["EVENT", event]));
        assert_eq!((&answer[0], &answer[1]), (&json!("OK"), &json!("aa".repeat(32))));
        assert_eq!(answer[2], false);
        assert!(answer[3].as_str().unwrap().starts_with(why), "{answer}");
    }
}

#[test]
fn what_counts_is_the_size_of_the_event_and_not_of_its_spelling() {
    let event = event(1, &json!([]), "x");
    let canonical = Event::from_json(event.to_string().as_bytes()).unwrap().to_json().len();
    let padded = format!("[\"EVENT\",{}{}]", " ".repeat(5_000), event);
    let exactly = |event_bytes_max| Limits { event_bytes_max, ..Limits::default() };
    let fits = Client::with(exactly(canonical)).says(&padded);
    assert!(matches!(fits.as_slice(), [Action::Ingest(_)]));
    let over = Client::with(exactly(canonical - 1)).says(&padded);
    assert_eq!(only_frame(&over)[2], false);
}

#[test]
fn an_overlong_message_is_still_answered_to_its_sender() {
    let limits = Limits { message_bytes_max: 500, ..Limits::default() };
    let answer =
        Client::with(limits).hears(&json!(["EVENT", event(1, &json!([]), &"x".repeat(500))]));
    assert_eq!((&answer[0], &answer[2]), (&json!("OK"), &json!(false)));
}

#[test]
fn a_repost_of_an_unprotected_event_is_fine() {
    let inner = event(1, &json!([["e", "x"], ["t", "-"]]), "").to_string();
    for content in [inner.as_str(), "", "not json"] {
        let actions = Client::new().says_json(&json!(["EVENT", event(6, &json!([]), content)]));
        assert!(matches!(actions.as_slice(), [Action::Ingest(_)]), "{content}");
    }
}

#[test]
fn a_protected_event_needs_its_author() {
    let mut client = Client::new();
    let protected = json!(["EVENT", event(1, &json!([["-"]]), "")]);
    let heard = frames(&client.says_json(&protected));
    assert_eq!(heard[0], json!(["AUTH", CHALLENGE]));
    assert_eq!((&heard[1][0], &heard[1][2], heard.len()), (&json!("OK"), &json!(false), 2));
    assert!(heard[1][3].as_str().unwrap().starts_with("auth-required: "));

    assert_eq!(only_frame(&authenticate(&mut client, "dd"))[2], true);
    let answer = client.hears(&protected);
    assert!(answer[3].as_str().unwrap().starts_with("restricted: "), "somebody else is not enough");

    assert_eq!(only_frame(&authenticate(&mut client, "bb"))[2], true, "a second key may join");
    assert!(matches!(client.says_json(&protected).as_slice(), [Action::Ingest(_)]));
}

#[test]
fn a_protected_event_is_protected_whatever_stands_behind_the_dash() {
    for tag in [json!(["-"]), json!(["-", "x"]), json!(["-", "", "y"])] {
        let heard =
            frames(&Client::new().says_json(&json!(["EVENT", event(1, &json!([tag]), "")])));
        let refusal = heard.last().unwrap();
        assert!(refusal[3].as_str().unwrap().starts_with("auth-required: "), "{tag}: {refusal}");
    }
}

#[test]
fn authentication_is_bound_to_challenge_relay_and_time() {
    let now = NOW.timestamp().0;
    let good = "wss://relay.example/";
    for (relay, challenge, created_at, sound) in [
        (good, CHALLENGE, now, true),
        ("ws://relay.example", CHALLENGE, now - 600, true),
        (good, CHALLENGE, now + 600, true),
        (good, CHALLENGE, now - 601, false),
        (good, CHALLENGE, now + 601, false),
        (good, "another", now, false),
        ("wss://relay.example.evil.example", CHALLENGE, now, false),
        ("", CHALLENGE, now, false),
    ] {
        let event = auth_event("bb", relay, challenge, created_at);
        let actions = Client::new().says_json(&json!(["AUTH", event]));
        if sound {
            assert!(matches!(actions.as_slice(), [Action::CheckAuth(_)]), "{event}");
        } else {
            let answer = only_frame(&actions);
            assert!(answer[3].as_str().unwrap().starts_with("invalid: "), "{answer}");
        }
    }
    let wrong_kind = Client::new().hears(&json!(["AUTH", event(1, &json!([]), "")]));
    assert_eq!(wrong_kind[2], false);
}

#[test]
fn only_so_many_keys_may_authenticate() {
    let mut client = Client::with(Limits { auth_keys_max: 2, ..Limits::default() });
    for key in ["b1", "b2", "b1"] {
        assert_eq!(only_frame(&authenticate(&mut client, key))[2], true);
    }
    assert_eq!(only_frame(&authenticate(&mut client, "b3"))[2], false);
}

#[test]
fn the_twentieth_forgery_ends_the_connection() {
    let mut client = Client::new();
    for _ in 0..18 {
        client.0.bad_signature();
    }
    let id = grasp_core::EventId::from_bytes([1; 32]);
    client.0.auth_checked(id, Err(Forged::Signature));
    assert_eq!(only_frame(&client.actions())[2], false, "a forged AUTH counts as well");
    client.0.bad_signature();
    let last = client.actions();
    assert!(matches!(last.as_slice(), [Action::Send(_), Action::Hangup(_)]), "{last:?}");
    assert_eq!(client.says(r#"["REQ","a",{}]"#), [], "nothing is heard afterwards");
    client.0.bad_signature();
    assert_eq!(client.actions(), []);
}

#[test]
fn a_request_carries_a_limit_for_every_filter() {
    let request = json!(["REQ", "a", {}, {"limit": 0}, {"limit": 7}, {"limit": 1_000_000}]);
    let actions = Client::new().says_json(&request);
    let [Action::Subscribe { filters, .. }] = actions.as_slice() else { panic!("{actions:?}") };
    let limits: Vec<_> = filters.iter().map(|filter| filter.limit.unwrap()).collect();
    assert_eq!(limits, [5_000, 0, 7, 5_000]);
}

#[test]
fn a_name_may_be_used_again_and_a_full_house_says_what_to_do() {
    let mut client = Client::with(Limits { subscriptions_max: 2, ..Limits::default() });
    for name in ["a", "b", "a", "b"] {
        let actions = client.says_json(&json!(["REQ", name, {}]));
        assert!(matches!(actions.as_slice(), [Action::Subscribe { .. }]));
    }
    let text = "rate-limited: 2 subscriptions are open; close one first";
    assert_eq!(client.hears(&json!(["REQ", "c", {}])), json!(["CLOSED", "c", text]));
    let closed = client.says(r#"["CLOSE","a"]"#);
    assert_eq!(closed, [Action::Unsubscribe { sub: sub("a") }]);
    assert_eq!(client.says(r#"["CLOSE","a"]"#), [], "closing twice is nothing");
    client.0.subscription_ended(&sub("b"), &mut Unlimited);
    assert_eq!((client.0.subscriptions(), client.0.retained_bytes()), (0, 0));
}

#[test]
fn a_refused_request_also_ends_the_subscription_it_would_have_replaced() {
    let too_many = json!(vec![json!({}); 21]);
    let mut bad_requests = vec![r#"["REQ","a",{"search":"x"}]"#.to_owned()];
    let mut flood = vec![json!("REQ"), json!("a")];
    flood.extend(too_many.as_array().unwrap().clone());
    bad_requests.push(Value::from(flood).to_string());
    for bad in bad_requests {
        let mut client = Client::new();
        client.says(r#"["REQ","a",{}]"#);
        let actions = client.says(&bad);
        let [Action::Unsubscribe { .. }, Action::Send(frame)] = actions.as_slice() else {
            panic!("{actions:?}")
        };
        assert!(frame.starts_with(r#"["CLOSED","a","#), "{frame}");
        assert_eq!((client.0.subscriptions(), client.0.retained_bytes()), (0, 0));
    }
}

#[test]
fn a_refused_count_leaves_the_subscription_of_that_name_alone() {
    let mut client = Client::new();
    client.says(r#"["REQ","a",{}]"#);
    assert_eq!(client.hears(&json!(["COUNT", "a", {"search": ""}]))[0], "CLOSED");
    assert_eq!(client.0.subscriptions(), 1);
    let count = client.says(r#"["COUNT","a",{"limit":3}]"#);
    assert!(matches!(count.as_slice(), [Action::Count { .. }]));
}

#[test]
fn filters_are_kept_within_what_a_connection_and_its_address_may_keep() {
    let limits = Limits {
        retained_filter_bytes_max: 1_000,
        retained_filter_bytes_per_ip_max: 1_500,
        ..Limits::default()
    };
    let mut budgets = Budgets::new(Arc::new(limits.clone()), Loopback::Exempt);
    let ip = IpKey::V4(Ipv4Addr::new(203, 0, 113, 7));
    let (mut one, mut two) = (Client::with(limits.clone()), Client::with(limits));
    let value = "x".repeat(600);
    let request = |name: &str| json!(["REQ", name, {"#t": [value]}]).to_string();

    let ask = |client: &mut Client, name: &str, budgets: &mut Budgets| {
        client.0.handle_text(&request(name), NOW, &mut budgets.of(ip));
        client.actions()
    };
    assert!(matches!(ask(&mut one, "a", &mut budgets)[..], [Action::Subscribe { .. }]));
    let own = only_frame(&ask(&mut one, "b", &mut budgets));
    assert!(own[2].as_str().unwrap().contains("1000 bytes"), "{own}");
    let shared = only_frame(&ask(&mut two, "a", &mut budgets));
    assert!(shared[2].as_str().unwrap().contains("1500 bytes"), "{shared}");
    one.0.end(&mut budgets.of(ip));
    assert!(matches!(ask(&mut two, "a", &mut budgets)[..], [Action::Subscribe { .. }]));
}

#[test]
fn a_hasty_publisher_is_told_when_to_come_back() {
    let mut budgets = Budgets::new(Arc::new(Limits::default()), Loopback::Exempt);
    let ip = IpKey::V4(Ipv4Addr::new(203, 0, 113, 7));
    let mut client = Client::new();
    let text = json!(["EVENT", event(1, &json!([]), "")]).to_string();
    for _ in 0..2_400 {
        client.0.handle_text(&text, NOW, &mut budgets.of(ip));
        assert!(matches!(client.actions()[..], [Action::Ingest(_)]));
    }
    client.0.handle_text(&text, NOW, &mut budgets.of(ip));
    let answer = only_frame(&client.actions());
    let why = "rate-limited: your address may send 1200 events per minute; try again in 1 s";
    assert_eq!((&answer[2], &answer[3]), (&json!(false), &json!(why)));
}

#[test]
fn reconciliations_are_opened_continued_and_closed() {
    let mut client = Client::with(Limits { neg_sessions_max: 1, ..Limits::default() });
    let open = r#"["NEG-OPEN","n",{"kinds":[1]},"61"]"#;
    assert!(matches!(client.says(open)[..], [Action::NegOpen { .. }]));
    assert!(matches!(client.says(open)[..], [Action::NegOpen { .. }]), "a second one replaces it");
    let full = client.hears(&json!(["NEG-OPEN", "m", {}, "61"]));
    assert!(full[2].as_str().unwrap().starts_with("blocked: "), "{full}");
    assert!(matches!(client.says(r#"["NEG-MSG","n","61"]"#)[..], [Action::NegMsg { .. }]));
    assert!(matches!(client.says(r#"["NEG-CLOSE","n"]"#)[..], [Action::NegClose { .. }]));
    assert_eq!(client.says(r#"["NEG-CLOSE","n"]"#), []);
    let unknown = client.hears(&json!(["NEG-MSG", "n", "61"]));
    assert_eq!((&unknown[0], &unknown[1]), (&json!("NEG-ERR"), &json!("n")));

    client.says(open);
    let broken = client.says(r#"["NEG-MSG","n","6"]"#);
    assert!(matches!(broken[..], [Action::NegClose { .. }, Action::Send(_)]), "{broken:?}");
    client.says(open);
    client.0.neg_ended(&sub("n"));
    assert_eq!(client.0.reconciliations(), 0);
}

#[test]
fn a_long_name_is_refused_by_that_name() {
    let name = "x".repeat(65);
    for (message, verb) in [
        (json!(["REQ", name, {}]), "CLOSED"),
        (json!(["COUNT", name, {}]), "CLOSED"),
        (json!(["NEG-OPEN", name, {}, "61"]), "NEG-ERR"),
    ] {
        let answer = Client::new().hears(&message);
        assert_eq!((&answer[0], &answer[1]), (&json!(verb), &json!(name)));
    }
}

#[test]
fn nonsense_gets_a_notice_and_the_connection_lives() {
    let mut client = Client::new();
    for text in ["", "hello", "{}", "[]", "[\"PING\"]", "[\"REQ\"]", "\u{0}"] {
        assert_eq!(only_frame(&client.says(text))[0], "NOTICE", "{text}");
    }
    client.0.handle_binary();
    assert_eq!(only_frame(&client.actions())[0], "NOTICE");
    assert!(matches!(client.says(r#"["REQ","a",{}]"#)[..], [Action::Subscribe { .. }]));
}

fn some_text() -> impl Strategy<Value = String> {
    let verb = prop::sample::select(vec![
        "EVENT",
        "REQ",
        "CLOSE",
        "COUNT",
        "AUTH",
        "NEG-OPEN",
        "NEG-MSG",
        "NEG-CLOSE",
        "X",
    ]);
    let events = vec![
        event(1, &json!([]), ""),
        event(1, &json!([["-"]]), ""),
        event(70_000, &json!([]), ""),
        auth_event("bb", "wss://relay.example", CHALLENGE, 1_700_000_000),
    ];
    let part = prop_oneof![
        4 => "[a-f]".prop_map(|name| json!(name)),
        4 => Just(json!({})),
        2 => prop::collection::vec("[a-z]{1,20}", 0..30).prop_map(|values| json!({"#t": values})),
        1 => Just(json!({"limit": 0})),
        1 => Just(json!("61")),
        1 => Just(json!(7)),
        2 => prop::sample::select(events),
    ];
    let message = (verb, prop::collection::vec(part, 0..6)).prop_map(|(verb, parts)| {
        let all: Vec<Value> = std::iter::once(json!(verb)).chain(parts).collect();
        Value::from(all).to_string()
    });
    let cut = (message, prop::option::weighted(0.2, 0usize..200))
        .prop_map(|(text, cut)| text.chars().take(cut.unwrap_or(usize::MAX)).collect::<String>());
    prop_oneof![8 => cut, 1 => any::<String>(), 1 => "[\\[\\]{}\",:a-zA-Z0-9# ]{0,60}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_is_said_gets_at_most_one_answer_and_the_session_stays_within_its_limits(
        texts in prop::collection::vec(some_text(), 1..60),
    ) {
        let limits = Limits {
            subscriptions_max: 4,
            neg_sessions_max: 2,
            retained_filter_bytes_max: 4_000,
            ..Limits::default()
        };
        let mut budgets = Budgets::new(Arc::new(limits.clone()), Loopback::Exempt);
        let ip = IpKey::V4(Ipv4Addr::new(203, 0, 113, 7));
        let mut client = Client::with(limits);
        for text in texts {
            client.0.handle_text(&text, NOW, &mut budgets.of(ip));
            let answers = client.actions().into_iter().filter(|action| match action {
                Action::Send(frame) => !frame.starts_with(r#"["AUTH""#),
                Action::Unsubscribe { .. } | Action::NegClose { .. } => false,
                _ => true,
            });
            prop_assert!(answers.count() <= 1, "{}", text);
            prop_assert!(client.0.subscriptions() <= 4 && client.0.reconciliations() <= 2);
            prop_assert!(client.0.retained_bytes() <= 4_000);
            prop_assert_eq!(client.0.retained_bytes(), client.0.subs.values().sum::<usize>());
        }
        client.0.end(&mut budgets.of(ip));
        budgets.sweep(NOW.plus(std::time::Duration::from_secs(86_400)));
        prop_assert!(budgets.is_empty(), "everything was given back");
    }
}
