//! Strangers name the git servers we fetch from. None of their URLs, names or answers makes us open a
//! connection to an address that is not on the public internet; listeners there watch.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod snare;

use bytes::Bytes;
use grasp_core::CloneUrl;
use graspd::clock::Clock;
use graspd::outbound::{
    Ask, CallError, CallLimits, Caller, DialLimits, Dialer, Instance, Rule, StartLimits,
};
use rustls::RootCertStore;
use snare::{Names, Relay, Says, Traps, certificate, table};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8));

fn caller(names: &Arc<Names>, limits: CallLimits) -> Caller {
    let dialer = Dialer::new(Instance::random().unwrap(), DialLimits::default()).unwrap();
    let dialer = dialer.resolving_by(Arc::<Names>::clone(names));
    Caller::new(dialer, Arc::new(Clock::default()), limits)
}

/// Vets and resolves as ever, and stops before the first packet.
fn without_places() -> CallLimits {
    CallLimits { connections_per_address_max: 0, ..CallLimits::default() }
}

fn url(text: &str) -> CloneUrl {
    text.parse().unwrap()
}

fn asks() -> Ask {
    let kind = "application/x-git-upload-pack-request";
    Ask { path: "git-upload-pack", accept: "*/*", v2: true, body: Some((kind, Bytes::from("x"))) }
}

async fn refusal(caller: &Caller, text: &str, rule: Rule) -> CallError {
    match caller.open(&url(text), rule).await {
        Err(error) => error,
        Ok(mut connection) => match connection.request(&asks()).await {
            Err(error) => error,
            Ok(answer) => panic!("{text} answered {}", answer.status),
        },
    }
}

#[tokio::test]
async fn s40_no_url_of_the_table_makes_a_fetch_connect_to_anything() {
    let traps = Traps::set().await;
    let names = Names::lead_to(&[&[LOOPBACK]]);
    let caller = caller(&names, CallLimits::default());
    let port = traps.port.to_string();
    let hosts = table::HOSTS.iter().map(|host| format!("ws://{host}:PORT/"));
    let urls = hosts.chain(table::URLS.iter().map(|url| (*url).to_owned()));
    let urls: BTreeSet<String> = urls.map(|url| url.replace("PORT", &port)).collect();
    let mut tried = 0;
    for url in &urls {
        for scheme in ["http", "https"] {
            let url = url.replacen("ws:", &format!("{scheme}:"), 1);
            let url = url.replacen("wss:", &format!("{scheme}:"), 1);
            // What is no clone address is not even asked about.
            let Ok(url) = url.parse::<CloneUrl>() else { continue };
            // Some of them are wrong for relays alone.
            if url.to_url().is_some_and(|url| url.host_str() == Some("relay.damus.io")) {
                continue;
            }
            let error = caller.open(&url, Rule::Strangers).await.unwrap_err();
            assert!(matches!(&error, CallError::Forbidden(_)), "{url}: {error:?}");
            tried += 1;
        }
    }
    assert!(tried >= 200, "{tried}");
    assert_eq!(names.asked(), 0, "nobody was asked where they lead");
    for name in table::NAMES {
        let error = refusal(&caller, &format!("http://{name}:{port}/a.git"), Rule::Strangers).await;
        let name = name.to_lowercase();
        let name = name.trim_end_matches('.');
        let why = format!("{name} leads to an address that is not on the public internet");
        assert_eq!(error, CallError::Forbidden(why), "and not a word about which");
    }
    assert_eq!(names.asked(), table::NAMES.len());
    assert_eq!(traps.caught().await, 0);
}

#[tokio::test]
async fn s40_one_private_address_in_an_answer_spoils_all_of_it_for_a_fetch() {
    let traps = Traps::set().await;
    let text = format!("http://evil.com:{}/a.git", traps.port);
    for answer in [
        vec![LOOPBACK],
        vec![PUBLIC, LOOPBACK],
        vec![LOOPBACK, PUBLIC],
        vec![PUBLIC, "::ffff:127.0.0.1".parse().unwrap()],
        vec!["64:ff9b::127.0.0.1".parse().unwrap()],
        vec!["169.254.169.254".parse().unwrap()],
    ] {
        let caller = caller(&Names::lead_to(&[&answer]), CallLimits::default());
        let error = refusal(&caller, &text, Rule::Strangers).await;
        let why = "evil.com leads to an address that is not on the public internet";
        assert_eq!(error, CallError::Forbidden(why.into()), "{answer:?}");
    }
    assert_eq!(traps.caught().await, 0);
    let caller = caller(&Names::lead_to(&[&[PUBLIC]]), without_places());
    let error = refusal(&caller, &text, Rule::Strangers).await;
    assert!(matches!(error, CallError::Crowded { .. }), "{error:?}");
}

