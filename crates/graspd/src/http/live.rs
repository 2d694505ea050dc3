//! Server-sent events: what happened, and which pages are out of date. Each listener costs a place
//! among few and a place in a bounded queue; one that falls behind is told to look at everything.

use crate::activity::{HOME, PURGATORY, RELAYS, Signal};
use crate::http::respond::{Answer, busy, text};
use crate::node::Node;
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hyper::{StatusCode, header};
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Listeners at a time.
pub const LISTENERS_MAX: usize = 256;
/// Proxies end connections that say nothing.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(15);
const GREETING: &str = "retry: 3000\n\n";

pub(super) fn listen(node: &Arc<Node>) -> Answer {
    let Ok(place) = Arc::clone(&node.listeners).try_acquire_owned() else {
        return busy("as many people listen as can; the page works without");
    };
    let listener = Listener {
        signals: node.activity.listen(),
        node: Arc::clone(node),
        greeted: false,
        _place: place,
    };
    let mut answer = text(StatusCode::OK, "text/event-stream", Body::from_stream(heard(listener)));
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    // Some proxies collect what they pass on, unless told.
    headers.insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    answer
}

struct Listener {
    signals: Receiver<Signal>,
    node: Arc<Node>,
    greeted: bool,
    _place: OwnedSemaphorePermit,
}

fn heard(listener: Listener) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(listener, |mut listener| async move {
        if !std::mem::replace(&mut listener.greeted, true) {
            return Some((Ok(Bytes::from_static(GREETING.as_bytes())), listener));
        }
        let frame = tokio::select! {
            () = listener.node.closing.cancelled() => return None,
            signal = listener.signals.recv() => match signal {
                Ok(signal) => framed(&signal),
                Err(RecvError::Lagged(_)) => frame("changed", &[HOME, RELAYS, PURGATORY, "repo"]),
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
        let activity = Activity { at: Time(1), kind: "event".into(), text, repository: None };
        let frame = framed(&Signal::Happened(Arc::new(activity)));
        let frame = std::str::from_utf8(&frame).unwrap();
        assert_eq!(frame.matches('\n').count(), 3, "{frame}");
        assert!(!frame.contains('\r'));
    }
}
