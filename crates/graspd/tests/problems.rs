//! What an operator is told of a server with one lagging mirror, one full table and one dead relay: the
//! same problems everywhere, each named with what to do; and nothing when all is well.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::announcement;
use common::{THEN, acme, alice, home, serving};
use grasp_engine::{Health, Record};
use grasp_store::{EventStore, LmdbStore, Options, Shelf, Transaction};
use grasp_testkit::behaviour::Behaviour;
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Author, Browser, Client, Home, Repository, Server, http, now, until};
use serde_json::{Value, json};

const SETTINGS: [(&str, &str); 3] = [
    ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_RELAY_MAX_HELD_EVENTS", "4"),
];
/// Strangers whose events wait, more than there is room for.
const STRANGERS: u64 = 20;

struct Troubled {
    server: Server,
    mirror: ChaosRelay,
    dead: String,
}

impl Troubled {
    async fn begins() -> Self {
        let mirror = ChaosRelay::start(Behaviour::honest()).await;
        let dead = closed_port();
        let relays = [format!("ws://{DOMAIN}"), mirror.url().to_owned(), format!("ws://{dead}")];
        let announced = announcement(&acme(), &[acme().clone_url(DOMAIN)], &relays);
        mirror.publishes(&announced);
        let home = home(&SETTINGS);
        home.imports(&[announced, acme().issue(&alice(), THEN, "not on the mirror")]).await;
        is_dead(&home, &format!("ws://{dead}"));
        let it = Self { server: home.serve().await, mirror, dead };
        it.fills_the_held_table().await;
        until("all three problems are listed", || async {
            let codes = it.codes().await;
            ["mirror-lacks", "held-full", "relay-dead"]
                .iter()
                .all(|it| codes.contains(&(*it).to_owned()))
        })
        .await;
        it
    }

    /// States whose commits no server has, until one finds no room.
    async fn fills_the_held_table(&self) {
        let mut client = Client::connect(&self.server.url()).await;
        for number in 0..STRANGERS {
            let repo = Repository::new(Author::number(100 + number), "waits");
            let missing = "12".repeat(20);
            let state = repo.state(&repo.owner, now(), &[(MAIN, &missing)], Some("main"));
            for event in [repo.announcement_listing(DOMAIN, now()), state] {
                let answer = client.publishes(&event).await;
                if answer.text.contains("waiting for git data on this server") {
                    return;
                }
            }
        }
        panic!("the table is never full");
    }

    async fn status(&self) -> Value {
        let page = http("GET", &format!("{}/api/v1/status", self.server.address), &[]).await;
        serde_json::from_str(&page.body).unwrap()
    }

    async fn codes(&self) -> Vec<String> {
        let status = self.status().await;
        let problems = status["problem_details"].as_array().unwrap().iter();
        problems.map(|it| it["code"].as_str().unwrap().to_owned()).collect()
    }

    /// What has to be said of each problem, wherever it is said.
    fn sentences(&self) -> [(String, &'static str); 3] {
        [
            (
                format!("mirror {} lacks 1 of 2 events (acme of npub1", self.mirror.address()),
                "check that this server is reachable from there and that the mirror syncs",
            ),
            (
                "among the events that wait for git data is full".to_owned(),
                "raise NGIT_RELAY_MAX_HELD_EVENTS",
            ),
            (
                format!("relay {} is dead: no answer since", self.dead),
                "ask the owners to drop it from their announcements",
            ),
        ]
    }

    fn are_all_in(&self, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (what, fix) in self.sentences() {
            assert!(text.contains(&what), "`{what}` is missing in\n{text}");
            assert!(text.contains(fix), "`{fix}` is missing in\n{text}");
        }
    }

    async fn prints(&self, args: &[&str]) -> String {
        let output = self.server.home().runs(args).await;
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Where nothing listens.
fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// The server remembers that this relay has not answered for days.
fn is_dead(home: &Home, relay: &str) {
    let at = |secs: u64| grasp_core::Time::from_secs(secs);
    let (first, next_try) = (at(now() - 5 * 86_400), at(now() + 80_000));
    let health = Health::Dead { failures: 30, first, next_try };
    let row = json!({"relay": relay, "record": Record { health, ..Record::default() }});
    let store = LmdbStore::open(&home.relay_path(), &Options::default()).unwrap();
    let mut write = |txn: &mut dyn Transaction| {
        txn.put_note(Shelf::Relays, relay.as_bytes(), row.to_string().as_bytes())
    };
    store.write(&mut write).unwrap();
}

#[tokio::test]
async fn a_lagging_mirror_a_full_table_and_a_dead_relay_are_named_with_what_to_do_on_the_command_line()
 {
    let it = Troubled::begins().await;
    let printed = it.prints(&["status"]).await;
    it.are_all_in(&printed);
    assert!(!printed.contains("Problems\n  none"), "{printed}");
    it.are_all_in(&it.prints(&["doctor"]).await);
    let metrics = http("GET", &format!("{}/metrics", it.server.address), &[]).await.body;
    for code in ["mirror-lacks", "held-full", "relay-dead"] {
        let start = format!("ngit_problems{{code=\"{code}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&start));
        assert!(count.is_some_and(|it| it != "0"), "{start} is {count:?} in\n{metrics}");
    }
    assert!(metrics.contains("ngit_problems{code=\"disk-low\"} 0"), "{metrics}");
    it.server.logs("among the events that wait for git data is full").await;
}

#[tokio::test]
async fn a_lagging_mirror_a_full_table_and_a_dead_relay_are_named_with_what_to_do_in_the_browser() {
    let (browser, it) = (Browser::start().await, Troubled::begins().await);
    let tab = browser.page().await;
    assert_eq!(tab.goes_to(&format!("http://{}/", it.server.address)).await, 200);
    let text = tab.text("#health").await;
    it.are_all_in(&text);
    assert!(text.contains("things need attention") && !text.contains("All is well"), "{text}");
}

#[tokio::test]
async fn all_is_well_only_where_nothing_is_listed() {
    let (server, _) = serving(&[]).await;
    let page = http("GET", &server.address, &[]).await.body;
    assert!(page.contains("All is well"), "{page}");
    let output = server.home().runs(&["status", "--json"]).await;
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&status["problems"], &status["problem_details"]), (&json!([]), &json!([])));
}
