//! A relay that sends announcements of invented keys is taken up to its budget for refused events, and
//! costs other relays nothing (S-47).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::mirrors::{Follower, Listener, metric};
use common::{acme, alice};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::behaviour::{Behaviour, Door};
use grasp_testkit::chaos::{ChaosRelay, Seen};
use grasp_testkit::{Author, Draft, http, now, until};
use serde_json::Value;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What one relay may send of refused events in a day, with what is on its way.
const TAKEN_BYTES_MAX: u64 = 17 * MIB;
const REFUSED_BY_HONEST: u64 = 50;

fn invented(number: u64, content: &str) -> VerifiedEvent {
    let draft = Draft::new(Kind::ANNOUNCEMENT, now() - 1_000 - number / 50)
        .tag(&["d", &format!("invented-{number}")])
        .tag(&["clone", "https://elsewhere.example/x.git"])
        .tag(&["relays", "wss://elsewhere.example"]);
    Author::number(4_000_000 + number).signs(draft.content(content))
}

async fn relay_report(follower: &Follower, relay: &ChaosRelay) -> Value {
    let place = format!("{}/api/v1/relays", follower.server.address);
    let page: Value = serde_json::from_str(&http("GET", &place, &[]).await.body).unwrap();
    let named = |it: &&Value| it["relay"].as_str().is_some_and(|it| it.contains(relay.address()));
    page["relays"].as_array().unwrap().iter().find(named).cloned().unwrap_or_default()
}

async fn told(follower: &Follower, args: &[&str]) -> String {
    let out = follower.server.command(args).output().await.unwrap();
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

/// The 99th percentile of how long a live event of the honest relay takes.
async fn live_p99(
    honest: &ChaosRelay,
    listener: &mut Listener,
    events: usize,
    phase: &str,
) -> Duration {
    let mut took = Vec::new();
    for number in 0..events {
        let issue = acme().issue(&alice(), now(), &format!("{number} of {events} {phase}"));
        honest.publishes(&issue);
        took.push(listener.hears(&issue.id).await);
    }
    took.sort_unstable();
    took[events * 99 / 100]
}

struct Flood {
    announcements: u64,
    content_bytes: usize,
    /// Its pages move back; else it names its events by NIP-77.
    pages: bool,
    live_events: usize,
    growth_kib_max: u64,
}

impl Flood {
    fn behaviour(&self) -> Behaviour {
        match self.pages {
            true => Behaviour {
                negentropy: Behaviour::common().negentropy,
                hints: false,
                ..Behaviour::honest()
            },
            false => Behaviour::honest(),
        }
    }

    /// Returns the server, the relay that floods and the p99 of live events without and with it.
    async fn runs(&self) -> (Follower, ChaosRelay, [Duration; 2]) {
        let closed = Behaviour { door: Door::Refuses, ..self.behaviour() };
        let (bad, honest) =
            (ChaosRelay::start(closed).await, ChaosRelay::start(Behaviour::honest()).await);
        let content = "x".repeat(self.content_bytes);
        for number in 0..self.announcements {
            bad.publishes(&invented(number, &content));
        }
        let refused: Vec<VerifiedEvent> = (0..REFUSED_BY_HONEST)
            .map(|number| invented(self.announcements + number, ""))
            .collect();
        refused.iter().for_each(|event| honest.publishes(event));
        let follower = Follower::of(&[honest.url(), bad.url()]).await;
        until("the honest relay was read", || async {
            relay_report(&follower, &honest).await["refused"]["refused"] == REFUSED_BY_HONEST
        })
        .await;
        let mut listener = follower.listener().await;
        let without = live_p99(&honest, &mut listener, self.live_events, "before").await;
        let before = follower.server.anonymous_kib();
        bad.becomes(self.behaviour());
        told(&follower, &["sync", "now", bad.url(), "--no-wait"]).await;
        let flooding = live_p99(&honest, &mut listener, self.live_events, "during").await;
        until("the flood ended", || async {
            relay_report(&follower, &bad).await["refused"]["by_name"] == true
        })
        .await;
        let grown = follower.server.anonymous_kib().saturating_sub(before);
        println!("live p99 {without:?} before and {flooding:?} during the flood, {grown} KiB more");
        assert!(grown < self.growth_kib_max, "{grown} KiB");
        // What the honest relay sent and was refused is still known: nothing is fetched again.
        let asked = honest.seen().requests;
        told(&follower, &["sync", "now", honest.url()]).await;
        let Seen { requests, last_requests, .. } = honest.seen();
        let asked_since = usize::try_from(requests - asked).unwrap();
        let named = last_requests.iter().rev().take(asked_since).flatten();
        let mut named = named.filter_map(|filter| filter.ids.as_ref());
        assert!(!named.any(|ids| refused.iter().any(|event| ids.has(&event.id))));
        (follower, bad, [without, flooding])
    }
}

/// Nothing more comes, and the operator reads why.
async fn is_reported(follower: &Follower, bad: &ChaosRelay) {
    let report = relay_report(follower, bad).await;
    let refused = &report["refused"];
    let taken = refused["refused_bytes"].as_u64().unwrap();
    println!("{refused}; {} bytes at the relay's socket", bad.seen().bytes_sent);
    assert!(taken <= TAKEN_BYTES_MAX, "{taken}");
    assert!(report["explain"].as_str().unwrap().contains("asked only for known repositories"));
    let page = http("GET", &format!("{}/relays", follower.server.address), &[]).await.body;
    assert!(page.contains("asked only for known repositories"));
    follower.server.logs("the relay is asked by the names of our repositories").await;
}

#[tokio::test]
async fn s47_a_flood_by_one_relay_ends_at_its_budget_and_is_reported() {
    // Large events that may become welcome are kept for a while, up to 8 MiB.
    let flood = Flood {
        announcements: 2_500,
        content_bytes: 9_000,
        pages: false,
        live_events: 20,
        growth_kib_max: 40 << 10,
    };
    let (mut follower, bad, _) = flood.runs().await;
    is_reported(&follower, &bad).await;
    until("the problem is a figure", || async {
        metric(&follower.server, r#"ngit_problems{code="relay-refused-events"}"#).await == 1
    })
    .await;
    assert!(told(&follower, &["status"]).await.contains(bad.address()));
    let sent = bad.seen().events_sent;
    assert!(follower.server.stop().await);
    follower.server.restart().await;
    until("it is linked again", || async {
        relay_report(&follower, &bad).await["connected"] == true
    })
    .await;
    // Asked for by name, an announcement of a repository that is known here comes all the same.
    let issue = acme().issue(&alice(), now(), "after the flood");
    bad.publishes(&issue);
    follower.has(&[&issue]).await;
    let more = bad.seen().events_sent - sent;
    assert!(more < 100, "{more} events came after the restart");
}

#[tokio::test]
#[ignore = "full size; see scripts/flood"]
async fn s47_a_flood_of_400000_announcements_costs_other_relays_nothing() {
    let flood = Flood {
        announcements: 400_000,
        content_bytes: 1_000,
        pages: true,
        live_events: 300,
        growth_kib_max: 20 << 10,
    };
    let (follower, bad, [without, flooding]) = flood.runs().await;
    is_reported(&follower, &bad).await;
    assert!(flooding <= 3 * without, "{flooding:?} instead of {without:?}");
    assert!(bad.seen().bytes_sent <= TAKEN_BYTES_MAX, "{}", bad.seen().bytes_sent);
}
