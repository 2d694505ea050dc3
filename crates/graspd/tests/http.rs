//! The one port, as browsers, monitors and proxies meet it.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::{THEN, alice, deletion, grasp_list, home, server, serving};
use grasp_testkit::{Client, Page, Server, http, now};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_new_server_answers_within_two_seconds() {
    let started = Instant::now();
    let server = server(&[]).await;
    assert_eq!(get(&server, "/").await.status, 200);
    assert_eq!(info(&server).await["limitation"]["max_message_length"], 1_048_576);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_greeting_tells_what_it_is_and_where() {
    let server = server(&[]).await;
    let greeting = server.greeting.join("\n");
    assert!(greeting.contains("graspd") && greeting.contains("Nostr relay"), "{greeting}");
    assert!(greeting.contains(&server.url()), "{greeting}");
}

#[tokio::test]
async fn the_page_tells_people_what_this_is() {
    let (server, _) = serving(&[("NGIT_RELAY_NAME", "A <b>bold</b> name")]).await;
    let page = get(&server, "/").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.body.contains("A &#60;b&#62;bold&#60;/b&#62; name"), "{}", page.body);
    let counted = "<strong>1</strong> <span>repositories announced</span>";
    assert!(page.body.contains(counted), "{}", page.body);
    let csp = page.header("content-security-policy").unwrap();
    for rule in ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"] {
        assert!(csp.contains(rule), "{rule} is missing in {csp}");
    }
}

#[tokio::test]
async fn a_request_with_two_host_headers_is_refused_with_the_reason() {
    let server = server(&[]).await;
    for path in ["/", "/api/v1/status", "/healthz"] {
        let page = at(&server, "GET", path, &[("Host", "another.example")]).await;
        assert_eq!(page.status, 400, "{path}");
        assert!(page.body.contains("more than one Host header"), "{}", page.body);
    }
    assert_eq!(get(&server, "/healthz").await.status, 200);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = server(&[]).await;
    for path in ["/", "/healthz", "/readyz", "/.well-known/nostr.json", "/no/such/place"] {
        let (got, head) = (get(&server, path).await, at(&server, "HEAD", path, &[]).await);
        assert_eq!(head.status, got.status, "{path}");
        assert_eq!(head.body, "", "{path}");
        assert_eq!(head.header("content-type"), got.header("content-type"), "{path}");
        assert_eq!(head.header("content-length"), got.header("content-length"), "{path}");
    }
}

#[tokio::test]
async fn the_relay_describes_itself_to_whoever_accepts_that() {
    let server = server(&[
        ("NGIT_RELAY_NAME", "acme relay"),
        ("NGIT_RELAY_DESCRIPTION", "for acme"),
        ("NGIT_RELAY_MAX_SUBSCRIPTIONS", "77"),
    ])
    .await;
    for accept in [
        "application/nostr+json",
        "Application/Nostr+JSON; q=0.9",
        "text/html, application/nostr+json",
        "text/html;q=0.9,application/nostr+json;q=0.1,*/*",
    ] {
        let page = at(&server, "GET", "/", &[("Accept", accept)]).await;
        assert_eq!(page.status, 200, "{accept}");
        assert_eq!(page.header("content-type"), Some("application/nostr+json"), "{accept}");
        let info: Value = serde_json::from_str(&page.body).unwrap();
        assert_eq!(info["name"], "acme relay");
        assert_eq!(info["description"], "for acme");
        assert_eq!(info["supported_nips"], json!([1, 5, 9, 11, 34, 40, 42, 45, 62, 67, 70, 77]));
        assert_eq!(info["supported_grasps"], json!(["GRASP-01", "GRASP-02"]));
        assert_eq!(info["limitation"]["max_subscriptions"], 77, "what is enforced");
        assert!(info["repo_acceptance_criteria"].is_string());
        assert_eq!(info["pubkey"].as_str().unwrap().len(), 64);
    }
    for accept in ["text/html", "*/*", "application/json", "application/nostr+jsonx"] {
        let page = at(&server, "GET", "/", &[("Accept", accept)]).await;
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{accept}");
    }
}

#[tokio::test]
async fn the_name_of_the_relay_leads_to_its_key() {
    let server = server(&[]).await;
    let page = get(&server, "/.well-known/nostr.json?name=_").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("application/json"));
    let names: Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(names["names"]["_"], info(&server).await["pubkey"]);
}

