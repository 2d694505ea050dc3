//! A proxy as operators put one in front, and the mistakes they make with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Faults {
    /// Larger bodies are refused with status 413.
    pub(crate) body_bytes_max: Option<usize>,
    /// Upgrades are passed on as plain requests.
    pub(crate) without_upgrade: bool,
    /// Its `Date` is so far ahead.
    pub(crate) date: Option<&'static str>,
    /// It drops the header by which git asks for protocol version 2.
    pub(crate) without_git_protocol: bool,
    /// It answers by itself, as a relay with this key.
    pub(crate) key: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    upstream: Arc<AtomicU16>,
}

impl Gateway {
    pub(crate) async fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Arc::new(AtomicU16::new(0));
        let port = Arc::clone(&upstream);
        tokio::spawn(async move {
            while let Ok((visitor, _)) = listener.accept().await {
                tokio::spawn(pass(visitor, port.load(Ordering::Relaxed), faults));
            }
        });
        Self { address, upstream }
    }

    /// Where requests go from now on.
    pub(crate) fn leads_to(&self, address: &str) {
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        self.upstream.store(port, Ordering::Relaxed);
    }
}

/// One request for each connection: it says `close` to whoever it talks to.
async fn pass(mut visitor: TcpStream, port: u16, faults: Faults) -> Option<()> {
    let (head, rest) = head(&mut visitor).await?;
    let length = header(&head, "content-length").and_then(|text| text.parse::<usize>().ok());
    let length = length.unwrap_or(0);
    let is_refused = faults.body_bytes_max.is_some_and(|max| length > max);
    if is_refused || faults.key.is_some() {
        drain(&mut visitor, length.saturating_sub(rest.len())).await;
        let (status, body) = match faults.key {
            Some(key) if !is_refused => ("200 OK", format!("{{\"self\":\"{key}\"}}")),
            _ => ("413 Content Too Large", "too large".to_owned()),
        };
        let len = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
        return visitor.write_all((answer + &body).as_bytes()).await.ok();
    }
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    server.write_all(&[rewritten(&head, faults).as_bytes(), &rest].concat()).await.ok()?;
    let Some(date) = faults.date else {
        copy_bidirectional(&mut visitor, &mut server).await.ok()?;
        return Some(());
    };
    let (answer, rest) = self::head(&mut server).await?;
    let lines = answer.lines().filter(|line| !line.to_lowercase().starts_with("date:"));
    let answer = lines.collect::<Vec<_>>().join("\r\n") + &format!("\r\nDate: {date}\r\n\r\n");
    visitor.write_all(&[answer.as_bytes(), &rest].concat()).await.ok()?;
    copy_bidirectional(&mut visitor, &mut server).await.ok().map(drop)
}

fn rewritten(head: &str, faults: Faults) -> String {
    let is_dropped = |line: &&str| {
        let line = line.to_lowercase();
        (faults.without_upgrade
            && (line.starts_with("upgrade:") || line.starts_with("connection:")))
            || (faults.without_git_protocol && line.starts_with("git-protocol:"))
    };
    let kept = head.lines().filter(|line| !is_dropped(line)).collect::<Vec<_>>();
    let close = match header(head, "upgrade").is_some() && !faults.without_upgrade {
        true => "",
        false => "Connection: close\r\n",
    };
    kept.join("\r\n") + "\r\nX-Forwarded-For: 192.0.2.7\r\n" + close + "\r\n"
}

/// Everything up to the empty line, without it, and what came behind it.
async fn head(from: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let mut piece = [0; 8192];
    loop {
        let n = from.read(&mut piece).await.ok().filter(|n| *n > 0)?;
        read.extend_from_slice(&piece[..n]);
        if let Some(end) = read.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            return Some((head, read[end + 4..].to_vec()));
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

async fn drain(from: &mut TcpStream, mut bytes: usize) {
    let mut piece = [0; 65536];
    while bytes > 0 {
        match from.read(&mut piece).await {
            Ok(n) if n > 0 => bytes = bytes.saturating_sub(n),
            _ => return,
        }
    }
}
