//! Server-sent events: what happened, and which pages are out of date. Each listener costs a place
//! among few and a place in a bounded queue; one that falls behind is told to look at everything.

use crate::activity::{EVERY_REPOSITORY, HOME, PURGATORY, RELAYS, Signal};
use crate::http::respond::{Answer, busy, text};
use crate::node::{Node, Visit};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use grasp_relay::IpKey;
use hyper::{StatusCode, header};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Listeners at a time, in all and of one address.
const LISTENERS_MAX: usize = 1_024;
const PER_ADDRESS_MAX: usize = 16;
/// Proxies end connections that say nothing.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(15);
const GREETING: &str = "retry: 3000\n\n";

/// Who asks, and its place among the connections of its address.
#[derive(Debug)]
pub struct Visitor {
    /// `None`: not counted, such as everybody on this machine before a proxy is declared.
    pub ip: Option<IpKey>,
    pub visit: Option<Visit>,
}

/// Everybody who listens.
#[derive(Debug, Default)]
pub struct Listeners {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpKey, usize>,
}

impl Listeners {
    fn sit(node: &Arc<Node>, visitor: Visitor) -> Option<Seat> {
        let mut counts = node.listeners.counts.lock();
        if counts.all >= LISTENERS_MAX {
            return None;
        }
        if let Some(ip) = visitor.ip {
            let own = counts.by_address.entry(ip).or_default();
            if *own >= PER_ADDRESS_MAX {
                return None;
            }
            *own += 1;
        }
        counts.all += 1;
        drop(counts);
        Some(Seat { node: Arc::clone(node), visitor })
    }
}

/// One listener's place, until it leaves.
struct Seat {
    node: Arc<Node>,
    visitor: Visitor,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.node.listeners.counts.lock();
        counts.all -= 1;
        if let Some(ip) = self.visitor.ip
            && let Some(own) = counts.by_address.get_mut(&ip)
        {
            *own -= 1;
            if *own == 0 {
                counts.by_address.remove(&ip);
            }
        }
    }
}

pub(super) fn listen(node: &Arc<Node>, visitor: Visitor) -> Answer {
    let Some(seat) = Listeners::sit(node, visitor) else {
        return busy("as many listen as can, from here or in all; the page works without");
    };
    let listener = Listener { signals: node.activity.listen(), seat, greeted: false };
    let mut answer = text(StatusCode::OK, "text/event-stream", Body::from_stream(heard(listener)));
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    // Some proxies collect what they pass on, unless told.
    headers.insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    answer
}

struct Listener {
    signals: Receiver<Signal>,
    seat: Seat,
    greeted: bool,
}

fn heard(listener: Listener) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(listener, |mut listener| async move {
        if !std::mem::replace(&mut listener.greeted, true) {
            return Some((Ok(Bytes::from_static(GREETING.as_bytes())), listener));
        }
        let frame = tokio::select! {
            () = listener.seat.node.closing.cancelled() => return None,
            signal = listener.signals.recv() => match signal {
                Ok(signal) => framed(&signal),
                Err(RecvError::Lagged(_)) => frame("changed", &[HOME, RELAYS, PURGATORY, EVERY_REPOSITORY]),
                Err(RecvError::Closed) => return None,
            },
            () = tokio::time::sleep(SIGN_OF_LIFE_EVERY) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok(frame), listener))
    })
}

fn framed(signal: &Signal) -> Bytes {
    match signal {
        Signal::Happened(activity) => frame("activity", &**activity),
        Signal::Changed(topics) => frame("changed", &**topics),
    }
}

/// JSON has no line breaks of its own, so nothing in it can end the frame.
fn frame(name: &str, data: &(impl Serialize + ?Sized)) -> Bytes {
    let json = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Activity;
    use grasp_core::Time;

    #[test]
    fn no_text_of_a_stranger_can_end_a_frame() {
        let text = "a\n\nevent: changed\ndata: []\r\rid: 7".to_owned();
        let activity = Activity {
            at: Time(1),
            kind: "event".into(),
            text,
            repository: None,
            name: None,
            count: 1,
        };
        let frame = framed(&Signal::Happened(Arc::new(activity)));
        let frame = std::str::from_utf8(&frame).unwrap();
        assert_eq!(frame.matches('\n').count(), 3, "{frame}");
        assert!(!frame.contains('\r'));
    }
}
