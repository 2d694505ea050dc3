//! Ten thousand strangers announce repositories that name ten thousand relays. It costs a bounded
//! amount of memory, few dials, and nobody else anything.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::mirrors::{Follower, metrics};
use common::{acme, alice};
use grasp_core::Kind;
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Author, Behaviour, Client, Draft, Repository, now};
use std::time::Duration;

const SPAMMERS: u64 = 10_000;
const RELAYS_EACH: u64 = 20;
const GROWTH_KIB_MAX: u64 = 200 << 10;

#[tokio::test]
async fn s24_ten_thousand_spam_announcements_cost_bounded_memory_and_hold_up_nobody() {
    let honest = ChaosRelay::start(Behaviour::honest()).await;
    let follower = Follower::of(&[honest.url()]).await;
    let first = acme().issue(&alice(), now() - 10, "before the flood");
    honest.publishes(&first);
    follower.has(&[&first]).await;
    let before = follower.server.anonymous_kib();

    let mut client = Client::connect(&follower.server.url()).await;
    let address = follower.server.address.clone();
    for n in 0..SPAMMERS {
        let spammer = Author::number(1_000_000 + n);
        let spam = Repository::new(spammer.clone(), "spam");
        let relays: Vec<String> = (0..RELAYS_EACH)
            .map(|k| format!("wss://r{}.invalid", (n * 7 + k * 501) % 10_000))
            .collect();
        let mut listed = vec!["relays".to_owned(), format!("ws://{address}")];
        listed.extend(relays);
        let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
        let draft = Draft::new(Kind::ANNOUNCEMENT, now())
            .tag(&["d", "spam"])
            .tag(&["clone", &spam.clone_url(&address)])
            .tag(&listed);
        client.offers(&spammer.signs(draft)).await;
    }
    // A question on the same connection is answered after all of it was judged.
    client.fence().await;

    let mut listener = follower.listener().await;
    let live = acme().issue(&alice(), now(), "in the middle of the flood");
    honest.publishes(&live);
    let took = listener.hears(&live.id).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let grown = follower.server.anonymous_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB more");
    let tracked = metrics(&follower.server, "ngit_sync_relays_tracked_total", "").await;
    assert!((2..=50_000).contains(&tracked), "{tracked}");
}
