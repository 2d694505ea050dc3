//! The commands of an operator, beside a server that runs and on the data of one that does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;

use common::hosted::{DOMAIN, Hosted, MAIN};
use common::mirrors::Mirrors;
use common::{THEN, acme, alice, home, serving};
use futures_util::{SinkExt, StreamExt};
use grasp_core::Kind;
use grasp_testkit::behaviour::{Behaviour, Refuses};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Draft, Git, Home, Repository, Server, now};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use tokio::net::UnixStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

const NAMED: (&str, &str) = ("NGIT_DOMAIN_ALIASES", DOMAIN);

/// A server whose operator imported these.
async fn hosting(of: &[Repository]) -> Server {
    let home = home(&[NAMED]);
    let listed = of.iter().map(|it| it.announcement_listing(DOMAIN, THEN));
    home.imports(&listed.collect::<Vec<_>>()).await;
    home.serve().await
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn name(of: &Repository) -> String {
    format!("{}/{}", of.owner.key.to_npub(), of.identifier)
}

async fn well(home: &Home, args: &[&str]) -> String {
    let output = home.runs(args).await;
    assert!(output.status.success(), "{args:?}: {}", errors(&output));
    out(&output)
}

async fn json(home: &Home, args: &[&str]) -> Value {
    let text = well(home, &[args, &["--json"]].concat()).await;
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{args:?} says {text}"))
}

#[tokio::test]
async fn the_control_socket_is_for_the_owner_alone_and_goes_with_the_server() {
    let (mut server, _) = serving(&[]).await;
    let socket = server.home().relay_path().join("control.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(server.stop().await);
    assert!(!socket.exists());
    server.restart().await;
    server.kill().await;
    assert!(socket.exists(), "nobody was there to remove it");
    server.restart().await;
    well(server.home(), &["status"]).await;
}

#[tokio::test]
async fn the_relay_can_be_spoken_with_through_the_control_socket() {
    let (server, acme) = serving(&[]).await;
    let socket = server.home().relay_path().join("control.sock");
    let stream = UnixStream::connect(&socket).await.unwrap();
    let (mut relay, _) = client_async("ws://localhost/", stream).await.unwrap();
    relay.send(Message::text(r#"["REQ","x",{"kinds":[30617]}]"#)).await.unwrap();
    let heard: Value = loop {
        if let Message::Text(text) = relay.next().await.unwrap().unwrap() {
            break serde_json::from_str(&text).unwrap();
        }
    };
    assert_eq!((&heard[0], &heard[1]), (&"EVENT".into(), &"x".into()), "{heard}");
    assert_eq!(heard[2]["pubkey"], acme.owner.key.to_hex());
}

#[tokio::test]
async fn every_question_is_answered_alike_by_a_server_and_by_its_data() {
    let (hosted, tip) = Hosted::published(&Git::any(), &[]).await;
    let repo = name(&hosted.acme);
    let event = hosted.announcement.id.to_hex();
    let mut server = hosted.server;
    let questions: [&[&str]; 7] = [
        &["status"],
        &["repos"],
        &["repo", &repo],
        &["relays"],
        &["purgatory"],
        &["explain"],
        &["explain", &event],
    ];
    for args in questions {
        assert!(json(server.home(), args).await.is_object(), "{args:?}");
        assert!(!well(server.home(), args).await.is_empty(), "{args:?}");
    }
    let running = json(server.home(), &["repo", &repo]).await;
    assert_eq!(running["standing"], "served");
    assert_eq!(running["refs"][0]["name"], MAIN);
    assert_eq!(running["refs"][0]["oid"], tip.to_hex());
    let up = json(server.home(), &["status"]).await;
    assert!(up["server"]["uptime_secs"].is_u64());

    assert!(server.stop().await);
    for args in questions {
        let output = server.home().runs(args).await;
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
        assert!(errors(&output).contains("no server runs on"), "{}", errors(&output));
        assert_eq!(errors(&output).lines().count(), 1, "{}", errors(&output));
    }
    let stopped = json(server.home(), &["repo", &repo]).await;
    for field in ["standing", "refs", "head", "events", "fingerprint", "identifier"] {
        assert_eq!(stopped[field], running[field], "{field}");
    }
    let down = json(server.home(), &["status"]).await;
    assert!(down["server"]["uptime_secs"].is_null());
    assert_eq!(down["totals"]["announcements"], 1);
}

#[tokio::test]
async fn a_repository_is_found_by_any_of_its_names() {
    let acme = acme();
    let server = hosting(std::slice::from_ref(&acme)).await;
    let named = name(&acme);
    let url = acme.clone_url(&server.address);
    for spelling in ["acme".into(), "ACME.git".into(), named.clone(), format!("{named}.git"), url] {
        let found = json(server.home(), &["repo", &spelling]).await;
        assert_eq!(found["identifier"], "acme", "{spelling}");
    }
    let other = format!("{}/other", acme.owner.key.to_npub());
    let output = server.home().runs(&["repo", &other]).await;
    assert!(!output.status.success());
    assert!(errors(&output).contains("there is no repository"), "{}", errors(&output));
    for nonsense in ["", "https://x", "npub1/x"] {
        let output = server.home().runs(&["repo", nonsense]).await;
        assert!(!output.status.success());
        assert!(errors(&output).contains("<npub>/<identifier>"), "{}", errors(&output));
    }
}

#[tokio::test]
async fn a_name_that_is_not_unique_or_not_known_gets_what_may_be_meant() {
    let (ours, theirs) = (acme(), Repository::new(alice(), "acme"));
    let mut server = hosting(&[ours.clone(), theirs.clone()]).await;
    let unknown = format!("{}/amce", ours.owner.key.to_npub());
    for is_running in [true, false] {
        if !is_running {
            assert!(server.stop().await);
        }
        for command in ["repo", "explain"] {
            let said = errors(&server.home().runs(&[command, "acme"]).await);
            assert!(said.contains(&name(&ours)) && said.contains(&name(&theirs)), "{said}");
            for typo in ["amce", "acmee", &unknown] {
                let output = server.home().runs(&[command, typo]).await;
                assert_eq!(output.status.code(), Some(1));
                let said = errors(&output);
                assert!(said.contains("did you mean `acme`?"), "{typo}: {said}");
            }
            let said = errors(&server.home().runs(&[command, "something-else"]).await);
            assert!(said.contains("`graspd repos` lists those that are"), "{said}");
        }
    }
}

#[tokio::test]
async fn a_clone_url_of_another_server_is_refused_with_what_to_do() {
    let mut server = hosting(&[acme()]).await;
    let ours = acme().clone_url(DOMAIN);
    let theirs = acme().clone_url("git.elsewhere.example");
    assert!(well(server.home(), &["repo", &ours]).await.contains("acme"), "an alias is us");
    for args in [&["repo", &theirs][..], &["explain", &theirs], &["sync", "now", &theirs]] {
        let output = server.home().runs(args).await;
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", out(&output));
        let said = errors(&output);
        assert!(said.contains("on another server"), "{args:?}: {said}");
        assert!(said.contains("graspd diff http://git.elsewhere.example"), "{args:?}: {said}");
    }
    assert!(server.stop().await);
    assert!(well(server.home(), &["repo", &ours]).await.contains("acme"));
    let said = errors(&server.home().runs(&["repo", &theirs]).await);
    assert!(said.contains("on another server"), "{said}");
}

#[tokio::test]
async fn an_empty_list_of_relays_says_why_it_is_empty() {
    let mut server = hosting(&[acme()]).await;
    let said = well(server.home(), &["relays"]).await;
    assert!(said.contains("no announcement here names another server"), "{said}");
    let said = well(server.home(), &["relays", "--after", "wss://relay.example"]).await;
    assert!(said.contains("no relay comes after wss://relay.example"), "{said}");
    for list in ["relays", "repos", "purgatory"] {
        let output = server.home().runs(&[list, "--after", "nonsense"]).await;
        assert_eq!(output.status.code(), Some(1), "{list}");
        let said = errors(&output);
        assert!(said.contains("--after must be what the part before gave"), "{list}: {said}");
    }
    assert!(server.stop().await);
    let said = well(server.home(), &["relays"]).await;
    assert!(said.contains("no server runs here"), "{said}");
    let alone = home(&[("NGIT_SYNC_ENABLED", "false")]).serve().await;
    let said = well(alone.home(), &["relays"]).await;
    assert!(said.contains("NGIT_SYNC_ENABLED=false"), "{said}");
}

#[tokio::test]
async fn a_closed_pipe_ends_every_command_quietly() {
    let mut server = hosting(&[acme()]).await;
    let commands: [&[&str]; 9] = [
        &["completions", "bash"],
        &["config", "print"],
        &["config", "docs"],
        &["config", "check"],
        &["status"],
        &["repos"],
        &["repo", "acme", "--json"],
        &["doctor"],
        &["--help"],
    ];
    let stopped: [&[&str]; 2] = [&["events", "export"], &["repos"]];
    for is_running in [true, false] {
        if !is_running {
            assert!(server.stop().await);
        }
        for args in if is_running { &commands[..] } else { &stopped[..] } {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = server.home().command(args);
            let output = command.stdout(writer).output().await.unwrap();
            let said = errors(&output);
            assert!(!said.contains("panicked") && !said.contains("roken pipe"), "{args:?}: {said}");
            let wrong_is_allowed = args[0] == "doctor";
            assert!(output.status.success() || wrong_is_allowed, "{args:?}: {:?}", output.status);
            // The same where even mistakes are not read.
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = server.home().command(args);
            command.stdout(writer.try_clone().unwrap()).stderr(writer);
            let ended = command.status().await.unwrap();
            assert_ne!(ended.code(), Some(101), "{args:?} panicked");
        }
    }
}

#[tokio::test]
async fn exit_codes_are_what_the_help_says() {
    let server = hosting(&[acme()]).await;
    let cases: [(&[&str], i32); 9] = [
        (&["config", "check"], 0),
        (&["repo", "acme"], 0),
        (&["--help"], 0),
        (&["repo", "unknown"], 1),
        (&["explain", "https://git.example"], 1),
        (&["events", "export"], 1),
        (&["nonsense"], 2),
        (&["status", "--relay-max-subscriptions", "none"], 2),
        (&["diff", "http://127.0.0.1:1"], 2),
    ];
    for (args, code) in cases {
        let output = server.home().runs(args).await;
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", errors(&output));
    }
}

#[tokio::test]
async fn held_events_are_listed_and_their_absence_is_said() {
    let home = home(&[NAMED]);
    home.imports(&[acme().announcement_listing(DOMAIN, THEN)]).await;
    let output = home.runs(&["events", "held"]).await;
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(out(&output), "", "one line for each event, and no other");
    assert!(errors(&output).contains("no event is held"), "{}", errors(&output));
    let mut server = home.serve().await;
    let state = acme().state(&acme().owner, now(), &[(MAIN, &"12".repeat(20))], None);
    let mut client = grasp_testkit::Client::connect(&server.url()).await;
    client.publishes(&state).await;
    assert!(server.stop().await);
    let output = server.home().runs(&["events", "held"]).await;
    assert!(out(&output).starts_with(&state.id.to_hex()), "{}", out(&output));
    assert!(errors(&output).contains("1 event is held"), "{}", errors(&output));
}

#[tokio::test]
async fn what_the_system_says_is_told_in_words() {
    let cases: [(&[&str], &str); 5] = [
        (&["events", "import", "/nowhere/x.jsonl"], "there is no such file or directory"),
        (&["events", "export", "/nowhere/x.jsonl"], "there is no such file or directory"),
        (&["--config", "/nowhere.toml", "config", "check"], "there is no such file or directory"),
        (&["status"], "there is no data of a server"),
        (&["diff", "http://127.0.0.1:1"], "NGIT_RELAY_DATA_PATH"),
    ];
    for (args, words) in cases {
        let output = home(&[]).runs(args).await;
        assert!(!output.status.success(), "{args:?}");
        let said = errors(&output);
        assert!(said.contains(words) && !said.contains("os error"), "{args:?}: {said}");
    }
    let server = hosting(&[acme()]).await;
    let said = errors(&server.home().runs(&["diff", "http://127.0.0.1:1"]).await);
    assert!(said.contains("connection refused") && !said.contains("os error"), "{said}");
}

#[tokio::test]
async fn long_lists_are_read_in_parts() {
    let many = (0..5).map(|n| Repository::new(acme().owner, &format!("acme-{n}")));
    let server = hosting(&many.collect::<Vec<_>>()).await;
    let first = json(server.home(), &["repos", "--limit", "3"]).await;
    assert_eq!(first["repositories"].as_array().unwrap().len(), 3);
    let after = first["next"].as_str().unwrap();
    let rest = json(server.home(), &["repos", "--limit", "3", "--after", after]).await;
    assert_eq!(rest["repositories"].as_array().unwrap().len(), 2);
    let shown = server.home().runs(&["repos", "--limit", "3"]).await;
    assert!(errors(&shown).contains("--after"), "{}", errors(&shown));
}

#[tokio::test]
async fn what_strangers_wrote_never_steers_the_terminal() {
    let hostile = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}evil\r\nfake line";
    let draft = Draft::new(Kind::ANNOUNCEMENT, THEN).tag(&["d", "a\u{202e}b"]);
    let draft = draft.tag(&["name", hostile]).tag(&["description", hostile]);
    let clone = Repository::new(acme().owner, "a\u{202e}b").clone_url(DOMAIN);
    let relay = format!("ws://{DOMAIN}");
    let draft = draft.tag(&["web", hostile]).tag(&["relays", &relay, hostile]);
    let draft = draft.tag(&["clone", &clone, hostile]);
    let home = home(&[NAMED]);
    home.imports(&[acme().owner.signs(draft)]).await;
    let mut server = home.serve().await;
    let repo = format!("{}/a\u{202e}b", acme().owner.key.to_npub());
    for is_running in [true, false] {
        if !is_running {
            assert!(server.stop().await);
        }
        for args in [&["repos"][..], &["repo", &repo], &["explain"], &["status"], &["relays"]] {
            let output = server.home().runs(args).await;
            for text in [out(&output), errors(&output)] {
                let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
                assert!(!text.chars().any(steers), "{args:?}: {text:?}");
                assert!(!text.lines().any(|line| line.starts_with("fake line")), "{text}");
            }
        }
        assert!(well(server.home(), &["repos"]).await.contains("evil"), "it is told, harmlessly");
    }
}

#[tokio::test]
async fn a_server_that_is_compared_with_never_steers_the_terminal() {
    let refuses =
        Refuses::All("error: \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}evil\r\nfake line");
    let relay = ChaosRelay::start(Behaviour { refuses, ..Behaviour::common() }).await;
    let server = hosting(&[acme()]).await;
    for args in [&["diff", relay.url()][..], &["diff", relay.url(), "--json"]] {
        let output = server.home().runs(args).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(errors(&output).contains("evil"), "{}", errors(&output));
        for text in [out(&output), errors(&output)] {
            let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.chars().any(steers), "{text:?}");
        }
    }
}

#[tokio::test]
async fn mistakes_are_told_with_what_to_do() {
    let empty = home(&[]);
    let output = empty.runs(&["status"]).await;
    assert!(!output.status.success());
    assert!(errors(&output).contains("NGIT_RELAY_DATA_PATH"), "{}", errors(&output));
    assert!(!empty.relay_path().exists(), "a question makes nothing");
    let (server, _) = serving(&[]).await;
    let second = server.home().runs(&["events", "export"]).await;
    assert!(errors(&second).contains("another graspd is already using"));
    // A server whose socket is gone still holds its data.
    fs::remove_file(server.home().relay_path().join("control.sock")).unwrap();
    let output = server.home().runs(&["status"]).await;
    assert!(!output.status.success());
    assert!(errors(&output).contains("another graspd is already using"), "{}", errors(&output));
    let output = empty.runs(&["sync", "now"]).await;
    assert!(!output.status.success());
    assert!(errors(&output).contains("no server runs"), "{}", errors(&output));
}

#[tokio::test]
async fn a_sync_can_be_asked_for() {
    let mirrors = Mirrors::start(2).await;
    let home = mirrors.servers[0].home();
    let repo = name(&mirrors.acme);
    let other = mirrors.servers[1].url();
    let cases: [&[&str]; 3] = [&["sync", "now"], &["sync", "now", &repo], &["sync", "now", &other]];
    for args in cases {
        let started = json(home, args).await;
        assert!(started["relays"].as_u64().unwrap() >= 1, "{args:?}: {started}");
    }
    assert!(well(home, &["sync", "now"]).await.contains("asked and compared"));
    let started = json(home, &["sync", "now", "--no-wait"]).await;
    assert_eq!(started.as_object().unwrap().len(), 1, "it is not waited for: {started}");
    let output = home.runs(&["sync", "now", "relay.example"]).await;
    assert!(!output.status.success());
}

#[tokio::test]
async fn two_servers_are_compared_repository_by_repository() {
    let mut mirrors = Mirrors::start(2).await;
    let compare = async |server: &Server, with: &Server| {
        let output = server.home().runs(&["diff", &with.url(), "--json"]).await;
        let report: Value = serde_json::from_str(&out(&output))
            .unwrap_or_else(|_| panic!("{} {}", out(&output), errors(&output)));
        (output.status.code(), report)
    };
    let (first, second) = (&mirrors.servers[0], &mirrors.servers[1]);
    let (code, report) = compare(first, second).await;
    assert_eq!((code, &report["equal"]), (Some(0), &1.into()), "{report:#}");

    assert!(mirrors.servers[1].stop().await);
    let issue = mirrors.acme.issue(&alice(), now(), "only here");
    mirrors.publish(0, std::slice::from_ref(&issue)).await;
    let (_, _) = mirrors.moves_on(0, 1).await;
    // Nobody to catch up with: the first is away while the second is looked at.
    assert!(mirrors.servers[0].stop().await);
    mirrors.servers[1].restart_in_place().await;
    let (code, report) = compare(&mirrors.servers[0], &mirrors.servers[1]).await;
    assert_eq!(code, Some(1), "{report:#}");
    let line = &report["repositories"][0];
    assert_eq!(line["standing"], "different");
    assert_eq!(line["events_they_lack"], 2, "the issue and the state: {line:#}");
    assert_eq!(line["refs_apart"], 1, "{line:#}");
    assert_eq!(line["events_we_lack"], 1, "the state it followed until then: {line:#}");

    let nobody = mirrors.servers[1].home().runs(&["diff", "http://127.0.0.1:1"]).await;
    assert_eq!(nobody.status.code(), Some(2), "{}", errors(&nobody));
    let shown = mirrors.servers[0].home().runs(&["diff", &mirrors.servers[1].url()]).await;
    assert!(out(&shown).contains("they lack 2 events"), "{}", out(&shown));
}

#[tokio::test]
async fn completions_know_every_command() {
    let home = home(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = well(&home, &["completions", shell]).await;
        for word in ["purgatory", "doctor", "--json", "--relay-name"] {
            let word = if shell == "fish" { word.trim_start_matches("--") } else { word };
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
}

#[tokio::test]
async fn below_a_base_path_everything_works_alike() {
    let (acme, home) = (acme(), home(&[NAMED, ("NGIT_BASE_PATH", "/grasp")]));
    home.imports(&[acme.announcement_listing(&format!("{DOMAIN}/grasp"), THEN)]).await;
    let server = home.serve().await;
    let shown = json(server.home(), &["repo", &name(&acme)]).await;
    assert_eq!(shown["identifier"], "acme");
    let compared = server.home().runs(&["diff", &server.url(), "--json"]).await;
    let report: Value = serde_json::from_str(&out(&compared)).unwrap();
    assert_eq!((compared.status.code(), &report["equal"]), (Some(0), &1.into()), "{report:#}");
}
