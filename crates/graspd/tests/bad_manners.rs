//! How strangers behave on a socket: slowly, silently, in crowds, or not as the protocol says.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::{THEN, alice, home, server, serving};
use futures_util::{SinkExt, StreamExt};
use grasp_testkit::{Client, http, read_to_end, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async};

const CAP: Duration = Duration::from_secs(30);

#[tokio::test]
async fn frames_that_are_not_text_and_not_the_protocol_end_only_their_own_connection() {
    let (server, _) = serving(&[]).await;
    let mut witness = Client::connect(&server.url()).await;
    let masked = |head: &[u8]| [head, &[0, 0, 0, 0]].concat();
    for bytes in [
        [masked(&[0x81, 0x82]), vec![0xff, 0xfe]].concat(),
        masked(&[0x83, 0x80]),
        masked(&[0x80, 0x80]),
        masked(&[0xf1, 0x80]),
        vec![0x81, 0x02, b'[', b']'],
        [masked(&[0x89, 0xfe, 1, 0]), vec![0; 256]].concat(),
    ] {
        let mut socket = handshake(&server.address, "Upgrade").await;
        socket.write_all(&bytes).await.unwrap();
        // Whatever it says, it hangs up.
        read_to_end(&mut socket).await;
    }
    assert_eq!(witness.asks(&[json!({"kinds": [30617]})]).await.len(), 1);
}

