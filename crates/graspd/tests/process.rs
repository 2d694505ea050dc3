//! The server as a process: its data, its key, its settings, its end, and the commands beside it.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN};
use common::{THEN, acme, alice, bob, grasp_list, home, server, serving};
use futures_util::{SinkExt, StreamExt};
use grasp_core::{Event, VerifiedEvent};
use grasp_testkit::{Author, Client, Git, Repository, http, json_lines, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixDatagram};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

const CAP: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_second_process_on_the_same_data_is_refused() {
    let (mut server, _) = serving(&[]).await;
    for args in [&[][..], &["serve"], &["events", "export"]] {
        let output = server.home().runs(args).await;
        assert!(!output.status.success(), "{args:?}");
        assert!(errors(&output).contains("another graspd is already using"), "{}", errors(&output));
    }
    assert_eq!(http("GET", &server.address, &[]).await.status, 200, "the first one did not mind");
    assert!(server.stop().await);
    let output = server.home().runs(&["events", "export"]).await;
    assert!(output.status.success(), "{}", errors(&output));
}

#[tokio::test]
async fn the_key_is_secret_and_lasts() {
    let mut server = server(&[]).await;
    let key_file = server.home().relay_path().join("relay-owner.nsec");
    let mode = fs::metadata(&key_file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let secret = fs::read_to_string(&key_file).unwrap();
    assert!(secret.starts_with("nsec1"));
    let key = relay_key(&server.address).await;
    server.kill().await;
    server.restart().await;
    assert_eq!(relay_key(&server.address).await, key);
    let printed = server.home().runs(&["config", "print"]).await;
    assert!(!String::from_utf8_lossy(&printed.stdout).contains(secret.trim()));
}

#[tokio::test]
async fn a_missing_key_beside_data_stops_the_start() {
    let mut server = server(&[]).await;
    assert!(server.stop().await);
    let home = server.into_home();
    let key_file = home.relay_path().join("relay-owner.nsec");
    let secret = fs::read_to_string(&key_file).unwrap();
    fs::remove_file(&key_file).unwrap();
    let output = home.runs(&[]).await;
    assert!(!output.status.success());
    assert!(errors(&output).contains("Restore the key"), "{}", errors(&output));
    assert!(!key_file.exists(), "no new key was made");
    fs::write(&key_file, secret).unwrap();
    let server = home.serve().await;
    assert_eq!(http("GET", &server.address, &[]).await.status, 200);
}

#[tokio::test]
async fn a_strangers_directory_is_left_alone() {
    for name in ["relay", "git"] {
        let home = home(&[]);
        let directory = home.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("data.mdb"), "somebody else's").unwrap();
        let output = home.runs(&[]).await;
        assert!(!output.status.success());
        assert!(errors(&output).contains("was not made by graspd"), "{}", errors(&output));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing was added");
    }
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = server(&[]).await;
    let second = home(&[("NGIT_BIND_ADDRESS", &first.address)]);
    let output = second.runs(&[]).await;
    assert!(!output.status.success());
    let text = errors(&output);
    assert!(text.contains(&first.address) && text.contains("NGIT_BIND_ADDRESS"), "{text}");
}

#[tokio::test]
async fn sigterm_ends_open_connections_in_order() {
    let (mut server, _) = serving(&[]).await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(&server.url()).await;
        client.subscribes("live", &[json!({})]).await;
        sockets.push(client);
    }
    let mut idle = TcpStream::connect(&server.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let _loris = TcpStream::connect(&server.address).await.unwrap();
    let started = Instant::now();
    assert!(server.stop().await, "it ends well");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    for client in &mut sockets {
        let farewell = client.socket.next().await.unwrap().unwrap();
        let Message::Close(Some(frame)) = farewell else { panic!("{farewell:?}") };
        assert_eq!(frame.reason, "the server is stopping");
    }
}

