//! What git offers by itself: `git http-backend` behind a web server. This one hands each request
//! straight to a process of its own, without the daemon or the second socket that others put
//! between, so it is at least as fast as they are.

use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Of one request; what this serves are only our own.
const HEAD_BYTES_MAX: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Cgi {
    pub(crate) address: String,
    _process: Child,
}

/// A process that serves the repositories below `root` with the git that `git` is.
pub(crate) async fn start(git: &Path, root: &Path) -> Result<Cgi> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg("cgi")
        .args([&backend(git).await?, root])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = process.stdout.take().context("its output is piped")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    let address = line.context("the web server says where it listens")?;
    Ok(Cgi { address, _process: process })
}

async fn backend(git: &Path) -> Result<PathBuf> {
    let told = Command::new(git).arg("--exec-path").output().await?;
    let directory = String::from_utf8(told.stdout)?;
    let backend = Path::new(directory.trim()).join("git-http-backend");
    ensure!(backend.exists(), "{} is missing", backend.display());
    Ok(backend)
}

/// The hidden subcommand: serves until its standard input ends.
pub(crate) async fn serve(backend: &Path, root: &Path) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let place: Arc<(PathBuf, PathBuf)> = Arc::new((backend.to_owned(), root.to_owned()));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let place = Arc::clone(&place);
            tokio::spawn(async move { talk(stream, &place.0, &place.1).await });
        }
    });
    process::input_ended().await
}

/// Requests without a body, one after the other.
async fn talk(stream: TcpStream, backend: &Path, root: &Path) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = Request::read(&mut stream).await? {
        let answer = answer(&request, backend, root).await?;
        stream.get_mut().write_all(&answer).await?;
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Request {
    path: String,
    query: String,
    protocol: Option<String>,
}

impl Request {
    async fn read(stream: &mut BufReader<TcpStream>) -> Result<Option<Self>> {
        let mut line = String::new();
        let mut stream = stream.take(HEAD_BYTES_MAX as u64);
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let target = line.split(' ').nth(1).context("not a request")?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self { path: path.into(), query: query.into(), protocol: None };
        loop {
            let mut line = String::new();
            ensure!(stream.read_line(&mut line).await? > 0, "a request breaks off");
            match line.trim_end().split_once(": ") {
                Some(("Git-Protocol", version)) => request.protocol = Some(version.to_owned()),
                Some(_) => {}
                None => return Ok(Some(request)),
            }
        }
    }
}

async fn answer(request: &Request, backend: &Path, root: &Path) -> Result<Vec<u8>> {
    let mut command = Command::new(backend);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("GIT_PROJECT_ROOT", root);
    for (name, value) in [
        ("GIT_HTTP_EXPORT_ALL", "1"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("REQUEST_METHOD", "GET"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("PATH_INFO", &request.path),
        ("QUERY_STRING", &request.query),
    ] {
        command.env(name, value);
    }
    command.envs(request.protocol.iter().map(|version| ("GIT_PROTOCOL", version)));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().await?;
    as_http(&output.stdout)
}

/// From a CGI answer to an HTTP one.
fn as_http(output: &[u8]) -> Result<Vec<u8>> {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n");
    let Some((head, body)) = end.and_then(|end| output.split_at_checked(end + 2)) else {
        bail!("git http-backend said nothing");
    };
    let body = body.get(2..).unwrap_or_default();
    let head = std::str::from_utf8(head)?;
    let status = head.strip_prefix("Status: ").and_then(|rest| rest.lines().next());
    let status = status.unwrap_or("200 OK");
    let head = format!("HTTP/1.1 {status}\r\n{head}Content-Length: {}\r\n\r\n", body.len());
    Ok([head.as_bytes(), body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_git_becomes_one_of_a_web_server() {
        let http = as_http(b"Pragma: no-cache\r\nContent-Type: a/b\r\n\r\n001e#").unwrap();
        let expected = b"HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\n001e#";
        assert_eq!(http, expected);
        let http = as_http(b"Status: 404 Not Found\r\nPragma: x\r\n\r\n").unwrap();
        assert!(http.starts_with(b"HTTP/1.1 404 Not Found\r\n"));
        assert!(as_http(b"").is_err());
    }
}
