//! A request as it comes off the socket, and what git says in it.

use super::What;
use grasp_core::Oid;
use std::io;
use std::process::Stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// A connection, with what was read and not used yet.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stream: TcpStream,
    ahead: Vec<u8>,
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Self { stream, ahead: Vec::new() }
    }

    /// The next request without its body; `None` when there will be none.
    pub(super) async fn head(&mut self) -> Option<Request> {
        let text = self.until(b"\r\n\r\n", HEAD_BYTES_MAX).await?;
        let text = String::from_utf8(text).ok()?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let headers = headers.collect();
        let (path, query) = (path.to_owned(), query.to_owned());
        Some(Request { method, path, query, headers, body: Vec::new() })
    }

    /// The body of a request, unpacked.
    pub(super) async fn body(&mut self, of: &Request) -> Option<Vec<u8>> {
        if of.header("expect").is_some() {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        let body = if of.header("transfer-encoding") == Some("chunked") {
            self.chunks().await?
        } else {
            let len = of.header("content-length").map_or(Some(0), |text| text.parse().ok())?;
            self.exactly(len).await?
        };
        match of.header("content-encoding") {
            Some("gzip") => unzipped(&body).await.ok(),
            _ => Some(body),
        }
    }

    /// Until the other side has gone.
    pub(super) async fn is_left(&mut self) {
        let mut ignored = [0; 4_096];
        while !matches!(self.stream.read(&mut ignored).await, Ok(0) | Err(_)) {}
    }

    async fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.until(b"\r\n", 64).await?;
            let line = String::from_utf8(line).ok()?;
            let len = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
            let chunk = self.exactly(len.checked_add(2)?).await?;
            body.extend_from_slice(chunk.get(..len)?);
            if len == 0 {
                return Some(body);
            }
        }
    }

    /// What comes before the mark; the mark is gone, too.
    async fn until(&mut self, mark: &[u8], len_max: usize) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.ahead.windows(mark.len()).position(|it| it == mark) {
                let rest = self.ahead.split_off(at + mark.len());
                let mut found = std::mem::replace(&mut self.ahead, rest);
                found.truncate(at);
                return Some(found);
            }
            if self.ahead.len() > len_max || self.more().await? == 0 {
                return None;
            }
        }
    }

    async fn exactly(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.ahead.len() < len {
            if len > BODY_BYTES_MAX || self.more().await? == 0 {
                return None;
            }
        }
        let rest = self.ahead.split_off(len);
        Some(std::mem::replace(&mut self.ahead, rest))
    }

    async fn more(&mut self) -> Option<usize> {
        self.stream.read_buf(&mut self.ahead).await.ok()
    }
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn target(&self) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{}{mark}{}", self.path, self.query)
    }

    /// Where the repository is, and which of its two doors was taken.
    pub(super) fn repository(&self) -> Option<(&str, bool)> {
        let info = self.path.strip_suffix("/info/refs").map(|path| (path, true));
        info.or_else(|| self.path.strip_suffix("/git-upload-pack").map(|path| (path, false)))
    }

    pub(super) fn what(&self) -> What {
        match self.repository() {
            Some((_, true)) if self.query == "service=git-upload-pack" => What::InfoRefs,
            Some((_, false)) if self.says("command=ls-refs") => What::LsRefs,
            Some((_, false)) if self.says("command=fetch") => What::FetchV2,
            Some((_, false)) => What::FetchV0,
            _ => What::Other,
        }
    }

    fn says(&self, line: &str) -> bool {
        self.lines().any(|it| it == line.as_bytes())
    }

    /// The ids behind this word.
    pub(super) fn oids(&self, word: &str) -> Vec<Oid> {
        let ids = self.lines().filter_map(|line| {
            let rest = line.strip_prefix(word.as_bytes())?.strip_prefix(b" ")?;
            std::str::from_utf8(rest.get(..40)?).ok()?.parse().ok()
        });
        ids.collect()
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        super::packets::lines(&self.body)
    }
}

/// Clients pack their longer questions.
async fn unzipped(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut command = Command::new("gzip");
    command.args(["-d", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    super::git::fed(command, bytes).await
}
