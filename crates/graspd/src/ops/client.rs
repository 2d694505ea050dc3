//! The other end of the control socket: one request, one connection, one answer. It knows HTTP and the
//! socket's address, and nothing of what is asked.

use crate::control::{Near, SOCKET};
use anyhow::{Context, Result, bail};
use axum::body::{Body, Bytes, to_bytes};
use hyper::client::conn::http1;
use hyper::http::request::Builder;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// A running server, by its data root.
#[derive(Debug, Clone)]
pub struct Client {
    root: PathBuf,
}

const ANSWER_BYTES_MAX: usize = 256 << 20;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(110);
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Where no host is spoken to.
const HOST: &str = "localhost";

impl Client {
    /// `None`: nobody listens there.
    pub async fn find(root: &Path) -> Result<Option<Self>> {
        match connect(root).await {
            Ok(_) => Ok(Some(Self { root: root.to_owned() })),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => Ok(None),
                ErrorKind::PermissionDenied => bail!(
                    "{} is for the owner of the data alone; run this as the user that runs the \
                     server, for example with `sudo -u`",
                    root.join(SOCKET).display()
                ),
                _ => Err(error).with_context(|| {
                    format!("cannot reach the server at {}", root.join(SOCKET).display())
                }),
            },
        }
    }

    /// The body of a good answer; `None` if there is no such thing.
    pub async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.get_as(path, "*/*").await
    }

    /// The same, for what has more than one form.
    pub async fn get_as(&self, path: &str, accept: &'static str) -> Result<Option<Bytes>> {
        let request = Request::get(path).header(header::ACCEPT, accept);
        self.request(request, Body::empty()).await
    }

    pub async fn post(&self, path: &str, json: String) -> Result<Bytes> {
        let answer = self.request(Request::post(path), Body::from(json)).await?;
        answer.context("the running server does not know this request; is it an older one?")
    }

    /// Of the process that listens; `None` where it lives in another world of processes.
    pub async fn pid(&self) -> Option<i32> {
        let pid = self.stream().await.ok()?.peer_cred().ok()?.pid()?;
        Some(pid).filter(|pid| *pid > 0)
    }

    /// The relay itself, as any client sees it.
    pub async fn relay(&self) -> Result<WebSocketStream<UnixStream>> {
        let stream = self.stream().await?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let url = format!("ws://{HOST}/");
        let (socket, _) = client_async_with_config(url, stream, Some(config)).await?;
        Ok(socket)
    }

    async fn request(&self, request: Builder, body: Body) -> Result<Option<Bytes>> {
        let request = request.header(header::HOST, HOST).header(header::CONNECTION, "close");
        let exchange = self.exchange(request.body(body)?);
        let (status, body) = timeout(ANSWER_TIME_MAX, exchange)
            .await
            .context("the running server does not answer in time")??;
        if status.is_success() {
            return Ok(Some(body));
        }
        let said = crate::report::text::shown(&reason(&body), crate::report::text::WORDS_MAX);
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            _ => bail!("the running server says: {said}"),
        }
    }

    async fn exchange(&self, request: Request<Body>) -> Result<(StatusCode, Bytes)> {
        let gone = "the server stopped while it was asked; ask again";
        let stream = self.stream().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.context(gone)?;
        let driver = tokio::spawn(connection);
        let answer = sender.send_request(request).await.context(gone)?;
        let status = answer.status();
        let body = to_bytes(Body::new(answer.into_body()), ANSWER_BYTES_MAX).await;
        driver.abort();
        Ok((status, body.context(gone)?))
    }

    async fn stream(&self) -> Result<UnixStream> {
        connect(&self.root).await.context("the server stopped meanwhile; ask again")
    }
}

/// The sentence in a refusal, which may be plain text or the API's `{"error": …}`.
fn reason(body: &[u8]) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(body).ok();
    let error = json.as_ref().and_then(|it| it.get("error")?.as_str());
    error.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}

async fn connect(root: &Path) -> std::io::Result<UnixStream> {
    let near = Near::to(root, SOCKET)?;
    UnixStream::connect(&near.path).await
}
