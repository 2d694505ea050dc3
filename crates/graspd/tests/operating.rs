//! What an operator can have done at once, and with whom this server can be compared: commands beside a
//! server that runs, and relays that do not tell everything by themselves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;

use common::hosted::DOMAIN;
use common::mirrors::{announcement, holds};
use common::{THEN, acme, alice, home};
use grasp_core::VerifiedEvent;
use grasp_testkit::behaviour::{Answers, Behaviour};
use grasp_testkit::chaos::{ChaosRelay, InfoPage, Tricks};
use grasp_testkit::{Author, Client, Home, Repository, Server, http, now, until};
use serde_json::Value;
use std::process::Output;

/// No verdict is renewed by itself while a test runs.
const SETTINGS: [(&str, &str); 3] = [
    ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_VERDICT_MAX_AGE_SECS", "31536000"),
];

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn name() -> String {
    format!("{}/{}", acme().owner.key.to_npub(), acme().identifier)
}

fn hosted(relays: &[&str]) -> VerifiedEvent {
    let here = format!("ws://{DOMAIN}");
    let relays: Vec<String> =
        std::iter::once(here.as_str()).chain(relays.iter().copied()).map(str::to_owned).collect();
    announcement(&acme(), &[acme().clone_url(DOMAIN)], &relays)
}

/// A server that hosts `acme` and follows a relay that has the same, with nothing left to ask of it.
struct Followed {
    server: Server,
    relay: ChaosRelay,
    roots: u64,
}

impl Followed {
    async fn begins() -> Self {
        let relay = ChaosRelay::start(Behaviour::honest()).await;
        let home = home(&SETTINGS);
        let announced = hosted(&[relay.url()]);
        relay.publishes(&announced);
        home.imports(&[announced]).await;
        let it = Self { server: home.serve().await, relay, roots: 0 };
        it.settles().await;
        it.is_equal().await;
        it
    }

    async fn api(&self, place: &str) -> Value {
        let page = http("GET", &format!("{}/api/v1/{place}", self.server.address), &[]).await;
        assert_eq!(page.status, 200, "{}", page.body);
        serde_json::from_str(&page.body).unwrap()
    }

    async fn settles(&self) {
        until("nothing is left to ask", || async {
            let relay = &self.api("relays").await["relays"][0];
            relay["connected"] == true
                && relay["roots"] == self.roots
                && relay["missing"] == 0
                && relay["pending"] == 0
        })
        .await;
    }

    async fn is_equal(&self) {
        until("they have what we have", || async { self.verdict().await.0 == "equal" }).await;
    }

    /// The relay keeps it and tells nobody.
    async fn misses(&mut self, text: &str) -> VerifiedEvent {
        let missed = acme().issue(&alice(), THEN, text);
        self.relay.becomes(Behaviour { answers: Answers::Silent, ..Behaviour::honest() });
        self.relay.publishes(&missed);
        self.relay.becomes(Behaviour::honest());
        let told = acme().issue(&alice(), now(), &format!("after {text}"));
        self.relay.publishes(&told);
        self.serves(&told).await;
        self.roots += 1;
        self.settles().await;
        let has_it = holds(&self.server, &[missed.id]).await;
        assert!(!has_it, "what was told later is here, and this is not");
        missed
    }

    async fn serves(&self, event: &VerifiedEvent) {
        let id = [event.id];
        until(&format!("`{}` is served", event.content), || holds(&self.server, &id)).await;
    }

    /// How the relay stands, and when that was seen.
    async fn verdict(&self) -> (String, u64) {
        let repo = self.api(&format!("repos/{}", name())).await;
        let mirror = &repo["mirrors"][0];
        let at = mirror["events"]["at"].as_u64().unwrap_or(0);
        (mirror["verdict"].as_str().unwrap().to_owned(), at)
    }

    async fn sync_now(&self, what: &[&str]) -> Output {
        self.server.home().runs(&[&["sync", "now"], what].concat()).await
    }
}

#[tokio::test]
async fn a_sync_that_is_asked_for_brings_what_a_relay_did_not_tell() {
    let mut it = Followed::begins().await;
    let (repo, relay) = (name(), it.relay.url().to_owned());
    for what in [&[repo.as_str()][..], &[relay.as_str()], &[]] {
        let missed = it.misses(&format!("missed before {what:?}")).await;
        let asked = it.sync_now(what).await;
        assert!(asked.status.success(), "{}", errors(&asked));
        assert_eq!(out(&asked), "one relay was asked and compared\n");
        let is_here = holds(&it.server, &[missed.id]).await;
        assert!(is_here, "the command ends when the sync is done");
        it.roots += 1;
        it.settles().await;
        it.is_equal().await;
    }
    let asked = it.sync_now(&[&repo, "--json"]).await;
    let told: Value = serde_json::from_str(&out(&asked)).unwrap();
    assert_eq!((&told["relays"], &told["done"]), (&1.into(), &1.into()), "{told}");
    let started = it.sync_now(&[&repo, "--no-wait"]).await;
    assert!(started.status.success(), "{}", errors(&started));
    assert_eq!(out(&started), "one relay is asked; `graspd relays` tells how it goes\n");
}

