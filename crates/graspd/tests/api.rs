//! The API as `docs/api.md` has it: every field is there and described, lists are read in parts, and
//! nothing changes without being seen.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;

use common::hosted::DOMAIN;
use common::mirrors::announcement;
use common::{acme, alice, home};
use grasp_core::VerifiedEvent;
use grasp_testkit::{Author, Client, Home, Page, Repository, Server, http, now, until};
use serde_json::Value;
use std::collections::BTreeSet;

async fn get(server: &Server, place: &str) -> Page {
    http("GET", &format!("{}/api/v1/{place}", server.address), &[]).await
}

async fn json(server: &Server, place: &str) -> Value {
    let page = get(server, place).await;
    assert_eq!(page.status, 200, "{place}: {}", page.body);
    serde_json::from_str(&page.body).unwrap()
}

fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                found.insert(name.clone());
                names(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

fn lasting() -> Home {
    home(&[("NGIT_DOMAIN_ALIASES", DOMAIN)])
}

/// A server with one repository that another place should have as well.
async fn busy_server() -> Server {
    let home = lasting();
    let clones = [acme().clone_url(DOMAIN), "https://other.example/x.git".to_owned()];
    let relays = [format!("ws://{DOMAIN}"), "wss://other.example".to_owned()];
    let announced = announcement(&acme(), &clones, &relays);
    home.imports(&[announced, acme().issue(&alice(), now() - 10, "something")]).await;
    home.serve().await
}

fn path() -> String {
    format!("repos/{}/acme", acme().owner.key.to_npub())
}

/// Names a commit nobody has.
fn state() -> VerifiedEvent {
    acme().state(&acme().owner, now(), &[("refs/heads/main", &"12".repeat(20))], None)
}

#[tokio::test]
async fn s43_every_field_is_described() {
    let server = busy_server().await;
    let state = state();
    let mut client = Client::connect(&server.url()).await;
    let answer = client.publishes(&state).await;
    assert!(answer.text.contains("waits for git object 121212121212…"), "{}", answer.text);
    let repository = path();
    let event = format!("events/{}", state.id);
    let mut found = BTreeSet::new();
    for place in ["status", "relays", "repos", "purgatory", &repository, &event] {
        names(&json(&server, place).await, &mut found);
    }
    assert!(found.len() > 60, "{found:?}");
    let described = include_str!("../../../docs/api.md");
    for name in found {
        assert!(described.contains(&format!("`{name}`")), "docs/api.md does not tell of {name}");
    }
}

#[tokio::test]
async fn what_waits_is_told_in_the_same_words_everywhere() {
    let server = busy_server().await;
    let state = state();
    let mut client = Client::connect(&server.url()).await;
    let words = "waits for git object 121212121212…";
    assert!(client.publishes(&state).await.text.contains(words));
    let sentence = format!("state {}… {words}", &state.id.to_string()[..12]);
    let purgatory = json(&server, "purgatory").await;
    assert!(
        purgatory["held"][0]["explain"].as_str().unwrap().starts_with(&sentence),
        "{purgatory}"
    );
    let repo = json(&server, &path()).await;
    assert!(repo["explain"][0].as_str().unwrap().starts_with(&sentence), "{repo}");
    let event = json(&server, &format!("events/{}", state.id)).await;
    assert!(event["explain"].as_str().unwrap().starts_with(&sentence), "{event}");
    assert_eq!(event["standing"], "held");
    let page = http("GET", &format!("{}/purgatory", server.address), &[]).await;
    assert!(page.body.contains(&sentence), "{}", page.body);
}

#[tokio::test]
async fn a_list_is_read_in_parts_each_line_once() {
    let home = lasting();
    let named = |n: u64| Repository::new(alice(), &format!("repo{n}"));
    // Some in the same second, some not.
    let at = |n: u64| now() - 100 + n / 7;
    let events: Vec<_> = (0..25).map(|n| named(n).announcement_listing(DOMAIN, at(n))).collect();
    home.imports(&events).await;
    let server = home.serve().await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let part = json(&server, &format!("repos?limit=10&after={after}")).await;
        let lines = part["repositories"].as_array().unwrap();
        assert!(lines.len() <= 10);
        seen.extend(lines.iter().map(|it| it["identifier"].as_str().unwrap().to_owned()));
        match part["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 25);
    for nonsense in ["repos?limit=abc", "repos?limit=10&after=%00zz", "repos?from=1"] {
        let page = get(&server, nonsense).await;
        assert_eq!(page.status, 400, "{nonsense}: {}", page.body);
        let said: Value = serde_json::from_str(&page.body).unwrap();
        assert!(said["error"].as_str().unwrap().len() > 20, "{said}");
    }
}

#[tokio::test]
async fn announcements_of_repositories_hosted_elsewhere_are_counted_and_not_listed() {
    let home = lasting();
    // Newer than the one that is hosted, and more than a part of one line looks at.
    let elsewhere = (0..12).map(|n| Repository::new(Author::number(50 + n), "acme"));
    let mut events: Vec<_> = elsewhere.map(|it| it.announcement(now() - 10)).collect();
    events.push(acme().announcement_listing(DOMAIN, now() - 100));
    home.imports(&events).await;
    let server = home.serve().await;
    assert_eq!(json(&server, "status").await["totals"]["announcements"], 13);
    let first = json(&server, "repos?limit=1").await;
    assert_eq!(first["repositories"].as_array().unwrap().len(), 0, "{first}");
    let after = first["next"].as_str().expect("the list goes on");
    let second = json(&server, &format!("repos?limit=1&after={after}")).await;
    assert_eq!(second["repositories"][0]["npub"], acme().owner.key.to_npub(), "{second}");
    let shown = server.home().runs(&["repos", "--limit", "1"]).await;
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("nothing in this part of the list is hosted here"), "{shown}");
}

#[tokio::test]
async fn an_answer_that_did_not_change_is_not_sent_again() {
    let server = busy_server().await;
    for place in ["repos", "purgatory", "relays", "status", &path()] {
        let url = format!("{}/api/v1/{place}", server.address);
        // The other place cannot be reached, which is found out meanwhile.
        until("nothing but the time changes", || async {
            let mark = http("GET", &url, &[]).await.header("etag").unwrap().to_owned();
            let again = http("GET", &url, &[("If-None-Match", &mark)]).await;
            again.status == 304 && again.body.is_empty()
        })
        .await;
    }
    let mut client = Client::connect(&server.url()).await;
    let url = format!("{}/api/v1/{}", server.address, path());
    let mark = http("GET", &url, &[]).await.header("etag").unwrap().to_owned();
    assert!(client.publishes(&acme().issue(&alice(), now(), "news")).await.accepted());
    let changed = http("GET", &url, &[("If-None-Match", &mark)]).await;
    assert_eq!(changed.status, 200);
}

#[tokio::test]
async fn what_is_not_here_is_a_404_and_nothing_can_be_changed() {
    let server = busy_server().await;
    let nobody = format!("repos/{}/nothing", alice().key.to_npub());
    let unknown = format!("events/{}", "0".repeat(64));
    for (place, status) in [
        (nobody.as_str(), 404),
        (&unknown, 404),
        ("nothing", 404),
        ("events/x", 400),
        ("repos/x/y", 400),
        ("status?limit=1", 400),
    ] {
        let page = get(&server, place).await;
        assert_eq!(page.status, status, "{place}");
        assert!(page.header("content-type").unwrap().contains("json"), "{place}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        let page = http(method, &format!("{}/api/v1/status", server.address), &[]).await;
        assert_eq!(page.status, 405, "{method}");
    }
}

#[tokio::test]
async fn the_api_lists_its_resources() {
    let server = busy_server().await;
    let described = include_str!("../../../docs/api.md");
    for place in ["", "/"] {
        let page = http("GET", &format!("{}/api/v1{place}", server.address), &[]).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let index: Value = serde_json::from_str(&page.body).unwrap();
        let resources = index["resources"].as_array().unwrap();
        assert_eq!(resources.len(), described.matches("## `GET /api/v1/").count(), "{index:#}");
        for resource in resources {
            let path = resource["path"].as_str().unwrap();
            assert!(described.contains(&format!("## `GET {path}`")), "{path} is not described");
            let has_parameters = !resource["parameters"].as_array().unwrap().is_empty();
            if !path.contains('<') && !path.ends_with("live") {
                let query = if has_parameters { "?limit=1" } else { "" };
                let page = http("GET", &format!("{}{path}{query}", server.address), &[]).await;
                assert_eq!(page.status, 200, "{path}: {}", page.body);
            }
        }
    }
}

#[tokio::test]
async fn activity_counts_what_happens_again_and_calls_repositories_by_their_names() {
    let server = busy_server().await;
    let mut client = Client::connect(&server.url()).await;
    for n in 0..12 {
        let issue = acme().issue(&alice(), now(), &format!("issue {n}"));
        assert!(client.publishes(&issue).await.accepted());
    }
    let called = json(&server, &path()).await["name"].as_str().unwrap().to_owned();
    let named = if called.is_empty() { "acme".to_owned() } else { called };
    until("all of them are one line", || async {
        let status = json(&server, "status").await;
        let is_issue = |it: &&Value| it["text"] == format!("an issue in {named}");
        let lines: Vec<&Value> =
            status["activity"].as_array().unwrap().iter().filter(is_issue).collect();
        lines.len() == 1 && lines[0]["count"] == 12 && lines[0]["name"] == named.as_str()
    })
    .await;
    let shown = server.home().runs(&["status"]).await;
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&format!("12 x an issue in {named}")), "{shown}");
    let home = http("GET", &server.address.to_string(), &[]).await;
    assert!(home.body.contains("<span class=\"times\">12 ×</span>"), "{}", home.body);
}
