//! Clients that take their time with the slots for pushes and clones, and those who wait for them.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN, refs};
use common::install_script;
use common::wire::{
    FLUSH, FRAMED, SlowPush, ZERO, begins, commands, pkt, posts, report, unchunked,
};
use grasp_core::Oid;
use grasp_testkit::{Git, Random, WorkTree, http, until};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const ONE_PLACE: [(&str, &str); 2] = [("NGIT_GIT_MAX_PUSHES", "1"), ("NGIT_GIT_QUEUE_SECS", "1")];

#[tokio::test]
async fn who_was_refused_and_still_talks_is_in_nobodys_way() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &ONE_PLACE).await;
    let second = hosted.tree.commit("README", "more").await;
    hosted.signs(&[(MAIN, second)]).await;
    let list = commands(&[(&first.to_hex(), &second.to_hex(), MAIN)], FRAMED);
    let not_a_pack = [list, vec![b'x'; 1 << 20]].concat();
    let talker = SlowPush::begins(&hosted.place(""), not_a_pack).await;
    hosted.pushes(&["main"]).await.expect("the place is free");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
    let told = report(&talker.ends().await);
    assert!(told.contains("refused"), "{told}");
}

#[tokio::test]
async fn who_finds_the_place_taken_is_told_to_come_back() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &ONE_PLACE).await;
    let second = hosted.tree.commit("README", "more").await;
    hosted.signs(&[(MAIN, second)]).await;
    let push = hosted.push_of(&first, &second).await;
    let slow = SlowPush::begins(&hosted.place(""), push.clone()).await;
    until("the first has the place", || async { hosted.incoming() == 1 }).await;

    let page = posts(&hosted.place(""), "git-receive-pack", &[], &push).await;
    assert_eq!(page.status, 503, "{page:?}");
    assert!(page.header("retry-after").is_some(), "{page:?}");
    assert_eq!(page.header("access-control-allow-origin"), Some("*"));
    let status = hosted.server.address.clone() + "/api/v1/status";
    until("the operator is told", || async {
        http("GET", &status, &[]).await.body.contains("\"git-slots-full\"")
    })
    .await;

    let told = report(&slow.ends().await);
    assert!(told.contains(&format!("ok {MAIN}")), "{told}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}

/// Every request says where it comes from, as behind a proxy.
const BEHIND_A_PROXY: [(&str, &str); 3] = [
    ("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8"),
    ("NGIT_GIT_MAX_PUSHES", "3"),
    ("NGIT_GIT_MAX_UPLOADS", "6"),
];
const HONEST: &str = "203.0.113.9";

/// `Hosted`, whose owner comes from the honest address, and with this much to clone.
async fn hosted_behind_a_proxy(bytes: usize) -> (Hosted, Oid) {
    hosted_with(&BEHIND_A_PROXY, bytes).await
}

async fn hosted_with(settings: &[(&str, &str)], bytes: usize) -> (Hosted, Oid) {
    let mut hosted = Hosted::announced(&Git::any(), settings).await;
    let header = format!("X-Forwarded-For: {HONEST}");
    hosted.tree.git(&["config", "http.extraHeader", &header]).await;
    let mut random = Random::seeded(5);
    let noise: String = (0..bytes / 17).map(|_| format!("{:016x}\n", random.next_u64())).collect();
    let first = hosted.tree.commit("noise", &noise).await;
    hosted.signs(&[(MAIN, first)]).await;
    hosted.pushes(&["main"]).await.expect("the first push");
    (hosted, first)
}

/// A push of a commit that no event names yet; it sends a few bytes now and then, without an end.
async fn slow_push(place: String, from: &'static str, number: u8) -> String {
    let name = format!("refs/nostr/{}", format!("{number:02x}").repeat(32));
    let list = commands(&[(ZERO, &"1".repeat(40), &name)], FRAMED);
    let mut socket = begins(TcpSocket::new_v4().unwrap(), &place, "git-receive-pack", from).await;
    socket.write_all(b"Transfer-Encoding: chunked\r\n\r\n").await.unwrap();
    let (mut read, mut write) = socket.split();
    let sending = async {
        let start = [list, b"PACK\0\0\0\x02\0\0\0\x01".to_vec()].concat();
        let mut piece = start;
        loop {
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
            if write.write_all(&chunk).await.is_err() {
                return std::future::pending().await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            // The head of a blob of a gigabyte, and then what could be its content.
            piece = vec![0xb0; 1 + usize::from(number) * 100];
        }
    };
    let mut told = Vec::new();
    tokio::select! {
        () = sending => {}
        _ = read.read_to_end(&mut told) => {}
    }
    String::from_utf8_lossy(&told).into_owned()
}

#[tokio::test]
async fn slow_pushers_of_one_address_do_not_stop_the_push_of_another_one() {
    let (mut hosted, first) = hosted_behind_a_proxy(1_000).await;
    let second = hosted.tree.commit("README", "more").await;
    hosted.signs(&[(MAIN, second)]).await;
    let started = Instant::now();
    hosted.pushes(&["main"]).await.expect("without slow pushers");
    let own_time = started.elapsed();
    assert_ne!(first, second);

    let mut slow = JoinSet::new();
    for number in 1..=8 {
        slow.spawn(slow_push(hosted.place(""), "198.51.100.7", number));
    }
    until("every slot is taken", || async { hosted.incoming() == 3 }).await;
    let third = hosted.tree.commit("README", "still more").await;
    hosted.signs(&[(MAIN, third)]).await;
    let started = Instant::now();
    hosted.pushes(&["main"]).await.expect("an honest push");
    let took = started.elapsed();
    println!("a push beside 8 slow pushers took {took:?}, alone {own_time:?}");
    assert!(took < Duration::from_secs(5) + own_time, "{took:?}, alone {own_time:?}");
    let ended = slow.join_next().await.unwrap().unwrap();
    assert!(ended.starts_with("HTTP/1.1 503 "), "{ended}");
    assert!(ended.contains("retry-after: "), "{ended}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, third)]));
}

/// A fetch whose answer is hardly read.
async fn slow_fetch(place: &str, from: &str, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut socket = begins(socket, place, "git-upload-pack", from).await;
    let body = format!("Content-Length: {}\r\n\r\n{request}", request.len());
    socket.write_all(body.as_bytes()).await.unwrap();
    socket
}

/// Clones from the honest address beside slow readers of these addresses; how long it took, and alone.
async fn clones_beside(addresses: u8, request: impl Fn(&Oid) -> String) {
    let (hosted, first) = hosted_behind_a_proxy(8 << 20).await;
    let header = format!("http.extraHeader=X-Forwarded-For: {HONEST}");
    let clone = async || WorkTree::clone(&Git::any(), &hosted.url(), &["-c", &header]).await;
    let started = Instant::now();
    clone().await;
    let own_time = started.elapsed();
    let mut slow = Vec::new();
    for number in 0..16 {
        let from = format!("198.51.100.{}", number % addresses);
        slow.push(slow_fetch(&hosted.place(""), &from, &request(&first)).await);
    }
    let started = Instant::now();
    clone().await;
    let took = started.elapsed();
    println!(
        "a clone beside 16 readers of {addresses} addresses took {took:?}, alone {own_time:?}"
    );
    assert!(took < Duration::from_secs(10) + own_time, "{took:?}, alone {own_time:?}");
}

/// With an object that no repository has, so that the answer is made for this client alone.
fn fetch_with_a_have(tip: &Oid) -> String {
    let have = pkt(&format!("have {}\n", "1".repeat(40)));
    pkt(&format!("want {tip} ofs-delta\n")) + FLUSH + &have + &pkt("done\n")
}

#[tokio::test]
async fn slow_readers_of_one_address_do_not_stop_the_clone_of_another_one() {
    clones_beside(1, fetch_with_a_have).await;
}

#[tokio::test]
async fn slow_readers_of_four_addresses_do_not_stop_the_clone_of_another_one() {
    clones_beside(4, fetch_with_a_have).await;
}

#[tokio::test]
async fn slow_readers_of_full_clones_do_not_stop_the_clone_of_another_address() {
    clones_beside(4, full_clone).await;
}

/// The git processes that a server has started and that run.
fn git_processes(server: u32) -> usize {
    let parent = |stat: String| -> Option<u32> {
        let behind_name = stat.rsplit_once(')')?.1;
        behind_name.split_whitespace().nth(1)?.parse().ok()
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
    stats.filter_map(parent).filter(|parent| *parent == server).count()
}

#[tokio::test]
async fn identical_clones_share_one_git_process_and_slow_readers_hold_none() {
    let home = tempfile::tempdir().unwrap();
    let record = home.path().join("started");
    let (noted, git) = (record.display(), Git::any().binary);
    let text = format!("echo \"$*\" >> '{noted}'\nexec '{}' \"$@\"", git.display());
    let script = install_script(home.path(), &text).await;
    let settings = [("NGIT_GIT_BINARY", script.to_str().unwrap())];
    let (hosted, tip) = hosted_with(&settings, 8 << 20).await;
    let mut slow = Vec::new();
    for _ in 0..20 {
        slow.push(slow_fetch(&hosted.place(""), HONEST, &full_clone(&tip)).await);
    }
    let started = || {
        let lines = std::fs::read_to_string(&record).unwrap();
        lines.lines().filter(|line| line.starts_with("upload-pack")).count()
    };
    until("git packs it", || async { started() > 0 }).await;
    until("git is done", || async { git_processes(hosted.server.pid()) == 0 }).await;
    // Each reads on from the same answer, to its end.
    let whole: Vec<Vec<u8>> = futures_util::future::join_all(slow.iter_mut().map(async |it| {
        let mut answer = Vec::new();
        it.read_to_end(&mut answer).await.unwrap();
        answer
    }))
    .await;
    let body = |answer: &[u8]| {
        let start = answer.windows(4).position(|it| it == b"PACK").unwrap();
        assert!(answer.ends_with(b"\r\n0\r\n\r\n"));
        answer.len() - start > 4 << 20
    };
    assert!(whole.iter().all(|answer| body(answer)));
    assert_eq!(started(), 1);
}

/// Everything a tip reaches, for a client that has nothing.
fn full_clone(tip: &Oid) -> String {
    pkt(&format!("want {tip} ofs-delta\n")) + FLUSH + &pkt("done\n")
}

/// How a slow client receives.
#[derive(Debug, Clone, Copy)]
struct SlowLine {
    bytes_per_sec: usize,
    /// None: as large as the system lets it grow.
    buffer_bytes: Option<u32>,
    /// Before this many bytes and after this time the line is as fast as the machine.
    fast_bytes: usize,
    slow_for: Duration,
}

impl SlowLine {
    /// The body of the answer to a fetch, read at this speed.
    async fn fetches(self, place: &str, request: &str) -> Vec<u8> {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = self.buffer_bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let mut socket = begins(socket, place, "git-upload-pack", "203.0.113.30").await;
        let body = format!("Content-Length: {}\r\n\r\n{request}", request.len());
        socket.write_all(body.as_bytes()).await.unwrap();
        let (mut answer, mut started) = (Vec::new(), Instant::now());
        let mut piece = vec![0; (self.bytes_per_sec / 10).max(1)];
        loop {
            let slow_bytes = answer.len().saturating_sub(self.fast_bytes);
            let due = Duration::from_secs_f64(slow_bytes as f64 / self.bytes_per_sec as f64);
            if slow_bytes == 0 {
                started = Instant::now();
            } else if started.elapsed() < self.slow_for {
                tokio::time::sleep(due.saturating_sub(started.elapsed())).await;
            }
            match socket.read(&mut piece).await.expect("the connection is not cut") {
                0 => return answer,
                read => answer.extend_from_slice(&piece[..read]),
            }
        }
    }

    /// Fetches once with something the server does not have, and once with nothing.
    async fn gets_everything(self, hosted: &Hosted, place: &str, tip: &Oid) {
        let started = Instant::now();
        let requests = [fetch_with_a_have(tip), full_clone(tip)];
        let answers = requests.each_ref().map(|request| self.fetches(place, request));
        for answer in futures_util::future::join_all(answers).await {
            let start = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
            assert!(answer.ends_with(b"\r\n0\r\n\r\n"), "the answer has its end");
            let body = unchunked(&answer[start..]);
            let pack = body.windows(4).position(|it| it == b"PACK").unwrap();
            hosted.tree.git_reading(&["index-pack", "--stdin"], &body[pack..]).await;
        }
        println!("{self:?}: two whole answers after {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_slow_line_gets_its_whole_clone() {
    let (hosted, tip) = hosted_behind_a_proxy(900_000).await;
    let line = SlowLine {
        bytes_per_sec: 16 << 10,
        buffer_bytes: Some(4 << 10),
        fast_bytes: 0,
        slow_for: LONG,
    };
    line.gets_everything(&hosted, &hosted.place(""), &tip).await;
}

/// Longer than any wait of these tests.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Until large buffers on the way have room again, the server sees nothing of the client.
#[tokio::test]
async fn a_slow_line_with_large_buffers_is_not_cut() {
    let (hosted, tip) = hosted_behind_a_proxy(24_000_000).await;
    let line = SlowLine {
        bytes_per_sec: 8 << 10,
        buffer_bytes: None,
        // Buffers grow while a line is fast.
        fast_bytes: 4 << 20,
        slow_for: Duration::from_secs(44),
    };
    line.gets_everything(&hosted, &hosted.place(""), &tip).await;
}

/// Passes bytes on with large buffers on both sides; `place` behind it.
async fn behind_buffers(hosted: &Hosted) -> String {
    let (server, path) = {
        let place = hosted.place("");
        let (host, path) = place.split_once('/').unwrap();
        (host.parse::<SocketAddr>().unwrap(), path.to_owned())
    };
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = front.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = front.accept().await {
            tokio::spawn(async move {
                let back = TcpSocket::new_v4().unwrap();
                back.set_recv_buffer_size(LARGE_BUFFER).unwrap();
                let mut back = back.connect(server).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut back).await;
            });
        }
    });
    format!("{address}/{path}")
}

const LARGE_BUFFER: u32 = 4 << 20;

#[tokio::test]
#[ignore = "takes 20 minutes: scripts/slow-clients"]
async fn slow_lines_with_large_buffers_get_their_whole_clone() {
    let (large, large_tip) = hosted_behind_a_proxy(14_500_000).await;
    let (small, small_tip) = hosted_behind_a_proxy(1_800_000).await;
    let line = |kib: usize| SlowLine {
        bytes_per_sec: kib << 10,
        buffer_bytes: Some(LARGE_BUFFER),
        fast_bytes: 0,
        slow_for: LONG,
    };
    let (large_proxy, small_proxy) = (behind_buffers(&large).await, behind_buffers(&small).await);
    let (large_place, small_place) = (large.place(""), small.place(""));
    futures_util::join!(
        line(8).gets_everything(&large, &large_place, &large_tip),
        line(8).gets_everything(&large, &large_proxy, &large_tip),
        line(32).gets_everything(&large, &large_place, &large_tip),
        line(32).gets_everything(&large, &large_proxy, &large_tip),
        line(2).gets_everything(&small, &small_place, &small_tip),
        line(2).gets_everything(&small, &small_proxy, &small_tip),
    );
}

/// Lists refs as a client does before it pushes; the connection stays open.
async fn advertised(address: &str, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /{path}/info/refs?service=git-receive-pack HTTP/1.1\r\nHost: {address}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"0000") {
        let mut piece = [0; 4096];
        let read = timeout(Duration::from_secs(20), socket.read(&mut piece)).await;
        let read = read.expect("an answer").unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
    }
    socket
}

#[tokio::test]
async fn a_connection_is_closed_when_no_request_follows_a_page_a_listing_or_a_clone() {
    let settings = [("NGIT_HTTP_HEADER_TIMEOUT_SECS", "1")];
    let (hosted, tip) = Hosted::published(&Git::any(), &settings).await;
    let place = hosted.place("");
    let (address, path) = place.split_once('/').unwrap();
    let head = format!("HTTP/1.1\r\nHost: {address}\r\n");
    let wants = format!("0032want {tip}\n00000009done\n");
    let requests = [
        format!("GET /{path} {head}\r\n"),
        format!("GET /{path}/info/refs?service=git-upload-pack {head}\r\n"),
        format!(
            "POST /{path}/git-upload-pack {head}Content-Type: \
             application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n{wants}",
            wants.len()
        ),
    ];
    let silent = requests.map(|request| async move {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(Duration::from_secs(20), socket.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(closed.is_ok(), "still open after {}", request.lines().next().unwrap_or_default());
    });
    futures_util::future::join_all(silent).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_first_when_its_address_has_too_many() {
    // Not behind a proxy, but not exempt either.
    let settings =
        [("NGIT_TRUSTED_PROXY_CIDRS", "10.0.0.0/8"), ("NGIT_MAX_CONNECTIONS_PER_IP", "4")];
    let (hosted, _) = Hosted::published(&Git::any(), &settings).await;
    let place = hosted.place("");
    let (address, path) = place.split_once('/').unwrap();
    // One is the owner's own.
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(advertised(address, path).await);
    }
    let newcomer = advertised(address, path).await;
    let mut end = Vec::new();
    let closed = timeout(Duration::from_secs(5), idle[0].read_to_end(&mut end)).await;
    assert!(closed.is_ok(), "the longest idle connection is closed");
    assert!(end.is_empty());
    idle.push(newcomer);
    for mut open in idle.into_iter().skip(1) {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
        open.write_all(request.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        open.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
}
