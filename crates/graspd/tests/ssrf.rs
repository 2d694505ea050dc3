//! Strangers name the servers we talk to. None of their URLs, names or answers makes us open a
//! connection to an address that is not on the public internet; listeners there watch.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod common;
mod snare;

use futures_util::{SinkExt, StreamExt};
use grasp_core::RelayUrl;
use grasp_engine::Peer;
use grasp_testkit::{Client, http, until};
use graspd::outbound::{DialError, DialLimits, Dialer, Instance, Protocol, Rule, vet, vet_url};
use rustls::RootCertStore;
use serde_json::{Value, json};
use snare::{Names, Relay, Says, Traps, certificate, dialer, table};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use url::Url;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8));
const PUBLIC_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0, 0, 1));

fn relay(text: &str) -> RelayUrl {
    text.parse().unwrap()
}

/// Vets and resolves as ever, and stops before the first packet: nobody has a place.
fn without_places() -> DialLimits {
    DialLimits { links_per_address_max: 0, ..DialLimits::default() }
}

async fn failure(dialer: &Dialer, url: &str, rule: Rule) -> DialError {
    match dialer.dial(&relay(url), rule).await {
        Err(error) => error,
        Ok(dialled) => panic!("{url} was dialled at {}", dialled.address),
    }
}

fn is_crowded(error: &DialError) -> bool {
    matches!(error, DialError::Crowded { .. })
}

fn is_forbidden(error: &DialError) -> bool {
    matches!(error, DialError::Forbidden(why) if !why.is_empty())
}

#[tokio::test]
async fn s40_no_url_of_the_table_makes_us_connect_to_anything() {
    let traps = Traps::set().await;
    let names = Names::lead_to(&[&[LOOPBACK]]);
    let dialer = dialer(DialLimits::default()).resolving_by(names.clone());
    let port = traps.port.to_string();
    let hosts = table::HOSTS.iter().map(|host| format!("ws://{host}:PORT/"));
    let urls = hosts.chain(table::URLS.iter().map(|url| (*url).to_owned()));
    let urls: BTreeSet<String> = urls.map(|url| url.replace("PORT", &port)).collect();
    assert!(urls.len() >= 150, "{} URLs", urls.len());
    for url in &urls {
        // What is no relay address is not even asked about.
        let Ok(relay) = url.parse::<RelayUrl>() else { continue };
        let vetted = vet(&relay, Rule::Strangers);
        assert!(vetted.is_err(), "{url} became {vetted:?}");
        let error = dialer.dial(&relay, Rule::Strangers).await.unwrap_err();
        assert!(is_forbidden(&error), "{url}: {error:?}");
    }
    assert_eq!(names.asked(), 0, "nobody was asked where they lead");
    for name in table::NAMES {
        for scheme in ["ws", "wss"] {
            let url = format!("{scheme}://{name}:{port}");
            let error = failure(&dialer, &url, Rule::Strangers).await;
            let name = name.to_lowercase();
            let name = name.trim_end_matches('.');
            let why = format!("{name} leads to an address that is not on the public internet");
            assert_eq!(error, DialError::Forbidden(why), "and not a word about which");
        }
    }
    assert_eq!(names.asked(), table::NAMES.len() * 2);
    assert_eq!(traps.caught().await, 0);
}

#[tokio::test]
async fn s40_the_traps_would_have_caught_us() {
    let traps = Traps::set().await;
    let limits = DialLimits { handshake: Duration::from_millis(50), ..DialLimits::default() };
    let dialer = dialer(limits).resolving_by(Names::lead_to(&[&[LOOPBACK]]));
    for host in ["127.0.0.1", "0x7f.2", "[::1]", "[::ffff:127.0.0.2]", "0", "evil.com"] {
        let error = failure(&dialer, &format!("ws://{host}:{}", traps.port), Rule::Operator).await;
        assert!(matches!(error, DialError::Failed(_)), "{host}: {error:?}");
        let caught = traps.caught().await;
        assert!(caught >= 1, "{host}: {caught}");
    }
}