#[tokio::test]
async fn a_sync_that_cannot_reach_a_relay_says_so_and_ends() {
    let it = Followed::begins().await;
    let Followed { server, relay, .. } = it;
    let url = relay.url().to_owned();
    drop(relay);
    until("the link is gone", || async {
        let page = http("GET", &format!("{}/api/v1/relays", server.address), &[]).await;
        let relays: Value = serde_json::from_str(&page.body).unwrap();
        relays["relays"][0]["connected"] == false
    })
    .await;
    let asked = server.home().runs(&["sync", "now", "acme"]).await;
    assert_eq!(asked.status.code(), Some(1), "{}", out(&asked));
    assert!(out(&asked).starts_with("0 of 1 relays were asked and compared\n"), "{}", out(&asked));
    let why = format!("- {url} cannot be reached; tried again at ");
    assert!(out(&asked).contains(&why), "{}", out(&asked));
}

#[tokio::test]
async fn a_sync_that_is_asked_for_renews_the_verdict_long_before_its_time() {
    let mut it = Followed::begins().await;
    let mut client = Client::connect(&it.server.url()).await;
    for (what, said) in [(name(), "one"), (it.relay.url().to_owned(), "another")] {
        let seen_at = it.verdict().await.1;
        let issue = acme().issue(&alice(), now(), said);
        assert!(client.publishes(&issue).await.accepted());
        it.roots += 1;
        it.settles().await;
        assert_eq!(it.verdict().await, ("equal".to_owned(), seen_at), "nobody looked since");

        let asked = it.sync_now(&[&what]).await;
        assert!(asked.status.success(), "{}", errors(&asked));
        until("it is told what they lack", || async {
            let (verdict, at) = it.verdict().await;
            verdict == "they_lack" && at > seen_at
        })
        .await;
        // Somebody brings it to them.
        it.relay.publishes(&issue);
        let asked = it.sync_now(&[&what]).await;
        assert!(asked.status.success(), "{}", errors(&asked));
        it.is_equal().await;
    }
}

