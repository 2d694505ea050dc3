//! The forge is what it says: a git server where it should be, and really bad where it should be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception misses helpers")]

use grasp_core::Oid;
use grasp_testkit::forge::{Forge, Manner, What};
use grasp_testkit::{Git, WorkTree};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);
const V2: (&str, &str) = ("Git-Protocol", "version=2");
const INFO: &str = "/acme.git/info/refs?service=git-upload-pack";
const PACK: &str = "/acme.git/git-upload-pack";

#[tokio::test]
async fn an_honest_one_is_a_git_server_to_every_git_in_every_version() {
    let (forge, tree, tip) = hosting(Manner::Honest).await;
    let url = forge.url("/acme.git");
    for git in Git::all() {
        for (version, fetch) in [(0, What::FetchV0), (1, What::FetchV0), (2, What::FetchV2)] {
            let before = forge.log().len();
            let copy = WorkTree::clone(&git.speaking(version), &url, &[]).await;
            assert_eq!(copy.rev_parse("HEAD").await, tip);
            let log = forge.log()[before..].to_vec();
            assert_eq!((log[0].what, log[0].status), (What::InfoRefs, Some(200)));
            let last = log.last().unwrap();
            assert_eq!((last.what, &last.wants), (fetch, &[tip].into()));
            assert!(log.iter().all(|it| it.ended_ms >= Some(it.started_ms)), "{log:?}");
        }
    }
    let next = tree.commit("file", "three").await;
    forge.mirrors("/acme.git", &tree).await;
    let copy = WorkTree::clone(&Git::any(), &url, &[]).await;
    assert_eq!(copy.rev_parse("HEAD").await, next);
    assert_eq!(copy.ls_remote(&url).await["refs/heads/trunk"], next.to_hex());
    let last = forge.log().pop().unwrap();
    assert_eq!((last.what, last.method.as_str()), (What::LsRefs, "POST"));
    assert!(last.header("user-agent").unwrap().starts_with("git/") && last.bytes_sent > 50);
    let (_, lost) = WorkTree::try_clone(&Git::any(), &forge.url("/other.git"), &[]).await;
    assert!(lost.says("not found"), "{}", lost.stderr);
}

#[tokio::test]
async fn long_questions_are_read_as_clients_pack_them() {
    let (forge, tree, tip) = hosting(Manner::Honest).await;
    for n in 0..60 {
        let text = format!("on a branch of its own, number {n}");
        let args = ["commit-tree", "-m", &text, "-p", &tip.to_hex(), "HEAD^{tree}"];
        let commit = tree.git(&args).await.parse().unwrap();
        tree.branch(&format!("b{n}"), &commit).await;
    }
    forge.mirrors("/acme.git", &tree).await;
    let copy = WorkTree::clone(&Git::any(), &forge.url("/acme.git"), &[]).await;
    assert_eq!(copy.rev_parse("origin/b59").await, tree.rev_parse("b59").await);
    let last = forge.log().pop().unwrap();
    assert_eq!(last.header("content-encoding"), Some("gzip"));
    assert_eq!(last.wants.len(), 61);
}

#[tokio::test]
async fn an_old_one_knows_one_version() {
    let (forge, _tree, tip) = hosting(Manner::V0Only).await;
    let copy = WorkTree::clone(&Git::any(), &forge.url("/acme.git"), &[]).await;
    assert_eq!(copy.rev_parse("HEAD").await, tip);
    let kinds: Vec<What> = forge.log().iter().map(|it| it.what).collect();
    assert_eq!(kinds, [What::InfoRefs, What::FetchV0]);
}

#[tokio::test]
async fn one_that_redirects_is_followed_by_those_who_follow() {
    let (there, _tree, tip) = hosting(Manner::Honest).await;
    let here = Forge::start_with(Manner::Redirect(there.origin().to_owned())).await;
    let copy = WorkTree::clone(&Git::any(), &here.url("/acme.git"), &[]).await;
    assert_eq!(copy.rev_parse("HEAD").await, tip);
    assert_eq!((here.log().len(), here.log()[0].status), (1, Some(302)));
}

