//! Git's smart HTTP by hand, for what no git would say.

use grasp_testkit::{Page, read_to_end};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

pub(crate) const ZERO: &str = "0000000000000000000000000000000000000000";
pub(crate) const FLUSH: &str = "0000";
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
    let text = read_to_end(&mut socket).await;
    Page::parse(&text).unwrap_or_else(|| panic!("not an answer: {text:?}"))
}