#[tokio::test]
async fn everything_moves_below_the_base_path() {
    let server = server(&[("NGIT_BASE_PATH", "/grasp")]).await;
    let root = server.address.trim_end_matches("/grasp").to_owned();
    let fetch = |path: &'static str, headers: &'static [(&str, &str)]| {
        let place = format!("{root}{path}");
        async move { http("GET", &place, headers).await }
    };
    for path in ["/grasp", "/grasp/", "/grasp/healthz", "/grasp/readyz", "/grasp/metrics"] {
        assert_eq!(fetch(path, &[]).await.status, 200, "{path}");
    }
    let accept = &[("Accept", "application/nostr+json")];
    let page = fetch("/grasp/", accept).await;
    assert_eq!(page.header("content-type"), Some("application/nostr+json"));
    for path in ["/", "/graspx", "/healthz", "/metrics", "/.well-known/nostr.json"] {
        assert_eq!(fetch(path, accept).await.status, 404, "{path}");
    }
    let mut client = Client::connect(&format!("ws://{root}/grasp/")).await;
    assert_eq!(client.counts(&[json!({})]).await, 0);
}

#[tokio::test]
async fn metrics_have_the_names_that_dashboards_ask_for() {
    let (server, acme) = serving(&[]).await;
    let mut client = Client::connect(&server.url()).await;
    assert!(client.publishes(&acme.issue(&alice(), THEN, "counted")).await.accepted());
    let orphan = grasp_testkit::Draft::new(grasp_core::Kind::ISSUE, THEN);
    assert!(!client.publishes(&alice().signs(orphan)).await.ok);
    let page = get(&server, "/metrics").await;
    assert_eq!(page.status, 200);
    let kind = page.header("content-type");
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "ngit_websocket_connections_active 1",
        "ngit_websocket_connections_total 1",
        "ngit_websocket_messages_received_total{type=\"EVENT\"} 2",
        "ngit_websocket_messages_sent_total{type=\"OK\"} 2",
        "ngit_events_received_total{kind=\"1621\"} 2",
        "ngit_events_stored_total{kind=\"1621\"} 1",
        "ngit_events_rejected_total{kind=\"1621\",reason=\"unrelated\"} 1",
        "ngit_repositories_total 1",
        "# TYPE ngit_websocket_connection_duration_seconds histogram",
        "# TYPE ngit_uptime_seconds counter",
    ] {
        assert!(page.body.lines().any(|found| found == line), "no `{line}` in\n{}", page.body);
    }
    assert!(page.body.contains("ngit_build_info{"));
}

#[tokio::test]
async fn metrics_can_be_switched_off() {
    let server = server(&[("NGIT_METRICS_ENABLED", "false")]).await;
    assert_eq!(get(&server, "/metrics").await.status, 404);
}

#[tokio::test]
async fn any_website_may_ask_whatever_the_answer() {
    let server = server(&[]).await;
    for (method, path, status) in [
        ("GET", "/", 200),
        ("GET", "/metrics", 200),
        ("GET", "/no/such/place", 404),
        ("GET", "/..%2f..%2fetc/passwd", 404),
        ("POST", "/", 405),
        ("DELETE", "/healthz", 405),
        ("OPTIONS", "/", 204),
        ("OPTIONS", "/no/such/place", 204),
        ("OPTIONS", "/npub1x/acme.git/git-receive-pack", 204),
    ] {
        let page = at(&server, method, path, &[("Origin", "https://site.example")]).await;
        assert_eq!(page.status, status, "{method} {path}");
        assert_cors(&page, &format!("{method} {path}"));
        if status == 204 {
            assert_eq!(page.body, "");
        }
        if status == 405 {
            assert_eq!(page.header("allow"), Some("GET, HEAD, OPTIONS"));
        }
    }
}

#[tokio::test]
async fn a_body_nobody_wants_does_no_harm() {
    let server = server(&[]).await;
    let headers = [("Content-Length", "100000"), ("Content-Type", "text/plain")];
    let page = at(&server, "POST", "/healthz", &headers).await;
    assert_eq!(page.status, 405);
    assert_cors(&page, "an unread body");
    assert_eq!(get(&server, "/healthz").await.status, 200);
}