#[tokio::test]
async fn one_that_refuses_ids_gives_tips_away_and_nothing_else() {
    let (forge, tree, tip) = hosting(Manner::RefusesOids).await;
    let url = forge.url("/acme.git");
    let older = tree.rev_parse("HEAD~1").await;
    for version in [0, 2] {
        let copy = WorkTree::init(&Git::any().speaking(version)).await;
        assert!(copy.fetch(&url, &[&tip.to_hex()]).await.ok);
        forge.behave(Manner::Honest);
        let copy = WorkTree::init(&Git::any().speaking(2)).await;
        assert!(copy.fetch(&url, &[&older.to_hex()]).await.ok);
        forge.behave(Manner::RefusesOids);
        // In the first version, git's own client would not even ask.
        let body = fetch_body(version, &older);
        let answer = posts(&forge, version, &body).await;
        let said = format!("ERR upload-pack: not our ref {older}\n");
        assert!(answer.body.ends_with(said.as_bytes()), "{}", answer.text());
    }
}

#[tokio::test]
async fn packs_that_are_wrong_are_noticed_by_git() {
    let (forge, _tree, tip) = hosting(Manner::Honest).await;
    let url = forge.url("/acme.git");
    for manner in [Manner::Unrelated, Manner::CorruptPack, Manner::Truncate(150)] {
        forge.behave(manner.clone());
        for version in [0, 2] {
            let (_, ran) = WorkTree::try_clone(&Git::any().speaking(version), &url, &[]).await;
            assert!(!ran.ok, "{manner:?} {version}");
        }
    }
    forge.behave(Manner::Unrelated);
    let body = posts(&forge, 2, &fetch_body(2, &tip)).await.body;
    let home = tempfile::tempdir().unwrap();
    let (ok, said) = indexed(home.path(), &banded(&body)).await;
    assert!(ok, "it is a good pack of something else: {said}");
    forge.behave(Manner::Truncate(100));
    let answer = posts(&forge, 2, &fetch_body(2, &tip)).await;
    assert_eq!((answer.status, answer.body.len()), (200, 100));
    assert_eq!(answer.header("content-length"), Some("100"), "to HTTP it is complete");
}

