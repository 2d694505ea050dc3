//! Git's smart HTTP by hand, for what no git would say.

use grasp_testkit::Page;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(60);

pub(crate) const ZERO: &str = "0000000000000000000000000000000000000000";
pub(crate) const FLUSH: &str = "0000";
/// What clients ask for today.
pub(crate) const FRAMED: &str = "report-status side-band-64k agent=test";
/// A pack of no objects: what follows commands that need none.
pub(crate) const EMPTY_PACK: &[u8] = b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

pub(crate) fn pkt(line: &str) -> String {
    format!("{:04x}{line}", line.len() + 4)
}

/// A command list: the first line carries the capabilities.
pub(crate) fn commands(lines: &[(&str, &str, &str)], caps: &str) -> Vec<u8> {
    let mut list = String::new();
    for (at, (old, new, name)) in lines.iter().enumerate() {
        let caps = if at == 0 { format!("\0{caps}") } else { String::new() };
        list.push_str(&pkt(&format!("{old} {new} {name}{caps}")));
    }
    list.push_str(FLUSH);
    list.into_bytes()
}

/// Posts to one of the two services; `place` is `host:port/path` of the repository.
pub(crate) async fn posts(
    place: &str,
    service: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Page {
    let (host, path) = place.split_once('/').expect("a path");
    let mut request = format!(
        "POST /{path}/{service} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Type: application/x-{service}-request\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    let mut socket = TcpStream::connect(host).await.expect("somebody listens");
    socket.write_all(request.as_bytes()).await.expect("the socket is open");
    // A server that has heard enough may answer before it has everything.
    let _ = socket.write_all(body).await;
    answer(&mut socket).await
}

/// A socket with a request on it whose answer has not been read. `from` is the address a proxy names.
pub(crate) async fn begins(socket: TcpSocket, place: &str, service: &str, from: &str) -> TcpStream {
    let (host, path) = place.split_once('/').expect("a path");
    let head = format!(
        "POST /{path}/{service} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         X-Forwarded-For: {from}\r\nContent-Type: application/x-{service}-request\r\n"
    );
    let mut socket = socket.connect(host.parse().expect("an address")).await.expect("it listens");
    socket.write_all(head.as_bytes()).await.expect("the socket is open");
    socket
}

/// A push that pauses where the story needs it to.
#[derive(Debug)]
pub(crate) struct SlowPush {
    socket: TcpStream,
    rest: Vec<u8>,
}

impl SlowPush {
    /// Sends all but the last few bytes.
    pub(crate) async fn begins(place: &str, mut body: Vec<u8>) -> Self {
        let (host, path) = place.split_once('/').expect("a path");
        let head = format!(
            "POST /{path}/git-receive-pack HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/x-git-receive-pack-request\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let rest = body.split_off(body.len() - 10);
        let mut socket = TcpStream::connect(host).await.expect("somebody listens");
        socket.write_all(head.as_bytes()).await.expect("the socket is open");
        socket.write_all(&body).await.expect("the socket is open");
        Self { socket, rest }
    }

    pub(crate) async fn ends(mut self) -> Page {
        self.socket.write_all(&self.rest).await.expect("the socket is open");
        answer(&mut self.socket).await
    }
}

/// The whole answer, put together if it came in chunks.
pub(crate) async fn answer(socket: &mut TcpStream) -> Page {
    let mut bytes = Vec::new();
    // A reset after the last byte is an end, too.
    let _ = timeout(CAP, socket.read_to_end(&mut bytes)).await.expect("the server closes");
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let page = Page::parse(&head).expect("an HTTP answer");
    let body = match page.header("transfer-encoding") {
        Some(_) => unchunked(&bytes[end..]),
        None => bytes[end..].to_vec(),
    };
    Page { body: String::from_utf8_lossy(&body).into_owned(), ..page }
}

pub(crate) fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(line) = rest.iter().position(|it| *it == b'\r') {
        let len = std::str::from_utf8(&rest[..line]).ok();
        let Some(len) = len.and_then(|len| usize::from_str_radix(len, 16).ok()) else { break };
        let chunk = &rest[(line + 2).min(rest.len())..];
        whole.extend_from_slice(&chunk[..len.min(chunk.len())]);
        rest = &chunk[(len + 2).min(chunk.len())..];
    }
    whole
}

/// The report inside the first band of an answer to a push.
pub(crate) fn report(page: &Page) -> String {
    let mut rest = page.body.as_str();
    let mut report = String::new();
    while let Some(len) = rest.get(..4).and_then(|len| usize::from_str_radix(len, 16).ok()) {
        let end = len.max(4);
        let packet = rest.get(4..end).unwrap_or_default();
        report.push_str(packet.strip_prefix('\u{1}').unwrap_or_default());
        rest = rest.get(end..).unwrap_or_default();
    }
    report
}
