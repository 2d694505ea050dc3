//! Who dials is let in, left standing or sent away; who asks for the NIP-11 page gets what the
//! tricks say. Both come in by the same port.

use super::guest;
use super::room::Room;
use super::socket::Socket;
use super::tricks::{InfoPage, Noise};
use crate::behaviour::{Behaviour, Door, Refuses};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::accept_async;

const HEAD_BYTES_MAX: usize = 16 << 10;

pub(super) async fn listens(listener: TcpListener, room: Arc<Room>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        room.notes(|seen| seen.dials += 1);
        let visit = tokio::spawn(visits(stream, Arc::clone(&room)));
        room.remembers(visit.abort_handle());
    }
}

async fn visits(mut stream: TcpStream, room: Arc<Room>) {
    match room.behaviour().door {
        Door::Refuses => return,
        // The socket stays open, or it would be an answer.
        Door::BlackHole => std::future::pending().await,
        Door::Open | Door::Flapping { .. } => {}
    }
    let _ = stream.set_nodelay(true);
    let Some(head) = head(&mut stream).await else { return };
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    if !text.contains("\r\nupgrade: websocket") {
        tells(stream, &room).await;
        return;
    }
    let socket = Socket::new(stream, head, Arc::clone(&room));
    let Ok(mut socket) = accept_async(socket).await else { return };
    if let Noise::Drip(every) = room.tricks.noise {
        socket.get_mut().drips(every);
    }
    let staying = guest::converses(socket, Arc::clone(&room));
    match room.behaviour().door {
        Door::Flapping { after } => drop(tokio::time::timeout(after, staying).await),
        _ => staying.await,
    }
}

/// Everything up to the empty line, and what came with it.
async fn head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        let fits = head.len() < HEAD_BYTES_MAX;
        if !fits || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

async fn tells(mut stream: TcpStream, room: &Room) {
    room.notes(|seen| seen.info_pages += 1);
    let page = document(&room.behaviour());
    let answer = match &room.tricks.info {
        InfoPage::Told => found(&page),
        InfoPage::Missing => answer("404 Not Found", "", "nothing here"),
        InfoPage::Broken => answer("500 Internal Server Error", "", "it broke"),
        InfoPage::Late(by) => late(*by, found(&page)).await,
        InfoPage::Never => std::future::pending().await,
        InfoPage::Redirect(to) => answer("302 Found", &format!("Location: {to}\r\n"), ""),
        InfoPage::Long(bytes) => {
            found(&format!("{{\"name\":\"{}\"}}", "x".repeat(bytes.saturating_sub(11))))
        }
        InfoPage::Nonsense => found("<html>welcome</html>"),
    };
    // Who does not want to hear all of it may hang up.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn late(by: Duration, answer: String) -> String {
    tokio::time::sleep(by).await;
    answer
}

fn found(page: &str) -> String {
    answer("200 OK", "Content-Type: application/nostr+json\r\n", page)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn document(behaviour: &Behaviour) -> String {
    let mut nips = vec![1, 11];
    let limits = &behaviour.limits;
    let compares = behaviour.negentropy.is_spoken();
    if compares {
        nips.push(77);
    }
    if matches!(behaviour.refuses, Refuses::WithoutAuth { .. }) {
        nips.push(42);
    }
    let mut page = json!({"name": behaviour.name});
    // A relay that says nothing of its limits says nothing of what it cannot do either.
    if compares || limits.told {
        page["supported_nips"] = json!(nips);
    }
    if limits.told {
        page["limitation"] = json!({
            "max_subscriptions": limits.subscriptions_max,
            "max_message_length": limits.message_bytes_max,
            "max_limit": limits.page_max,
            "default_limit": limits.page_max,
        });
    }
    if limits.grasp {
        page["supported_grasps"] = json!(["GRASP-01", "GRASP-02"]);
    }
    page.to_string()
}