#[tokio::test]
async fn one_that_lies_about_its_refs_lists_what_it_cannot_give() {
    let lie = Oid::from_bytes([9; 20]);
    let (forge, tree, _) = hosting(Manner::LiesAboutRefs(vec![lie])).await;
    let url = forge.url("/acme.git");
    assert_eq!(tree.ls_remote(&url).await["refs/heads/lie-0"], lie.to_hex());
    for version in [0, 2] {
        let copy = WorkTree::init(&Git::any().speaking(version)).await;
        let ran = copy.fetch(&url, &["refs/heads/lie-0"]).await;
        assert!(!ran.ok && ran.says("not our ref"), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn at_the_door_everybody_is_treated_alike() {
    let (forge, _tree, tip) = hosting(Manner::Honest).await;
    for (manner, status, header) in [
        (Manner::Lacks, 404, ("content-type", "text/plain")),
        (Manner::Html, 200, ("content-type", "text/html")),
        (Manner::Status(429, Some(17)), 429, ("retry-after", "17")),
        (Manner::Status(503, None), 503, ("content-type", "text/plain")),
        (Manner::Auth401, 401, ("www-authenticate", "Basic realm=\"forge\"")),
        (Manner::WrongContentType, 200, ("content-type", "text/plain")),
    ] {
        forge.behave(manner.clone());
        for answer in [gets(&forge, INFO).await, posts(&forge, 2, &fetch_body(2, &tip)).await] {
            assert_eq!((answer.status, answer.header(header.0)), (status, Some(header.1)));
        }
        assert_eq!(forge.log().last().unwrap().status, Some(status));
    }
    forge.behave(Manner::Says("please slow down".into()));
    assert!(gets(&forge, INFO).await.text().contains("version 2"));
    let answer = posts(&forge, 2, &fetch_body(2, &tip)).await;
    assert_eq!(answer.text(), "0019ERR please slow down\n");
    forge.behave(Manner::HangUp);
    let mut socket = asks(&forge, "GET", INFO, &[], b"").await;
    assert_eq!(read_some(&mut socket, 1).await, b"");
    assert_eq!(forge.log().last().unwrap().status, None);
}

#[tokio::test]
async fn silence_lasts_until_the_other_side_leaves() {
    let (forge, _tree, tip) = hosting(Manner::Stall).await;
    let mut waiting = Vec::new();
    for n in 1..=5 {
        waiting.push(asks(&forge, "GET", INFO, &[V2], b"").await);
        forge.until_asked(n).await;
    }
    assert_eq!((forge.concurrent_max(), forge.dials()), (5, 5));
    assert_eq!(forge.starts_in_any(Duration::from_secs(60)), 5);
    assert!(forge.log().iter().all(|it| it.ended_ms.is_none() && it.status.is_none()));
    drop(waiting.pop());
    forge.until_ended(1).await;
    forge.behave(Manner::StallMidPack(80));
    let mut socket = asks(&forge, "POST", PACK, &[V2], &fetch_body(2, &tip)).await;
    forge.until("80 bytes", |log| log.get(5).is_some_and(|it| it.bytes_sent == 80)).await;
    let log = forge.log();
    assert_eq!((log[5].concurrent, log[5].ended_ms), (5, None));
    assert!(read_some(&mut socket, 200).await.len() >= 200);
    drop(socket);
    forge.drops_everyone();
    forge.until_ended(6).await;
    forge.behave(Manner::HangUpMidPack(80));
    let answer = posts(&forge, 2, &fetch_body(2, &tip)).await;
    assert_eq!(answer.body.len(), 80);
    assert!(answer.header("content-length").unwrap().parse::<usize>().unwrap() > 80);
}

#[tokio::test]
async fn a_slow_one_is_slow() {
    let (forge, _tree, tip) = hosting(Manner::Honest).await;
    let whole = posts(&forge, 2, &fetch_body(2, &tip)).await.body;
    forge.behave(Manner::Drip(u64::try_from(whole.len()).unwrap() * 2));
    let began = Instant::now();
    let slowly = posts(&forge, 2, &fetch_body(2, &tip)).await.body;
    // Git cuts its answer into packets as it likes.
    assert_eq!(banded(&slowly), banded(&whole));
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    let last = forge.log().pop().unwrap();
    assert!(last.ended_ms.unwrap() >= last.started_ms + 400);
    forge.behave(Manner::SlowHeaders);
    let mut socket = asks(&forge, "GET", INFO, &[], b"").await;
    let head = read_some(&mut socket, 35).await;
    assert!(!head.windows(4).any(|it| it == b"\r\n\r\n"), "it has no end");
}

#[tokio::test]
async fn streams_without_an_end_have_the_right_form() {
    let (forge, _tree, tip) = hosting(Manner::EndlessProgress).await;
    for (version, lead) in [(0, &b"0008NAK\n"[..]), (2, b"000dpackfile\n")] {
        let words = endless(&forge, version, &tip, 200_000).await;
        assert!(words.starts_with(lead) && words[lead.len() + 4] == 2);
    }
    forge.behave(Manner::EndlessPack);
    let pack = banded(&endless(&forge, 2, &tip, 300_000).await);
    let home = tempfile::tempdir().unwrap();
    let (ok, said) = indexed(home.path(), &pack).await;
    assert!(!ok && said.contains("early EOF"), "right as far as it goes: {said}");

    forge.behave(Manner::GzipBomb);
    let bomb = endless(&forge, 2, &tip, 60_000).await;
    let mut command = Command::new("gzip");
    let (_, zeroes, _) = fed(command.args(["-d", "-c"]), &bomb).await;
    assert!(zeroes.len() > 5_000_000 && zeroes.iter().all(|byte| *byte == 0), "{}", zeroes.len());
    forge.until_ended(4).await;
}

#[tokio::test]
async fn what_a_client_did_not_ask_for_is_sent_in_the_right_place() {
    let (forge, _tree, tip) = hosting(Manner::ShallowAnswer).await;
    let v2 = posts(&forge, 2, &fetch_body(2, &tip)).await.text();
    let expected = format!("0011shallow-info\n0035shallow {tip}\n0001000dpackfile\n");
    assert!(v2.starts_with(&expected), "{v2}");
    let v0 = posts(&forge, 0, &fetch_body(0, &tip)).await.text();
    assert!(v0.starts_with(&format!("0035shallow {tip}\n00000008NAK\n")), "{v0}");
    forge.behave(Manner::PackfileUris);
    let v2 = posts(&forge, 2, &fetch_body(2, &tip)).await.text();
    assert!(v2.starts_with("0012packfile-uris\n"), "{v2}");
}

#[tokio::test]
async fn one_connection_may_carry_several_requests() {
    let (forge, _tree, _) = hosting(Manner::Honest).await;
    let mut socket = TcpStream::connect(forge.address()).await.unwrap();
    let question = format!("GET {INFO} HTTP/1.1\r\nHost: x\r\n\r\n");
    for count in 1..=3 {
        socket.write_all(question.as_bytes()).await.unwrap();
        forge.until_ended(count).await;
    }
    assert_eq!((forge.dials(), forge.log().len(), forge.concurrent_max()), (1, 3, 1));
}

/// Two commits at `/acme.git`, and the second's id.
async fn hosting(manner: Manner) -> (Forge, WorkTree, Oid) {
    let forge = Forge::start_with(manner).await;
    let tree = WorkTree::init(&Git::any()).await;
    tree.commit("file", "one").await;
    let tip = tree.commit("file", "two").await;
    let dir = forge.mirrors("/acme.git", &tree).await;
    std::fs::write(dir.join("HEAD"), "ref: refs/heads/trunk\n").unwrap();
    (forge, tree, tip)
}

fn fetch_body(version: u8, want: &Oid) -> Vec<u8> {
    let text = match version {
        2 => format!("0012command=fetch\n00010010no-progress\n0032want {want}\n0009done\n0000"),
        _ => format!("004cwant {want} side-band-64k no-progress\n00000009done\n"),
    };
    text.into_bytes()
}

struct Answered {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answered {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

async fn gets(forge: &Forge, target: &str) -> Answered {
    answered(asks(forge, "GET", target, &[V2], b"").await).await
}

async fn posts(forge: &Forge, version: u8, body: &[u8]) -> Answered {
    let headers = if version == 2 { &[V2][..] } else { &[] };
    answered(asks(forge, "POST", PACK, headers, body).await).await
}

async fn asks(
    forge: &Forge,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> TcpStream {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let mut socket = TcpStream::connect(forge.address()).await.unwrap();
    socket.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    socket
}

async fn answered(mut socket: TcpStream) -> Answered {
    let bytes = read_some(&mut socket, usize::MAX).await;
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
    let page = grasp_testkit::Page::parse(std::str::from_utf8(&bytes[..end + 4]).unwrap()).unwrap();
    let body = bytes[end + 4..].to_vec();
    Answered { status: page.status, headers: page.headers, body }
}

/// At least so many bytes, or all there are.
async fn read_some(socket: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = async {
        // A reset is an end, too.
        while bytes.len() < len && matches!(socket.read_buf(&mut bytes).await, Ok(1..)) {}
    };
    timeout(CAP, reading).await.expect("it says something or ends");
    bytes
}

/// The beginning of a body in chunks.
async fn endless(forge: &Forge, version: u8, want: &Oid, len: usize) -> Vec<u8> {
    let headers = if version == 2 { &[V2][..] } else { &[] };
    let mut socket = asks(forge, "POST", PACK, headers, &fetch_body(version, want)).await;
    let bytes = read_some(&mut socket, len).await;
    let mut at = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
    let mut body = Vec::new();
    while let Some(line) = bytes[at..].windows(2).position(|it| it == b"\r\n") {
        let size = std::str::from_utf8(&bytes[at..at + line]).unwrap();
        let from = at + line + 2;
        let to = from + usize::from_str_radix(size, 16).unwrap();
        body.extend_from_slice(&bytes[from..to.min(bytes.len())]);
        at = to + 2;
        if at >= bytes.len() {
            break;
        }
    }
    body
}

/// What is on the first band.
fn banded(body: &[u8]) -> Vec<u8> {
    let (mut rest, mut pack) = (body, Vec::new());
    while let Some(digits) = rest.get(..4) {
        let len = usize::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap().max(4);
        let packet = &rest[..len.min(rest.len())];
        if packet.get(4) == Some(&1) {
            pack.extend_from_slice(&packet[5..]);
        }
        rest = &rest[packet.len()..];
    }
    pack
}

/// What git thinks of a pack.
async fn indexed(home: &std::path::Path, pack: &[u8]) -> (bool, String) {
    let git = Git::any();
    let mut command = Command::new(&git.binary);
    command.current_dir(home).args(["init", "-q", "--bare", "."]);
    fed(&mut command, b"").await;
    let mut command = Command::new(&git.binary);
    command.current_dir(home).args(["index-pack", "--stdin"]);
    let (ok, _, said) = fed(&mut command, pack).await;
    (ok, String::from_utf8_lossy(&said).into_owned())
}

async fn fed(command: &mut Command, input: &[u8]) -> (bool, Vec<u8>, Vec<u8>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeding = async move { drop(stdin.write_all(input).await) };
    let ((), output) = tokio::join!(feeding, child.wait_with_output());
    let output = output.unwrap();
    (output.status.success(), output.stdout, output.stderr)
}
