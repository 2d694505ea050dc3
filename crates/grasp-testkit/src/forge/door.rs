//! The socket of a forge: one request after the other is read, entered in the log and answered, as
//! fast or as slowly as its manner wants.

use super::answers::{Body, Reaction, Reply, reacts};
use super::house::{Entry, House};
use super::request::Line;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

const TICK: Duration = Duration::from_millis(50);
const TICKS_PER_SECOND: u64 = 20;

pub(super) async fn listens(listener: TcpListener, house: Arc<House>) {
    for number in 1.. {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (line, known) = (Line::new(stream), Arc::clone(&house));
        let visit = tokio::spawn(async move {
            converses(line, &known, number).await;
            known.is_left(number);
        });
        house.is_dialled(visit.abort_handle());
    }
}

async fn converses(mut line: Line, house: &Arc<House>, visit: usize) {
    while let Some(mut request) = line.head().await {
        let entry = Entry::new(house, &request, visit);
        let Some(body) = line.body(&request).await else { return };
        request.body = body;
        entry.is_read(&request);
        let goes_on = request.header("connection") != Some("close");
        match reacts(house, &request).await {
            Reaction::Silence => return line.is_left().await,
            Reaction::HangsUp => return,
            // It ends when nobody listens any more.
            Reaction::SlowHeaders => return drop(slow_headers(&mut line).await),
            Reaction::Answers(reply) => {
                if sends(&mut line, &entry, reply, goes_on).await.is_err() || !goes_on {
                    return;
                }
            }
        }
    }
}

async fn slow_headers(line: &mut Line) -> io::Result<()> {
    line.stream.write_all(b"HTTP/1.1 200 OK\r\nX-Patience: ").await?;
    loop {
        tokio::time::sleep(TICK).await;
        line.stream.write_all(b"x").await?;
    }
}

async fn sends(line: &mut Line, entry: &Entry, reply: Reply, goes_on: bool) -> io::Result<()> {
    entry.is_answered(reply.status);
    let mut head = format!("HTTP/1.1 {} Said\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match &reply.body {
        Body::Endless(..) => head.push_str("Transfer-Encoding: chunked\r\n"),
        Body::Whole(body)
        | Body::Stalls(body, _)
        | Body::Breaks(body, _)
        | Body::Drips(body, _) => head.push_str(&format!("Content-Length: {}\r\n", body.len())),
    }
    let ending = if goes_on { "keep-alive" } else { "close" };
    head.push_str(&format!("Connection: {ending}\r\n\r\n"));
    line.stream.write_all(head.as_bytes()).await?;
    match reply.body {
        Body::Whole(body) => writes(line, entry, &body).await,
        Body::Stalls(body, len) => {
            writes(line, entry, body.get(..len).unwrap_or(&body)).await?;
            line.is_left().await;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Body::Breaks(body, len) => {
            writes(line, entry, body.get(..len).unwrap_or(&body)).await?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Body::Drips(body, per_second) => drips(line, entry, &body, per_second).await,
        Body::Endless(first, mut more) => {
            let mut piece = first;
            loop {
                if !piece.is_empty() {
                    let size = format!("{:x}\r\n", piece.len());
                    line.stream.write_all(size.as_bytes()).await?;
                    writes(line, entry, &piece).await?;
                    line.stream.write_all(b"\r\n").await?;
                }
                piece = more();
            }
        }
    }
}

async fn drips(line: &mut Line, entry: &Entry, body: &[u8], per_second: u64) -> io::Result<()> {
    // Fewer than one byte in a tick: longer ticks.
    let bytes = usize::try_from(per_second / TICKS_PER_SECOND).unwrap_or(usize::MAX).max(1);
    let slower = u32::try_from((TICKS_PER_SECOND / per_second.max(1)).max(1)).unwrap_or(1);
    for (at, piece) in body.chunks(bytes).enumerate() {
        if at > 0 {
            tokio::time::sleep(TICK * slower).await;
        }
        writes(line, entry, piece).await?;
    }
    Ok(())
}

async fn writes(line: &mut Line, entry: &Entry, bytes: &[u8]) -> io::Result<()> {
    line.stream.write_all(bytes).await?;
    entry.sent(bytes.len());
    Ok(())
}