#[tokio::test]
async fn who_does_not_read_costs_little_and_learns_what_was_missed() {
    let (server, acme) = serving(&[("NGIT_RELAY_MAX_OUTBOX_BYTES", "524288")]).await;
    let mut slow = Vec::new();
    for _ in 0..5 {
        let mut reader = narrow(&server.address).await;
        reader.send(Message::text(r#"["REQ","live",{"kinds":[1621],"limit":0}]"#)).await.unwrap();
        assert_eq!(next_json(&mut reader).await[0], "EOSE");
        slow.push(reader);
    }
    let mut attentive = Client::connect(&server.url()).await;
    attentive.subscribes("live", &[json!({"kinds": [1621], "limit": 0})]).await;
    let mut writer = Client::connect(&server.url()).await;
    let text = "x".repeat(200_000);
    let mut before = 0;
    for n in 0..200 {
        assert!(writer.publishes(&acme.issue(&alice(), THEN + n, &text)).await.accepted());
        assert_eq!(attentive.heard().await[2]["created_at"], THEN + n, "nobody else waits");
        if n == 20 {
            before = server.anonymous_kib();
        }
    }
    let grown = server.anonymous_kib().saturating_sub(before);
    assert!(grown < 16 << 10, "40 MB were published; {grown} KiB more than before");
    for mut reader in slow {
        let mut received = 0;
        let end = loop {
            let message = next_json(&mut reader).await;
            if message[0] != "EVENT" {
                break message;
            }
            assert_eq!(message[2]["created_at"], THEN + received, "without a gap until the end");
            received += 1;
        };
        assert_eq!((&end[0], &end[1]), (&json!("CLOSED"), &json!("live")));
        assert!(end[2].as_str().unwrap().contains("you read too slowly"), "{end}");
        assert!((1..200).contains(&received), "{received}");
        // The conversation goes on.
        reader.send(Message::text(r#"["COUNT","c",{"kinds":[1621]}]"#)).await.unwrap();
        assert_eq!(next_json(&mut reader).await[2]["count"], 200);
    }
}

#[tokio::test]
async fn who_dawdles_over_headers_is_dropped_while_others_are_served() {
    let server = server(&[("NGIT_HTTP_HEADER_TIMEOUT_SECS", "1")]).await;
    let mut dripping = tokio::task::JoinSet::new();
    let started = Instant::now();
    for _ in 0..30 {
        let mut socket = TcpStream::connect(&server.address).await.unwrap();
        dripping.spawn(async move {
            socket.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").await.unwrap();
            let (mut read, mut write) = socket.split();
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            let drip = async {
                loop {
                    tick.tick().await;
                    if write.write_all(b"X-More: and more\r\n").await.is_err() {
                        return std::future::pending::<()>().await;
                    }
                }
            };
            let end = async { while read.read(&mut [0; 512]).await.is_ok_and(|n| n > 0) {} };
            tokio::select! { () = drip => {}, () = end => {} }
        });
    }
    for _ in 0..20 {
        assert_eq!(http("GET", &server.address, &[]).await.status, 200);
    }
    let all = async { while dripping.join_next().await.is_some() {} };
    timeout(CAP, all).await.expect("all are dropped");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert_eq!(http("GET", &server.address, &[]).await.status, 200);
}

#[tokio::test]
async fn a_connection_without_a_further_request_is_closed() {
    let server = server(&[("NGIT_HTTP_HEADER_TIMEOUT_SECS", "1")]).await;
    let mut socket = TcpStream::connect(&server.address).await.unwrap();
    socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let started = Instant::now();
    let heard = read_to_end(&mut socket).await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    assert!(heard.ends_with("ok\n"), "{heard}");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_silent_websocket_is_asked_and_then_closed() {
    let server =
        server(&[("NGIT_RELAY_PING_SECS", "1"), ("NGIT_RELAY_IDLE_TIMEOUT_SECS", "2")]).await;
    let mut polite = Client::connect(&server.url()).await;
    let mut silent = handshake(&server.address, "Upgrade").await;
    let (mut read, answering) = (Vec::new(), async {
        // Answers every ping by itself, and so outlives the other.
        while polite.socket.next().await.is_some() {}
    });
    tokio::select! {
        ended = timeout(CAP, silent.read_to_end(&mut read)) => drop(ended.expect("it is closed")),
        () = answering => panic!("the polite one was closed"),
    }
    assert!(read.starts_with(&[0x89, 0]), "it was asked first: {read:?}");
}

#[tokio::test]
async fn running_out_of_descriptors_does_not_end_the_server() {
    let server = home(&[]).with_descriptors(64).serve().await;
    // Far more than it can hold; the kernel makes some of them wait at the door.
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let address = server.address.clone();
        crowd.push(tokio::spawn(async move {
            let _socket = TcpStream::connect(address).await;
            std::future::pending::<()>().await;
        }));
    }
    server.logs("could not accept a connection").await;
    crowd.iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(http("GET", &server.address, &[]).await.status, 200);
    let mut client = Client::connect(&server.url()).await;
    assert_eq!(client.counts(&[json!({})]).await, 0);
}

#[tokio::test]
async fn a_browser_that_also_wants_keep_alive_gets_its_websocket() {
    let (server, _) = serving(&[]).await;
    let socket = handshake(&server.address, "keep-alive, Upgrade").await;
    let stream = MaybeTlsStream::Plain(socket);
    let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let mut client = Client { socket };
    assert_eq!(client.counts(&[json!({})]).await, 1);
}

#[tokio::test]
async fn half_a_handshake_is_told_what_is_missing() {
    let server = server(&[]).await;
    let asking = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
    let page = http("GET", &server.address, &asking).await;
    assert_eq!(page.status, 400, "{page:?}");
    assert_eq!(page.header("access-control-allow-origin"), Some("*"));
    let old = [asking[0], asking[1], ("Sec-WebSocket-Version", "8"), ("Sec-WebSocket-Key", "eA==")];
    let page = http("GET", &server.address, &old).await;
    assert!((400..500).contains(&page.status), "{page:?}");
    for key in ["", "  "] {
        let version = ("Sec-WebSocket-Version", "13");
        let empty = [asking[0], asking[1], version, ("Sec-WebSocket-Key", key)];
        let page = http("GET", &server.address, &empty).await;
        assert_eq!(page.status, 400, "{page:?}");
    }
}

#[tokio::test]
async fn requests_beyond_all_measure_are_refused() {
    let server = server(&[]).await;
    let long = format!("{}/{}", server.address, "x".repeat(100_000));
    let page = http("GET", &long, &[]).await;
    assert!((400..500).contains(&page.status), "{}", page.status);
    let wide = "y".repeat(60_000);
    let page = http("GET", &server.address, &[("X-Wide", &wide)]).await;
    assert!((400..500).contains(&page.status), "{}", page.status);
    let many: Vec<(String, String)> = (0..200).map(|n| (format!("X-{n}"), n.to_string())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let page = http("GET", &server.address, &many).await;
    assert!((400..500).contains(&page.status), "{}", page.status);
    for line in ["nonsense\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01"] {
        let mut socket = TcpStream::connect(&server.address).await.unwrap();
        socket.write_all(line.as_bytes()).await.unwrap();
        socket.shutdown().await.unwrap();
        read_to_end(&mut socket).await;
    }
    until("the next honest request", || async {
        http("GET", &server.address, &[]).await.status == 200
    })
    .await;
}

/// A WebSocket handshake by hand; the socket is then the server's to speak on.
async fn handshake(address: &str, connection: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: {connection}\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(CAP, socket.read_u8()).await.unwrap().unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    // The example of RFC 6455.
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    socket
}

type Narrow = WebSocketStream<TcpStream>;

/// A client whose kernel buffers next to nothing for it.
async fn narrow(address: &str) -> Narrow {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let stream = socket.connect(address.parse().unwrap()).await.unwrap();
    client_async(format!("ws://{address}"), stream).await.unwrap().0
}

async fn next_json(socket: &mut Narrow) -> Value {
    loop {
        match timeout(CAP, socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            other => assert!(!other.is_close(), "closed: {other:?}"),
        }
    }
}