#[test]
fn s40_the_same_urls_lead_a_git_fetch_nowhere() {
    let hosts = table::HOSTS.iter().map(|host| format!("ws://{host}:PORT/"));
    let urls = hosts.chain(table::URLS.iter().map(|url| (*url).to_owned()));
    let mut parsed = 0;
    for url in urls.map(|url| url.replace("PORT", "7777")) {
        for scheme in ["http", "https", "ws", "git"] {
            let url = url.replacen("ws:", &format!("{scheme}:"), 1);
            let Ok(url) = Url::parse(&url) else { continue };
            // Here the table's own exceptions are public places after all.
            let is_public = matches!(url.host_str(), Some("relay.damus.io"))
                && url.username().is_empty()
                && url.password().is_none()
                && url.fragment().is_none()
                && url.port().is_none();
            let vetted = vet_url(&url, Protocol::Git, Rule::Strangers);
            assert!(vetted.is_err() || (is_public && url.scheme() != "ws"), "{url}: {vetted:?}");
            parsed += 1;
        }
    }
    assert!(parsed > 400, "{parsed}");
}

#[tokio::test]
async fn s40_one_private_address_in_an_answer_spoils_all_of_it() {
    let traps = Traps::set().await;
    let url = format!("ws://evil.com:{}", traps.port);
    let many_public: Vec<IpAddr> = (1..=100).map(|n| Ipv4Addr::new(9, 9, 9, n).into()).collect();
    let mut last_is_private = many_public.clone();
    last_is_private[99] = LOOPBACK;
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let forbidden: [Vec<IpAddr>; 12] = [
        vec![LOOPBACK],
        vec![PUBLIC, LOOPBACK],
        vec![LOOPBACK, PUBLIC],
        vec![PUBLIC_V6, ip("::1")],
        vec![PUBLIC, PUBLIC_V6, ip("127.0.0.2")],
        vec![ip("fd00::1")],
        vec![ip("fd00:ec2::254"), PUBLIC],
        vec![ip("::ffff:127.0.0.1")],
        vec![ip("64:ff9b::127.0.0.1"), PUBLIC_V6],
        vec![ip("169.254.169.254")],
        vec![ip("0.0.0.0")],
        last_is_private,
    ];
    for answer in &forbidden {
        let dialer = dialer(DialLimits::default()).resolving_by(Names::lead_to(&[answer]));
        let error = failure(&dialer, &url, Rule::Strangers).await;
        let DialError::Forbidden(why) = &error else { panic!("{answer:?}: {error:?}") };
        assert_eq!(why, "evil.com leads to an address that is not on the public internet");
    }
    assert_eq!(traps.caught().await, 0);
    for answer in [vec![PUBLIC], vec![PUBLIC, PUBLIC_V6], vec![ip("64:ff9b::808:808")], many_public]
    {
        let dialer = dialer(without_places()).resolving_by(Names::lead_to(&[&answer]));
        let error = failure(&dialer, &url, Rule::Strangers).await;
        assert!(is_crowded(&error), "{answer:?}: {error:?}");
    }
}

#[tokio::test]
async fn s40_a_name_is_resolved_once_for_each_dial_and_vetted_each_time() {
    let names = Names::lead_to(&[&[PUBLIC], &[LOOPBACK], &[PUBLIC], &[PUBLIC, LOOPBACK]]);
    let dialer = dialer(without_places()).resolving_by(names.clone());
    let mut asked = 0;
    for permitted in [true, false, true, false] {
        let error = failure(&dialer, "wss://rebinding.evil.com", Rule::Strangers).await;
        asked += 1;
        assert_eq!(names.asked(), asked);
        assert_eq!(is_crowded(&error), permitted, "{error:?}");
        assert_eq!(is_forbidden(&error), !permitted);
    }
}