#[tokio::test]
async fn s40_a_name_is_resolved_once_for_a_fetch_whatever_it_says_later() {
    let traps = Traps::set().await;
    let it = Relay::plain(Says::socket(), Says::page(200, "", "x")).await;
    let names = Names::lead_to(&[&[LOOPBACK], &["127.0.0.2".parse().unwrap()]]);
    let caller = caller(&names, CallLimits::default());
    let place = url(&(it.url_as("http", "evil.com") + "/a.git"));
    let mut connection = caller.open(&place, Rule::Operator).await.unwrap();
    // The server hangs up after every answer, so each request needs a connection of its own.
    for asked in 1..=3 {
        let mut answer = connection.request(&asks()).await.unwrap();
        while answer.piece().await.unwrap().is_some() {}
        assert_eq!((names.asked(), it.heads().len()), (1, asked));
    }
    for head in it.heads() {
        assert!(head.starts_with("POST /a.git/git-upload-pack HTTP/1.1\r\n"), "{head}");
    }
    assert_eq!(traps.caught().await, 0);
    let rebinding = Names::lead_to(&[&[PUBLIC], &[LOOPBACK]]);
    let caller = self::caller(&rebinding, without_places());
    for permitted in [true, false] {
        let error = refusal(&caller, "http://rebinding.evil.com/a.git", Rule::Strangers).await;
        assert_eq!(matches!(error, CallError::Crowded { .. }), permitted, "{error:?}");
        assert_eq!(matches!(error, CallError::Forbidden(_)), !permitted, "{error:?}");
    }
}

#[tokio::test]
async fn s40_a_redirect_is_not_followed_by_a_fetch() {
    let traps = Traps::set().await;
    let caller = caller(&Names::lead_to(&[&[LOOPBACK]]), CallLimits::default());
    for status in [300, 301, 302, 303, 304, 307, 308] {
        for scheme in ["http", "https"] {
            let to = format!("Location: {scheme}://127.0.0.1:{}/a.git\r\n", traps.port);
            let it = Relay::plain(Says::socket(), Says::page(status, &to, "")).await;
            let place = it.url_as("http", "127.0.0.1") + "/a.git";
            let error = refusal(&caller, &place, Rule::Operator).await;
            let why = "127.0.0.1: it redirects elsewhere, which is not followed";
            assert_eq!(error, CallError::Failed(why.into()), "{status}");
        }
    }
    assert_eq!(traps.caught().await, 0);
}

#[tokio::test]
async fn s40_a_git_servers_certificate_must_be_trusted_and_have_the_name_we_asked_for() {
    let it = Relay::secure(Says::socket(), Says::page(200, "", "x")).await;
    let names = Names::lead_to(&[&[LOOPBACK]]);
    let dialer = Dialer::new(Instance::random().unwrap(), DialLimits::default()).unwrap();
    let distrusting = dialer.resolving_by(names);
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let trusting = distrusting.clone().trusting(roots).unwrap();
    let calls =
        |dialer: Dialer| Caller::new(dialer, Arc::new(Clock::default()), CallLimits::default());
    let (trusting, distrusting) = (calls(trusting), calls(distrusting));
    let right = it.url_as("https", "relay.snare.test") + "/a.git";
    let mut connection = trusting.open(&url(&right), Rule::Operator).await.unwrap();
    let mut answer = connection.request(&asks()).await.unwrap();
    assert_eq!(answer.piece().await.unwrap(), Some(Bytes::from("x")));
    for (caller, place) in [
        (&distrusting, right),
        (&trusting, it.url_as("https", "other.snare.test") + "/a.git"),
        (&trusting, it.url_as("https", "127.0.0.1") + "/a.git"),
    ] {
        let CallError::Failed(why) = refusal(caller, &place, Rule::Operator).await else {
            panic!("{place}")
        };
        assert!(why.ends_with(": its certificate is not valid for this name"), "{why}");
    }
}

#[tokio::test]
async fn s40_who_does_not_speak_http_fails_in_few_words() {
    let caller = caller(&Names::lead_to(&[&[LOOPBACK]]), CallLimits::default());
    let bomb = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(50_000));
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    for (bytes, why) in [
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "it does not speak HTTP as it should"),
        ("", "it hung up"),
        ("HTTP/1.1 200 OK\r\nX:", "it hung up"),
        (bomb.as_str(), "its answer begins with too many headers"),
        (long.as_str(), "its answer begins with too many headers"),
    ] {
        let it = Relay::plain(Says::socket(), Says::Bytes(bytes.into())).await;
        let place = it.url_as("http", "127.0.0.1") + "/a.git";
        let error = refusal(&caller, &place, Rule::Operator).await;
        let shown = bytes.get(..20).unwrap_or(bytes);
        assert_eq!(error, CallError::Failed(format!("127.0.0.1: {why}")), "{shown}");
    }
}

#[tokio::test]
async fn s35_names_share_the_requests_of_their_address() {
    let it = Relay::plain(Says::socket(), Says::page(200, "", "x")).await;
    let starts = StartLimits { starts_max: 2, ..StartLimits::default() };
    let limits = CallLimits { starts, ..CallLimits::default() };
    let caller = caller(&Names::lead_to(&[&[LOOPBACK]]), limits);
    for (name, fits) in [("one.evil.com", true), ("two.evil.com", true), ("three.evil.com", false)]
    {
        let place = url(&(it.url_as("http", name) + "/a.git"));
        match caller.clone().open(&place, Rule::Operator).await {
            Ok(mut connection) => assert!(connection.request(&asks()).await.is_ok() && fits),
            Err(error) => assert!(matches!(error, CallError::Crowded { .. }) && !fits),
        }
    }
    assert_eq!(it.heads().len(), 2);
}