#[tokio::test]
async fn sigterm_does_not_wait_for_ever_for_who_does_not_read() {
    let (mut server, acme) =
        serving(&[("NGIT_DRAIN_SECS", "1"), ("NGIT_RELAY_MAX_OUTBOX_BYTES", "8388608")]).await;
    let mut stuck = Client::connect(&server.url()).await;
    stuck.subscribes("live", &[json!({})]).await;
    let mut writer = Client::connect(&server.url()).await;
    for n in 0..100 {
        let issue = acme.issue(&alice(), THEN + n, &"x".repeat(200_000));
        assert!(writer.publishes(&issue).await.accepted());
    }
    let started = Instant::now();
    assert!(server.stop().await);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_answers_what_it_took_in_and_takes_in_nothing_it_does_not_answer() {
    let (mut server, acme) = serving(&[]).await;
    let mut publishing = tokio::task::JoinSet::new();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..4 {
        let (url, tell, acme) = (server.url(), tell.clone(), acme.clone());
        publishing.spawn(async move { publishes_until_the_end(&url, n, &acme, &tell).await });
    }
    for _ in 0..400 {
        told.recv().await.unwrap();
    }
    assert!(server.stop().await);
    let mut acknowledged = BTreeSet::new();
    while let Some(part) = publishing.join_next().await {
        acknowledged.extend(part.unwrap());
    }
    let output = server.home().runs(&["events", "export", "-", "--filter", r#"{"kinds":[1621]}"#]);
    let stored: BTreeSet<String> = exported(&output.await).into_iter().collect();
    let unanswered = stored.difference(&acknowledged).count();
    let lost = acknowledged.difference(&stored).count();
    assert_eq!((lost, unanswered), (0, 0), "of {} stored", stored.len());
}

#[tokio::test]
async fn systemd_is_told_when_it_is_ready_and_when_it_stops() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut server = server(&[("NOTIFY_SOCKET", path.to_str().unwrap())]).await;
    let mut told = String::new();
    let mut buffer = [0; 256];
    let len = timeout(CAP, manager.recv(&mut buffer)).await.unwrap().unwrap();
    told.push_str(std::str::from_utf8(&buffer[..len]).unwrap());
    assert!(told.contains("READY=1"), "{told}");
    assert!(server.stop().await);
    let len = timeout(CAP, manager.recv(&mut buffer)).await.unwrap().unwrap();
    told.push_str(std::str::from_utf8(&buffer[..len]).unwrap());
    assert!(told.contains("STOPPING=1"), "{told}");
}

#[tokio::test]
async fn a_setting_for_a_part_that_is_not_built_stops_the_start() {
    let output = home(&[("NGIT_PRIVATE_MODE", "true")]).runs(&[]).await;
    assert_eq!(output.status.code(), Some(2));
    let text = errors(&output);
    assert!(text.contains("NGIT_PRIVATE_MODE") && text.contains("private mode"), "{text}");
    let server = server(&[("NGIT_PRIVATE_MODE", "false")]).await;
    assert_eq!(http("GET", &server.address, &[]).await.status, 200, "its default is fine");
}

#[tokio::test]
async fn dead_names_are_ignored_with_a_line_in_the_log() {
    let settings = [("NGIT_TEST", "1"), ("NGIT_SYNC_STARTUP_DELAY_SECS", "5")];
    let server = server(&settings).await;
    for (name, _) in settings {
        server.logs(name).await;
    }
}

#[tokio::test]
async fn a_misspelt_setting_is_refused_with_a_suggestion_and_a_foreign_one_is_not() {
    let output = home(&[("NGIT_RELAY_NAM", "x")]).runs(&[]).await;
    assert_eq!(output.status.code(), Some(2));
    let text = errors(&output);
    assert!(text.contains("NGIT_RELAY_NAM") && text.contains("NGIT_RELAY_NAME"), "{text}");
    let server = server(&[("NGIT_SOMETHING_OF_ANOTHER_PROGRAM", "x")]).await;
    server.logs("NGIT_SOMETHING_OF_ANOTHER_PROGRAM").await;
}

#[tokio::test]
async fn all_complaints_come_at_once_and_nothing_is_created() {
    let home = home(&[
        ("NGIT_RELAY_MAX_SUBSCRIPTIONS", "many"),
        ("NGIT_REPOSITORY_BLACKLIST", "npub1nonsense"),
        ("NGIT_ARCHIVE_ALL", "true"),
    ]);
    for args in [&[][..], &["config", "check"]] {
        let output = home.runs(args).await;
        assert_eq!(output.status.code(), Some(2));
        let text = errors(&output);
        for name in
            ["NGIT_RELAY_MAX_SUBSCRIPTIONS", "NGIT_REPOSITORY_BLACKLIST", "NGIT_ARCHIVE_ALL"]
        {
            assert!(text.contains(name), "{name} is missing in {text}");
        }
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn events_travel_between_servers_as_lines() {
    let events = some_events();
    let home = home(&[]);
    home.imports(&events).await;
    let all = exported(&home.runs(&["events", "export"]).await);
    assert_eq!(all, in_order(&events));
    let only = |filter: &str| {
        let filter = filter.to_owned();
        let home = &home;
        async move { exported(&home.runs(&["events", "export", "-", "--filter", &filter]).await) }
    };
    assert_eq!(only(r#"{"kinds":[30617]}"#).await, in_order(&events[..1]));
    assert_eq!(only(r#"{"kinds":[1621],"limit":2}"#).await, in_order(&events[1..])[..2]);
    assert_eq!(only(r#"{"kinds":[4242]}"#).await.len(), 0);
    let two = ["events", "export", "-", "--filter", r#"{"kinds":[30617]}"#, "--filter"];
    let two = [&two[..], &[r#"{"kinds":[1621]}"#]].concat();
    assert_eq!(exported(&home.runs(&two).await), in_order(&events));

    let file = home.path().join("all.jsonl").display().to_string();
    assert!(home.runs(&["events", "export", &file]).await.status.success());
    let other = common::home(&[]);
    let output = other.runs(&["events", "import", &file]).await;
    assert!(errors(&output).contains("31 events imported, 0 were already here"), "{output:?}");
    let again = other.runs(&["events", "import", &file]).await;
    assert!(errors(&again).contains("0 events imported, 31 were already here"), "{again:?}");
    assert_eq!(exported(&other.runs(&["events", "export"]).await), all);
    let server = other.serve().await;
    let mut client = Client::connect(&server.url()).await;
    assert_eq!(client.counts(&[json!({})]).await, 31);
}

#[tokio::test]
async fn an_import_refuses_forgeries_says_so_and_takes_the_rest() {
    let home = home(&[]);
    let events = some_events();
    let mut forged = events[2].event().clone();
    forged.content = "changed".into();
    let mut unsigned = events[3].event().clone();
    unsigned.sig = events[4].sig;
    let lines = format!(
        "{}{}\n{}\n\nnot json\n{}",
        json_lines(&events[..2]),
        forged.to_json(),
        unsigned.to_json(),
        json_lines(&events[5..7])
    );
    fs::write(home.path().join("mixed.jsonl"), lines).unwrap();
    let output = home.runs(&["events", "import", "mixed.jsonl"]).await;
    assert!(!output.status.success(), "somebody should look at it");
    let text = errors(&output);
    for line in
        ["line 3 is skipped: the id", "line 4 is skipped: the signature", "line 6 is skipped"]
    {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert!(text.contains("4 events imported") && text.contains("3 refused"), "{text}");
    let kept = [&events[..2], &events[5..7]].concat();
    assert_eq!(exported(&home.runs(&["events", "export"]).await), in_order(&kept));
}

#[tokio::test]
async fn an_import_from_a_file_that_is_not_there_says_which() {
    let output = home(&[]).runs(&["events", "import", "nowhere.jsonl"]).await;
    assert!(!output.status.success());
    assert!(errors(&output).contains("nowhere.jsonl"), "{}", errors(&output));
}

#[tokio::test]
async fn the_memory_backend_works_and_forgets() {
    let mut server = server(&[("NGIT_DATABASE_BACKEND", "memory")]).await;
    let mut client = Client::connect(&server.url()).await;
    let list = grasp_list(&alice(), THEN);
    assert!(client.publishes(&list).await.accepted());
    assert_eq!(client.asks(&[json!({})]).await, [list.id]);
    let held = acme().announcement_listing(&server.address, THEN);
    assert!(client.publishes(&held).await.text.starts_with("purgatory:"));
    assert!(server.stop().await);
    let left: Vec<_> = fs::read_dir(server.data_path()).unwrap().flatten().collect();
    assert!(left.iter().all(|it| it.file_name() == "git"), "no event was written: {left:?}");
    server.restart().await;
    let mut client = Client::connect(&server.url()).await;
    assert_eq!(client.counts(&[json!({})]).await, 0);
    assert!(!server.home().runs(&["events", "export"]).await.status.success());
}

#[tokio::test]
async fn the_memory_backend_puts_git_data_where_it_is_told_and_cleans_up_after_a_kill() {
    let tmp = tempfile::tempdir().unwrap();
    let tmp_path = tmp.path().display().to_string();
    let settings = [("NGIT_DATABASE_BACKEND", "memory"), ("TMPDIR", &tmp_path)];
    let mut hosted = Hosted::announced(&Git::any(), &settings).await;
    let tip = hosted.tree.commit("README", "hello").await;
    hosted.signs(&[(MAIN, tip)]).await;
    hosted.pushes(&["main"]).await.expect("a push");
    assert!(hosted.directory().join("packed-refs").exists(), "in NGIT_GIT_DATA_PATH");
    let directories = || fs::read_dir(tmp.path()).unwrap().count();
    assert_eq!(directories(), 1);
    hosted.server.kill().await;
    assert_eq!(directories(), 1, "a kill leaves it");
    hosted.server.restart().await;
    assert_eq!(directories(), 1, "the next start removes it and makes its own");
    assert!(hosted.server.stop().await);
    assert_eq!(directories(), 0);
}

#[tokio::test]
async fn behind_a_proxy_every_forwarded_address_has_its_own_budget() {
    let (server, acme) = serving(&[
        ("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8"),
        ("NGIT_RELAY_MAX_IP_EVENTS_PER_MINUTE", "1"),
        ("NGIT_RELAY_MAX_IP_EVENTS_BURST", "3"),
        ("NGIT_MAX_CONNECTIONS_PER_IP", "2"),
    ])
    .await;
    let from = |address: &'static str| {
        let url = server.url();
        async move { Client::connect_with(&url, &[("X-Forwarded-For", address)]).await }
    };
    let mut one = from("203.0.113.1").await;
    let mut same = from("6.6.6.6, 203.0.113.1").await;
    let mut two = from("2001:db8::1").await;
    let issue = |n: u64| acme.issue(&alice(), THEN + n, "paced");
    assert!(one.publishes(&issue(1)).await.accepted());
    assert!(one.publishes(&issue(2)).await.accepted());
    assert!(same.publishes(&issue(3)).await.accepted());
    for client in [&mut one, &mut same] {
        let limited = client.publishes(&issue(4)).await;
        assert!(limited.refused("rate-limited: your address may send 1 events"), "{limited:?}");
        assert!(limited.text.contains("try again in"), "{limited:?}");
    }
    assert!(two.publishes(&issue(5)).await.accepted());
    // A whole IPv6 network is one customer.
    let mut neighbour = from("2001:db8::2").await;
    assert!(neighbour.publishes(&issue(6)).await.accepted());
    assert!(two.publishes(&issue(7)).await.accepted());
    assert!(neighbour.publishes(&issue(8)).await.refused("rate-limited:"));
    // Reading costs nothing.
    assert_eq!(one.counts(&[json!({"kinds": [1621]})]).await, 6);

    let asking = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("X-Forwarded-For", "203.0.113.1"),
    ];
    let third = http("GET", &server.address, &asking).await;
    assert_eq!(third.status, 503);
    assert!(third.body.contains("2 open connections"), "{}", third.body);
    drop(same);
    let proxied = [("X-Forwarded-For", "203.0.113.1")];
    until("room for another", || async {
        Client::try_connect(&server.url(), &proxied).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn new_repositories_and_announcements_are_paced_by_address() {
    let server = server(&[
        ("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8"),
        ("NGIT_RELAY_MAX_IP_REPOSITORIES_PER_DAY", "2"),
        ("NGIT_RELAY_MAX_IP_ANNOUNCEMENTS_PER_HOUR", "4"),
    ])
    .await;
    let mut client =
        Client::connect_with(&server.url(), &[("X-Forwarded-For", "203.0.113.9")]).await;
    let announces = |n: u64, at: u64| {
        Repository::new(Author::number(n), "x").announcement_listing(&server.address, at)
    };
    assert!(client.publishes(&announces(1, THEN)).await.ok);
    assert!(client.publishes(&announces(2, THEN)).await.ok);
    let third = client.publishes(&announces(3, THEN)).await;
    assert!(third.refused("rate-limited: your address may send 2 new repositories"), "{third:?}");
    assert!(client.publishes(&announces(1, THEN + 1)).await.ok, "an old one may change");
    let fifth = client.publishes(&announces(1, THEN + 2)).await;
    assert!(fifth.refused("rate-limited: your address may send 4 announcements"), "{fifth:?}");
}

#[tokio::test]
async fn without_a_proxy_forwarded_addresses_mean_nothing() {
    let (server, acme) = serving(&[
        ("NGIT_RELAY_MAX_IP_EVENTS_PER_MINUTE", "1"),
        ("NGIT_RELAY_MAX_IP_EVENTS_BURST", "1"),
    ])
    .await;
    let mut client =
        Client::connect_with(&server.url(), &[("X-Forwarded-For", "203.0.113.1")]).await;
    for n in 0..10 {
        let issue = acme.issue(&bob(), THEN + n, "from this machine");
        assert!(client.publishes(&issue).await.accepted(), "loopback has no budget");
    }
}

/// Publishes without a pause until the server hangs up; returns what it said yes to.
async fn publishes_until_the_end(
    url: &str,
    number: u64,
    acme: &Repository,
    tell: &tokio::sync::mpsc::UnboundedSender<()>,
) -> Vec<String> {
    let (mut sink, mut stream) = Client::connect(url).await.socket.split();
    let (author, acme) = (Author::number(2_000 + number), acme.clone());
    let sending = tokio::spawn(async move {
        for n in 0.. {
            let issue = acme.issue(&author, THEN + n, "in flight");
            let text = format!("[\"EVENT\",{}]", issue.to_json());
            if sink.send(Message::text(text)).await.is_err() {
                break;
            }
        }
    });
    let mut acknowledged = Vec::new();
    while let Some(Ok(message)) = stream.next().await {
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&message[0], &message[2]), (&json!("OK"), &json!(true)), "{message}");
        acknowledged.push(message[1].as_str().unwrap().to_owned());
        let _ = tell.send(());
    }
    sending.abort();
    acknowledged
}

fn some_events() -> Vec<VerifiedEvent> {
    let mut events = vec![acme().announcement(THEN)];
    events.extend((0..30).map(|n| acme().issue(&alice(), THEN + n, &format!("number {n}\n"))));
    events
}

fn in_order(events: &[VerifiedEvent]) -> Vec<String> {
    let mut events: Vec<&Event> = events.iter().map(VerifiedEvent::event).collect();
    events.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id)));
    events.into_iter().map(|event| event.id.to_hex()).collect()
}

/// The ids of an export, in its order; each line must be an event that verifies.
fn exported(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", errors(output));
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    let events = lines.lines().map(|line| Event::from_json(line.as_bytes()).unwrap());
    events.map(|event| event.verify().unwrap().id.to_hex()).collect()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn relay_key(address: &str) -> Value {
    let page = http("GET", address, &[("Accept", "application/nostr+json")]).await;
    serde_json::from_str::<Value>(&page.body).unwrap()["pubkey"].clone()
}