#[tokio::test]
async fn s40_socket_and_probe_go_to_the_address_that_was_vetted_whatever_the_name_says_later() {
    let traps = Traps::set().await;
    let it = Relay::plain(Says::socket(), Says::info("{}")).await;
    let elsewhere: IpAddr = "127.0.0.2".parse().unwrap();
    let names = Names::lead_to(&[&[LOOPBACK], &[elsewhere]]);
    let dialer = dialer(DialLimits::default()).resolving_by(names.clone());
    let dialled = dialer.dial(&relay(&it.url_as("ws", "evil.com")), Rule::Operator).await.unwrap();
    assert_eq!((dialled.address, names.asked()), (it.address, 1));
    assert_eq!(it.heads().len(), 2, "both came here");
    assert_eq!(traps.caught().await, 0);
}

#[tokio::test]
async fn s40_names_that_lead_nowhere_fail_without_a_word_about_our_resolver() {
    for names in [Names::lead_to(&[]), Names::lead_to(&[&[]])] {
        let dialer = dialer(DialLimits::default()).resolving_by(names);
        let error = failure(&dialer, "wss://gone.evil.com", Rule::Strangers).await;
        let why = "the name gone.evil.com cannot be resolved";
        assert_eq!(error, DialError::Failed(why.into()));
    }
    let limits = DialLimits { lookup: Duration::from_millis(20), ..DialLimits::default() };
    let dialer = dialer(limits).resolving_by(Arc::new(Silence));
    let error = failure(&dialer, "wss://slow.evil.com", Rule::Strangers).await;
    let why = "nobody answered in time where slow.evil.com is";
    assert_eq!(error, DialError::Failed(why.into()));
}

struct Silence;

