//! WebSocket clients that waste little: the generator shares its cores with the server.

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt, TryStreamExt, stream};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

pub(crate) type Socket = WebSocketStream<TcpStream>;

const CONNECTING_MAX: usize = 32;

pub(crate) async fn connect(address: &str) -> Result<Socket> {
    let stream = TcpStream::connect(address).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let (socket, _) = client_async(format!("ws://{address}/"), stream).await?;
    Ok(socket)
}

pub(crate) async fn connect_many(address: &str, count: usize) -> Result<Vec<Socket>> {
    let connecting = stream::iter((0..count).map(|_| connect(address)));
    connecting.buffer_unordered(CONNECTING_MAX).try_collect().await
}

pub(crate) async fn say(socket: &mut Socket, text: impl Into<Utf8Bytes>) -> Result<()> {
    Ok(socket.send(Message::Text(text.into())).await?)
}

/// The next text message.
pub(crate) async fn hear(socket: &mut Socket) -> Result<Utf8Bytes> {
    loop {
        match socket.next().await.context("the server closed the connection")?? {
            Message::Text(text) => return Ok(text),
            Message::Close(why) => bail!("the server closed the connection: {why:?}"),
            _ => {}
        }
    }
}

/// Skips messages until one starts like this.
pub(crate) async fn hear_until(socket: &mut Socket, start: &str) -> Result<Utf8Bytes> {
    loop {
        let text = hear(socket).await?;
        if text.starts_with(start) {
            return Ok(text);
        }
        if text.starts_with("[\"CLOSED\"") || text.starts_with("[\"NOTICE\"") {
            bail!("the server refused: {}", text.as_str());
        }
    }
}

pub(crate) fn publication(json: &str) -> Utf8Bytes {
    Utf8Bytes::from(format!("[\"EVENT\",{json}]"))
}

/// An OK that says yes; anything else is an error with the server's words.
pub(crate) fn accepted(text: &str) -> Result<()> {
    match text.starts_with("[\"OK\"") && text.contains("\",true,\"\"]") {
        true => Ok(()),
        false => bail!("an event was not accepted: {text}"),
    }
}

/// An OK that says yes, though perhaps not yet.
pub(crate) fn taken(text: &str) -> Result<()> {
    match text.starts_with("[\"OK\"") && text.contains("\",true,\"") {
        true => Ok(()),
        false => bail!("an event was not taken: {text}"),
    }
}