#[tokio::test]
async fn a_full_store_says_so_takes_deletions_and_recovers() {
    let (server, acme) = serving(&[("NGIT_RELAY_DISK_BUDGET_BYTES", "16777216")]).await;
    let mut client = Client::connect(&server.url()).await;
    assert_eq!(get(&server, "/readyz").await.status, 200);
    let text = "x".repeat(200_000);
    let mut stored = Vec::new();
    let refusal = loop {
        let issue = acme.issue(&alice(), THEN + stored.len() as u64, &text);
        let answer = client.publishes(&issue).await;
        if !answer.ok {
            break answer;
        }
        stored.push(issue);
        assert!(stored.len() < 100, "20 MB in 16 MiB");
    };
    assert!(refusal.refused("error:") && refusal.text.contains("disk budget"), "{refusal:?}");
    assert!(stored.len() > 60, "95 % are used: {}", stored.len());
    let page = get(&server, "/readyz").await;
    assert_eq!(page.status, 503);
    assert!(page.body.contains("full") && page.body.contains("16 MiB"), "{}", page.body);
    assert_cors(&page, "503");
    assert!(page.header("retry-after").is_some());
    assert_eq!(get(&server, "/healthz").await.status, 200, "alive, only not ready");
    assert!(!client.publishes(&grasp_list(&alice(), THEN)).await.ok);
    assert_eq!(client.counts(&[json!({"kinds": [1621]})]).await, stored.len() as u64);

    let half: Vec<_> = stored.iter().step_by(2).collect();
    let request = deletion(&alice(), now(), &half);
    assert!(client.publishes(&request).await.accepted());
    assert_eq!(get(&server, "/readyz").await.status, 200);
    assert!(client.publishes(&grasp_list(&alice(), THEN)).await.accepted());
}

#[tokio::test]
async fn a_full_house_turns_websockets_away_politely() {
    let server = server(&[("NGIT_MAX_CONNECTIONS", "2")]).await;
    let (first, _second) =
        (Client::connect(&server.url()).await, Client::connect(&server.url()).await);
    let asking = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let page = at(&server, "GET", "/", &asking).await;
    assert_eq!(page.status, 503);
    assert_cors(&page, "a full house");
    assert!(page.body.contains("in use"), "{}", page.body);
    assert_eq!(get(&server, "/").await.status, 200, "pages are still there");
    grasp_testkit::until("the operator is told", || async {
        get(&server, "/api/v1/status").await.body.contains("\"connections-full\"")
    })
    .await;
    drop(first);
    grasp_testkit::until("a free place", || async {
        get(&server, "/metrics").await.body.contains("connections_active 1")
    })
    .await;
    Client::connect(&server.url()).await;
}

#[tokio::test]
async fn an_address_with_too_many_connections_is_turned_away_at_the_door() {
    // Somebody else is the proxy, so this machine is counted like any other.
    let server =
        server(&[("NGIT_TRUSTED_PROXY_CIDRS", "10.0.0.0/8"), ("NGIT_MAX_CONNECTIONS_PER_IP", "2")])
            .await;
    let first = Client::connect(&server.url()).await;
    let _second = Client::connect(&server.url()).await;
    let forwarded = [("X-Forwarded-For", "203.0.113.1")];
    let page = at(&server, "GET", "/", &forwarded).await;
    assert_eq!(page.status, 503, "a stranger's word about addresses counts for nothing");
    assert!(page.body.contains("2 open connections"), "{}", page.body);
    assert_eq!(page.header("access-control-allow-origin"), Some("*"));
    assert!(page.header("retry-after").is_some());
    drop(first);
    grasp_testkit::until("room again", || async { get(&server, "/").await.status == 200 }).await;
}

#[tokio::test]
async fn a_connection_may_be_used_again_but_not_for_ever() {
    use tokio::io::AsyncWriteExt;
    let home = home(&[("NGIT_HTTP_MAX_REQUESTS_PER_CONNECTION", "3")]);
    let server = home.serve().await;
    let mut socket = tokio::net::TcpStream::connect(&server.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    socket.write_all(&request.repeat(5)).await.unwrap();
    let heard = grasp_testkit::read_to_end(&mut socket).await;
    assert_eq!(heard.matches("HTTP/1.1 200").count(), 3, "{heard}");
    assert_eq!(heard.to_lowercase().matches("connection: close").count(), 1, "{heard}");
}

async fn at(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Page {
    http(method, &format!("{}{path}", server.address), headers).await
}

async fn get(server: &Server, path: &str) -> Page {
    at(server, "GET", path, &[]).await
}

async fn info(server: &Server) -> Value {
    let page = at(server, "GET", "/", &[("Accept", "application/nostr+json")]).await;
    serde_json::from_str(&page.body).unwrap()
}

/// Exactly one of each: a doubled header breaks browsers.
fn assert_cors(page: &Page, what: &str) {
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, POST, OPTIONS"),
        ("access-control-allow-headers", ""),
    ] {
        let found: Vec<_> = page.headers.iter().filter(|(found, _)| found == name).collect();
        assert_eq!(found.len(), 1, "{name} on {what}");
        assert!(found[0].1.starts_with(value), "{name} on {what}: {}", found[0].1);
    }
}