impl graspd::outbound::Resolve for Silence {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> graspd::outbound::Lookup<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn s40_the_machines_own_resolver_is_asked_for_names() {
    let it = Relay::plain(Says::socket(), Says::info("{}")).await;
    let url = it.url_as("ws", "localhost");
    let dialer = dialer(DialLimits::default());
    assert!(dialer.dial(&relay(&url), Rule::Operator).await.is_ok());
    assert!(is_forbidden(&failure(&dialer, &url, Rule::Strangers).await));
}

#[tokio::test]
async fn s40_redirects_are_not_followed() {
    let traps = Traps::set().await;
    let dialer = dialer(DialLimits::default());
    for status in [301, 302, 303, 307, 308] {
        for scheme in ["ws", "http"] {
            let to = format!("Location: {scheme}://127.0.0.1:{}/\r\n", traps.port);
            let away = || Says::page(status, &to, r#"{"limitation":{"max_subscriptions":3}}"#);
            let it = Relay::plain(away(), Says::info("{}")).await;
            let error = failure(&dialer, &it.url(), Rule::Operator).await;
            let why = format!("127.0.0.1: it answers with status {status}");
            assert_eq!(error, DialError::Failed(why));
            let it = Relay::plain(Says::socket(), away()).await;
            let dialled = dialer.dial(&relay(&it.url()), Rule::Operator).await.unwrap();
            assert_eq!(dialled.peer, Peer::default());
        }
    }
    assert_eq!(traps.caught().await, 0);
}

#[tokio::test]
async fn s40_a_certificate_must_be_trusted_and_have_the_name_we_dialled() {
    let it =
        Relay::secure(Says::socket(), Says::info(r#"{"supported_grasps":["GRASP-01"]}"#)).await;
    let names = Names::lead_to(&[&[LOOPBACK]]);
    let distrusting = dialer(DialLimits::default()).resolving_by(names);
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let trusting = distrusting.clone().trusting(roots).unwrap();
    let right = it.url_as("wss", "relay.snare.test");
    let mut dialled = trusting.dial(&relay(&right), Rule::Operator).await.unwrap();
    assert!(dialled.peer.grasp, "the probe speaks TLS, too");
    assert_eq!(dialled.socket.next().await.unwrap().unwrap(), Message::text("hello"));
    for (dialer, url) in [
        (&distrusting, right),
        (&trusting, it.url_as("wss", "other.snare.test")),
        (&trusting, it.url_as("wss", "snare.test")),
        (&trusting, it.url_as("wss", "127.0.0.1")),
    ] {
        let error = failure(dialer, &url, Rule::Operator).await;
        let DialError::Failed(why) = &error else { panic!("{url}: {error:?}") };
        assert!(why.ends_with(": its certificate is not valid for this name"), "{why}");
    }
}

#[tokio::test]
async fn s40_who_does_not_speak_as_announced_fails_in_few_words() {
    let dialer = dialer(DialLimits::default());
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let forged = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Accept: AAAA\r\n\r\n";
    let bytes = |bytes: &str| Relay::plain(Says::Bytes(bytes.into()), Says::info("{}"));
    let page = Relay::plain(Says::page(404, "", "x"), Says::info("{}")).await;
    for (url, why) in [
        (format!("ws://{nobody}"), "connection refused"),
        (page.url(), "it answers with status 404"),
        (bytes("SSH-2.0-OpenSSH_9.2\r\n").await.url(), "it does not speak WebSocket as it should"),
        (bytes(forged).await.url(), "it does not speak WebSocket as it should"),
        (bytes("").await.url(), "it hung up"),
    ] {
        let error = failure(&dialer, &url, Rule::Operator).await;
        assert_eq!(error, DialError::Failed(format!("127.0.0.1: {why}")), "{url}");
    }
}

#[tokio::test]
async fn s40_who_says_nothing_is_not_waited_for() {
    let ms = Duration::from_millis(100);
    let dialer = dialer(DialLimits { tls: ms, handshake: ms, ..DialLimits::default() });
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    let drip = Says::Drip(b"HTTP/1.1 101 X\r\nA: ".to_vec());
    let drip = Relay::plain(drip, Says::info("{}")).await;
    let plain = Relay::plain(Says::socket(), Says::info("{}")).await;
    for (url, why) in [
        (format!("wss://{silent}"), "no TLS in time"),
        // It waits for a request that makes sense to it, and we for a greeting.
        (plain.url_as("wss", "127.0.0.1"), "no TLS in time"),
        (format!("ws://{silent}"), "no WebSocket in time"),
        (drip.url(), "no WebSocket in time"),
    ] {
        let error = failure(&dialer, &url, Rule::Operator).await;
        assert_eq!(error, DialError::Failed(format!("127.0.0.1: {why}")), "{url}");
    }
}

#[tokio::test]
async fn s11_a_relay_is_asked_what_it_is_while_we_greet_it() {
    let limitation = json!({"max_subscriptions": 7, "max_message_length": 5, "default_limit": 3});
    let info = json!({
        "limitation": limitation, "supported_grasps": ["GRASP-01"],
        "git_limits": {"requests_per_minute": 900},
    });
    let info = info.to_string();
    let it = Relay::plain(Says::socket(), Says::info(&info)).await;
    let instance = Instance::random().unwrap();
    let dialer = Dialer::new(instance.clone(), DialLimits::default()).unwrap();
    let url = format!("{}/nostr?key=1", it.url());
    let mut dialled = dialer.dial(&relay(&url), Rule::Operator).await.unwrap();
    let told = Peer {
        subscriptions_max: Some(7),
        message_bytes_max: Some(5),
        limit_default: Some(3),
        grasp: true,
        git_requests_per_minute: Some(900),
        nip77: None,
    };
    assert_eq!((dialled.peer, dialled.address), (told, it.address));
    assert_eq!(dialled.socket.next().await.unwrap().unwrap(), Message::text("hello"));
    dialled.socket.send(Message::text("echo")).await.unwrap();
    assert_eq!(dialled.socket.next().await.unwrap().unwrap(), Message::text("echo"));
    let heads = it.heads();
    assert_eq!(heads.len(), 2);
    for head in heads {
        assert!(head.starts_with("GET /nostr?key=1 HTTP/1.1\r\n"), "{head}");
        let lower = head.to_lowercase();
        for line in [
            format!("host: {}", it.address),
            format!("user-agent: graspd/{}", env!("CARGO_PKG_VERSION")),
            format!("grasp-instance: {}", instance.as_str()),
        ] {
            assert!(lower.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
        }
        let asks = lower.contains("\r\naccept: application/nostr+json\r\n");
        assert_eq!(asks, !lower.contains("\r\nupgrade: websocket\r\n"), "{head}");
        assert_eq!(asks, lower.contains("\r\naccept-encoding: identity\r\n"), "{head}");
    }
}

#[tokio::test]
async fn s11_a_relay_that_says_nothing_useful_about_itself_is_linked_all_the_same() {
    let good = r#"{"limitation":{"max_subscriptions":3}}"#;
    let long = format!("{good}{}", " ".repeat(1 << 20));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let endless = format!("{chunked}{}0\r\n\r\n", chunk.repeat(16));
    let bomb = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(50_000));
    for info in [
        Says::info(&long),
        Says::Bytes(endless.into_bytes()),
        Says::Bytes(bomb.into_bytes()),
        Says::page(404, "", good),
        Says::page(206, "", good),
        Says::page(200, "Content-Encoding: gzip\r\n", "\u{1f}"),
        Says::info("<html>"),
        Says::Bytes(Vec::new()),
        Says::Bytes(b"not http at all\r\n\r\n".to_vec()),
        Says::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec()),
    ] {
        let it = Relay::plain(Says::socket(), info).await;
        let dialer = dialer(DialLimits::default());
        let mut dialled = dialer.dial(&relay(&it.url()), Rule::Operator).await.unwrap();
        assert_eq!(dialled.peer, Peer::default());
        assert_eq!(dialled.socket.next().await.unwrap().unwrap(), Message::text("hello"));
    }
}

#[tokio::test]
async fn s11_a_document_that_drips_is_waited_for_three_seconds_and_no_longer() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{";
    let it = Relay::plain(Says::socket(), Says::Drip(head.to_vec())).await;
    let began = Instant::now();
    let dialer = dialer(DialLimits::default());
    let mut dialled = dialer.dial(&relay(&it.url()), Rule::Operator).await.unwrap();
    let took = began.elapsed();
    assert!((Duration::from_secs(3)..Duration::from_secs(8)).contains(&took), "{took:?}");
    assert_eq!(dialled.peer, Peer::default());
    assert_eq!(dialled.socket.next().await.unwrap().unwrap(), Message::text("hello"));
}

#[tokio::test]
async fn s40_we_know_ourselves_by_our_document_or_by_our_refusal() {
    let instance = Instance::random().unwrap();
    let dialer = Dialer::new(instance.clone(), DialLimits::default()).unwrap();
    let mirror = json!({"instance": instance.as_str()}).to_string();
    let by_document = Relay::plain(Says::socket(), Says::info(&mirror)).await;
    let ours = format!("Grasp-Instance: {}\r\n", instance.as_str());
    let by_refusal = Relay::plain(Says::page(409, &ours, "ourselves\n"), Says::info("{}")).await;
    for it in [by_document, by_refusal] {
        assert_eq!(failure(&dialer, &it.url(), Rule::Operator).await, DialError::Ourselves);
    }
    let other = Relay::plain(Says::page(409, "Grasp-Instance: 00\r\n", ""), Says::info("{}")).await;
    let error = failure(&dialer, &other.url(), Rule::Operator).await;
    assert_eq!(error, DialError::Failed("127.0.0.1: it answers with status 409".into()));
}

#[tokio::test]
async fn s40_a_server_shows_its_nonce_and_refuses_a_socket_that_carries_it() {
    let mut server = common::server(&[]).await;
    let accept = [("Accept", "application/nostr+json")];
    let nonce = async |address: &str| {
        let page = http("GET", address, &accept).await;
        let info: Value = serde_json::from_str(&page.body).unwrap();
        info["instance"].as_str().unwrap().to_owned()
    };
    let first = nonce(&server.address).await;
    assert_eq!((first.len(), nonce(&server.address).await), (32, first.clone()));
    assert!(Client::try_connect(&server.url(), &[("Grasp-Instance", &first)]).await.is_none());
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("Grasp-Instance", first.as_str()),
    ];
    let refusal = http("GET", &server.address, &upgrade).await;
    assert_eq!((refusal.status, refusal.body.as_str()), (409, "ourselves\n"));
    assert_eq!(refusal.header("grasp-instance"), Some(first.as_str()));
    let dialled = dialer(DialLimits::default()).dial(&relay(&server.url()), Rule::Operator).await;
    let peer = dialled.unwrap().peer;
    assert!(peer.grasp && peer.subscriptions_max.is_some(), "another server is welcome: {peer:?}");
    assert!(server.stop().await);
    server.restart().await;
    assert_ne!(nonce(&server.address).await, first, "new at every start");
}

#[tokio::test]
async fn an_address_has_so_many_links_and_gets_a_place_back_with_every_one_that_ends() {
    let it = Relay::plain(Says::socket(), Says::info("{}")).await;
    let limits = DialLimits { links_per_address_max: 2, ..DialLimits::default() };
    let names = Names::lead_to(&[&[LOOPBACK]]);
    let dialer = dialer(limits).resolving_by(names);
    let dial = async |name: &str| {
        let url = relay(&it.url_as("ws", name));
        dialer.clone().dial(&url, Rule::Operator).await
    };
    let first = dial("one.evil.com").await.unwrap();
    let second = dial("two.evil.com").await.unwrap();
    let full = DialError::Crowded { address: LOOPBACK };
    assert_eq!(dial("three.evil.com").await.unwrap_err(), full);
    drop(first);
    let third = dial("three.evil.com").await.unwrap();
    assert_eq!(dial("127.0.0.1").await.unwrap_err(), full);
    let (socket, _, _) = (second.socket, second.peer, second.address);
    assert_eq!(dial("one.evil.com").await.unwrap_err(), full, "the socket keeps it");
    drop((socket, third));
    let refused = Relay::plain(Says::page(404, "", ""), Says::info("{}")).await;
    for _ in 0..5 {
        let error = failure(&dialer, &refused.url(), Rule::Operator).await;
        assert!(matches!(error, DialError::Failed(_)), "a failed dial keeps no place: {error:?}");
    }
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_link_and_one_below_does_not() {
    let limits = DialLimits { message_bytes_max: 100_000, ..DialLimits::default() };
    let dialer = dialer(limits);
    for (len, fits) in [(100_000, true), (100_001, false)] {
        let it = Relay::plain(Says::Socket("x".repeat(len)), Says::info("{}")).await;
        let mut dialled = dialer.dial(&relay(&it.url()), Rule::Operator).await.unwrap();
        assert_eq!(dialled.socket.next().await.unwrap().is_ok(), fits, "{len}");
    }
}

#[tokio::test]
async fn a_dial_that_nobody_waits_for_any_longer_leaves_nothing_behind() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = relay(&format!("ws://{}", silent.local_addr().unwrap()));
    let limits = DialLimits { links_per_address_max: 1, ..DialLimits::default() };
    let dialer = dialer(limits);
    let (waiting, target) = (dialer.clone(), url.clone());
    let dialling = tokio::spawn(async move { waiting.dial(&target, Rule::Operator).await });
    silent.accept().await.unwrap();
    assert!(is_crowded(&dialer.dial(&url, Rule::Operator).await.unwrap_err()));
    dialling.abort();
    assert!(dialling.await.is_err());
    until("the place is free again", || async {
        let short =
            tokio::time::timeout(Duration::from_millis(50), dialer.dial(&url, Rule::Operator));
        !matches!(short.await, Ok(Err(DialError::Crowded { .. })))
    })
    .await;
}
