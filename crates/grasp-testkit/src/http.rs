//! Plain HTTP, written and read by hand so that nothing is tidied up on the way.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Page {
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Page {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Reads a whole answer; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        Some(Self { status, headers: headers.collect(), body: body.to_owned() })
    }
}

/// One request on a connection of its own. `place` is `host:port/path`.
pub async fn http(method: &str, place: &str, headers: &[(&str, &str)]) -> Page {
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let mut request = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    let mut socket = TcpStream::connect(host).await.expect("somebody listens");
    socket.write_all(request.as_bytes()).await.expect("the socket is open");
    let text = read_to_end(&mut socket).await;
    Page::parse(&text).unwrap_or_else(|| panic!("not an answer: {text:?}"))
}

/// Everything until the other side closes, however it does that.
pub async fn read_to_end(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the last byte is an end, too.
    let _ = timeout(CAP, socket.read_to_end(&mut bytes)).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}
