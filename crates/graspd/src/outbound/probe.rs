//! What a relay says about itself (NIP-11), asked on a connection of its own to the same vetted
//! address. Nothing depends on the answer: whatever is wrong with it, nothing is known.
//! Invariant: no redirect is followed, and no more is read than fits the limit.

use crate::outbound::nonce::Instance;
use crate::outbound::stream::Stream;
use bytes::Bytes;
use grasp_engine::Peer;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::future::{pending, poll_fn};
use std::pin::Pin;

/// The other side shows our own nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ourselves;

/// What to ask, and how much of the answer to read.
#[derive(Debug)]
pub(super) struct Question<'a> {
    /// The `Host` header.
    pub(super) authority: String,
    /// Path and query.
    pub(super) path: String,
    pub(super) instance: &'a Instance,
    pub(super) body_bytes_max: usize,
}

pub(super) const USER_AGENT: &str = concat!("graspd/", env!("CARGO_PKG_VERSION"));

pub(super) async fn ask(stream: Stream, question: &Question<'_>) -> Result<Peer, Ourselves> {
    match document(stream, question).await {
        Some(json) => read(&json, question.instance),
        None => Ok(Peer::default()),
    }
}

async fn document(stream: Stream, question: &Question<'_>) -> Option<Vec<u8>> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(64 << 10).max_headers(100);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
    let request = request(question)?;
    let answer = async {
        let answer = sender.send_request(request).await.ok()?;
        body(answer, question.body_bytes_max).await
    };
    // The connection may end before its last bytes were looked at.
    let carried = async {
        let _ = connection.await;
        pending().await
    };
    tokio::select! {
        answer = answer => answer,
        nothing = carried => nothing,
    }
}

fn request(question: &Question<'_>) -> Option<Request<Empty>> {
    Request::get(&question.path)
        .header(header::HOST, &question.authority)
        .header(header::ACCEPT, "application/nostr+json")
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::CONNECTION, "close")
        .header(Instance::HEADER, question.instance.header_value())
        .body(Empty)
        .ok()
}

async fn body(answer: Response<Incoming>, bytes_max: usize) -> Option<Vec<u8>> {
    if answer.status() != StatusCode::OK {
        return None;
    }
    let mut body = answer.into_body();
    let mut read = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if read.len() + data.len() > bytes_max {
            return None;
        }
        read.extend_from_slice(&data);
    }
    Some(read)
}

/// Takes what it understands and overlooks the rest: these documents are written by hand.
fn read(json: &[u8], instance: &Instance) -> Result<Peer, Ourselves> {
    let Ok(document) = serde_json::from_slice::<Value>(json) else { return Ok(Peer::default()) };
    let at = |name: &str| document.get(name).unwrap_or(&Value::Null);
    if at("instance").as_str() == Some(instance.as_str()) {
        return Err(Ourselves);
    }
    let limit = |name: &str| number(at("limitation").get(name)?);
    Ok(Peer {
        subscriptions_max: limit("max_subscriptions"),
        message_bytes_max: limit("max_message_length"),
        limit_default: limit("default_limit"),
        grasp: at("supported_grasps").as_array().is_some_and(|grasps| !grasps.is_empty()),
        git_requests_per_minute: at("git_limits").get("requests_per_minute").and_then(number),
        nip77: lists_nip77(at("supported_nips")),
    })
}

/// Whether NIP-77 is in a list of NIPs; an empty list says nothing.
fn lists_nip77(nips: &Value) -> Option<bool> {
    let nips = nips.as_array().filter(|nips| !nips.is_empty())?;
    Some(nips.iter().any(|nip| nip.as_u64() == Some(77) || nip.as_str() == Some("77")))
}

/// A limit of nothing at all, or less, is a way of saying that there is none.
fn number(value: &Value) -> Option<u32> {
    let number = value.as_u64().filter(|number| *number > 0)?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// A GET brings nothing along.
struct Empty;

impl Body for Empty {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn peer(document: &Value) -> Result<Peer, Ourselves> {
        read(document.to_string().as_bytes(), &Instance::random().unwrap())
    }

    #[test]
    fn s11_a_relays_limits_are_read_from_its_document() {
        let document = json!({
            "name": "x", "supported_grasps": ["GRASP-01"], "instance": "somebody else",
            "supported_nips": [1, 11, 77], "git_limits": {"requests_per_minute": 3000},
            "limitation": {
                "max_subscriptions": 20, "max_message_length": 65536, "default_limit": 100,
                "max_limit": 500, "auth_required": false,
            },
        });
        let told = Peer {
            subscriptions_max: Some(20),
            message_bytes_max: Some(65536),
            limit_default: Some(100),
            grasp: true,
            git_requests_per_minute: Some(3_000),
            nip77: Some(true),
        };
        assert_eq!(peer(&document), Ok(told));
    }

    #[test]
    fn s61_a_list_of_nips_says_whether_nip_77_is_spoken_and_no_list_says_nothing() {
        let listed = |nips: Value| peer(&json!({"supported_nips": nips})).map(|peer| peer.nip77);
        for nips in [json!([1, 77]), json!(["77"]), json!([77])] {
            assert_eq!(listed(nips), Ok(Some(true)));
        }
        for nips in [json!([1, 11]), json!(["1", 770]), json!([null])] {
            assert_eq!(listed(nips), Ok(Some(false)));
        }
        for nothing in [json!([]), json!(null), json!("77"), json!({"77": true})] {
            assert_eq!(listed(nothing), Ok(None));
        }
    }

    #[test]
    fn s11_whatever_is_wrong_with_a_document_costs_only_what_is_wrong() {
        for nothing in [
            json!(null),
            json!([]),
            json!("x"),
            json!({}),
            json!({"limitation": 7}),
            json!({"limitation": {"max_subscriptions": "20", "default_limit": -1}}),
            json!({"limitation": {"max_subscriptions": 0, "max_message_length": null}}),
            json!({"supported_grasps": []}),
            json!({"supported_grasps": "GRASP-01"}),
            json!({"instance": 5}),
            json!({"git_limits": 3000}),
            json!({"git_limits": {"requests_per_minute": -1}}),
        ] {
            assert_eq!(peer(&nothing), Ok(Peer::default()), "{nothing}");
        }
        for broken in ["", "{", "<html>", "\u{1f}\u{8b}", &"[".repeat(200_000)] {
            let instance = Instance::random().unwrap();
            assert_eq!(read(broken.as_bytes(), &instance), Ok(Peer::default()));
        }
        let huge = json!({"limitation": {"max_subscriptions": u64::MAX, "default_limit": "x"}});
        let told = Peer { subscriptions_max: Some(u32::MAX), ..Peer::default() };
        assert_eq!(peer(&huge), Ok(told));
    }

    #[test]
    fn a_document_with_our_nonce_is_our_own() {
        let instance = Instance::random().unwrap();
        let document = json!({"instance": instance.as_str()}).to_string();
        assert_eq!(read(document.as_bytes(), &instance), Err(Ourselves));
        assert_ne!(instance, Instance::random().unwrap());
    }
}