#[tokio::test]
async fn a_sync_that_cannot_be_asked_for_is_refused_with_what_to_do() {
    let mut it = Followed::begins().await;
    let unknown = format!("{}/unknown", acme().owner.key.to_npub());
    let nobodys = Repository::new(Author::number(9), "acme").owner.key.to_npub();
    for (what, why) in [
        (unknown.as_str(), "there is no such repository here"),
        (&format!("{nobodys}/acme"), "there is no such repository here"),
        ("wss://relay.example", "this relay is not followed; see `graspd relays`"),
        ("relay.example", "a relay by its URL (wss://...)"),
        ("amce", "did you mean `acme`?"),
    ] {
        for args in [&[what][..], &[what, "--json"]] {
            let refused = it.sync_now(args).await;
            assert_eq!(refused.status.code(), Some(1), "{args:?}");
            assert!(errors(&refused).contains(why), "{args:?}: {}", errors(&refused));
            assert_eq!(out(&refused), "", "{args:?}");
        }
    }
    assert!(it.server.stop().await);
    for what in [&[][..], &[name().as_str()], &[it.relay.url()]] {
        let refused = it.sync_now(what).await;
        assert_eq!(refused.status.code(), Some(1), "{what:?}");
        assert!(errors(&refused).contains("no server runs on"), "{}", errors(&refused));
    }
    let alone = home(&[("NGIT_SYNC_ENABLED", "false")]).serve().await;
    let refused = alone.home().runs(&["sync", "now"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("NGIT_SYNC_ENABLED=true"), "{}", errors(&refused));
}

/// `acme` with so many issues, all of which the relay has, but for one on either side.
async fn apart(issues: u64, relay: &ChaosRelay) -> Home {
    let both = (0..issues).map(|n| acme().issue(&alice(), THEN + n / 7, &format!("issue {n}")));
    let mut both: Vec<VerifiedEvent> = both.collect();
    both.push(hosted(&[relay.url()]));
    both.iter().for_each(|event| relay.publishes(event));
    relay.publishes(&acme().issue(&alice(), THEN, "only there"));
    both.push(acme().issue(&alice(), THEN + 1, "only here"));
    let home = home(&SETTINGS[..1]);
    home.imports(&both).await;
    home
}

#[tokio::test]
async fn a_relay_that_cannot_compare_is_read_through() {
    // The first says something else where a git server lists refs, the second that there is nothing.
    let missing = Tricks { info: InfoPage::Missing, ..Tricks::default() };
    for (behaviour, tricks, issues) in
        [(Behaviour::common(), Tricks::default(), 3), (Behaviour::small_pages(), missing, 350)]
    {
        let relay = ChaosRelay::start_with(behaviour, tricks, 0).await;
        let home = apart(issues, &relay).await;
        let compared = home.runs(&["diff", relay.url(), "--json"]).await;
        let report: Value = serde_json::from_str(&out(&compared)).unwrap_or_else(|_| {
            panic!("{} {}", out(&compared), errors(&compared));
        });
        assert_eq!(compared.status.code(), Some(1), "{report:#}");
        let line = &report["repositories"][0];
        assert_eq!(line["standing"], "different", "{line:#}");
        assert_eq!((&line["events_they_lack"], &line["events_we_lack"]), (&1.into(), &1.into()));
        assert_eq!((&line["refs_they_lack"], &line["refs_we_lack"]), (&0.into(), &0.into()));
        let seen = relay.seen();
        assert_eq!(seen.negentropy_opens, 1, "it was asked once, and then read");
        assert_eq!(seen.violations, Vec::<String>::new());
        let shown = home.runs(&["diff", relay.url()]).await;
        let words = "they lack 1 events; we lack 1 events";
        assert!(out(&shown).contains(words), "{}", out(&shown));
    }
}

/// What is told of `acme`, in words and for a program, after a comparison with a relay that has `theirs`.
async fn compared(
    ours: VerifiedEvent,
    theirs: &VerifiedEvent,
    with: &ChaosRelay,
) -> (Output, Value) {
    with.publishes(theirs);
    let home = home(&SETTINGS[..1]);
    home.imports(&[ours]).await;
    let output = home.runs(&["diff", with.url(), "--json"]).await;
    let report: Value = serde_json::from_str(&out(&output)).unwrap_or_else(|_| {
        panic!("{} {}", out(&output), errors(&output));
    });
    let line = report["repositories"][0].clone();
    (home.runs(&["diff", with.url()]).await, line)
}

#[tokio::test]
async fn a_git_side_that_fails_under_a_name_nobody_announced_is_not_equal() {
    let line_of = async |info: InfoPage| {
        let tricks = Tricks { info, ..Tricks::default() };
        let relay = ChaosRelay::start_with(Behaviour::honest(), tricks, 0).await;
        let both = hosted(&["ws://another.example"]);
        compared(both.clone(), &both, &relay).await
    };
    let (output, line) = line_of(InfoPage::Broken).await;
    assert_eq!(output.status.code(), Some(2), "{line:#}");
    assert_eq!(
        (&line["standing"], &line["refs_compared"]),
        (&"incomparable".into(), &false.into())
    );
    let words = out(&output);
    assert!(words.contains("their refs cannot be read") && words.contains("500"), "{words}");

    for says_it_has_no_git in [InfoPage::Missing, InfoPage::Told] {
        let (output, line) = line_of(says_it_has_no_git).await;
        assert_eq!(output.status.code(), Some(0), "{line:#}");
        assert_eq!((&line["standing"], &line["refs_compared"]), (&"equal".into(), &false.into()));
        assert_eq!(line["explain"], "equal; refs not compared");
        assert!(out(&output).contains("equal; refs not compared"), "{}", out(&output));
    }
}

#[tokio::test]
async fn a_server_that_only_its_own_announcement_calls_a_git_host_must_list_refs() {
    let relay = ChaosRelay::start(Behaviour::honest()).await;
    let clones = [acme().clone_url(DOMAIN), acme().clone_url(relay.address())];
    let relays = [format!("ws://{DOMAIN}"), relay.url().to_owned()];
    let theirs = announcement(&acme(), &clones, &relays);
    let (output, line) = compared(hosted(&[relay.url()]), &theirs, &relay).await;
    assert_eq!(output.status.code(), Some(2), "{line:#}");
    assert_eq!(line["standing"], "incomparable", "{line:#}");
}

#[tokio::test]
async fn who_cannot_be_reached_cannot_be_compared_with() {
    let home = home(&SETTINGS[..1]);
    home.imports(&[hosted(&[])]).await;
    for (url, why) in [
        ("http://127.0.0.1:1", "cannot reach ws://127.0.0.1:1"),
        ("https://nowhere.invalid", "cannot reach wss://nowhere.invalid"),
        ("ftp://git.example", "name the other server as https://git.example"),
    ] {
        for args in [&["diff", url][..], &["diff", url, "--json"]] {
            let output = home.runs(args).await;
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(errors(&output).contains(why), "{}", errors(&output));
            assert_eq!(out(&output), "", "{args:?}");
        }
    }
}
