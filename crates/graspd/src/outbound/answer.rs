//! What a git server answers, before anybody looks for git in it. Redirects, disguises and requests to
//! slow down are found here. Invariant: nothing is decompressed, and silence ends it.

use crate::outbound::http::CallError;
use crate::outbound::nonce::Instance;
use crate::outbound::pace::Pace;
use crate::outbound::retry_after;
use bytes::Bytes;
use grasp_core::Time;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::{StatusCode, http::response::Parts};
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// An answer whose body is still to come.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    host: String,
    body: Incoming,
    pace: Pace,
}

impl Response {
    pub(super) fn judge(
        answer: hyper::Response<Incoming>,
        host: String,
        pace: Pace,
        instance: &Instance,
        now: Time,
    ) -> Result<Self, CallError> {
        let (Parts { status, headers, .. }, body) = answer.into_parts();
        let failed = |why: &str| CallError::Failed(format!("{host}: {why}"));
        if status == StatusCode::CONFLICT && instance.is_named_in(&headers) {
            return Err(CallError::Ourselves);
        }
        if status.is_redirection() {
            return Err(failed("it redirects elsewhere, which is not followed"));
        }
        if asks_for_less(status, &headers) {
            return Err(CallError::SlowDown { retry_after: retry_after(&headers, now) });
        }
        if status == StatusCode::OK && !is_plain(&headers) {
            return Err(failed("its answer is compressed, which nobody asked for"));
        }
        Ok(Self { status, headers, host, body, pace })
    }

    /// The value of the content type, without parameters.
    pub fn content_type(&self) -> &str {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or("").split(';').next().unwrap_or("").trim()
    }

    /// The next piece of the body; `None` at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, CallError> {
        let piece = self.piece_without_progress().await?;
        self.progress(piece.as_ref().map_or(0, Bytes::len));
        Ok(piece)
    }

    /// So much of what came counts: it buys time for more.
    pub fn progress(&mut self, bytes: usize) {
        self.pace.moved(bytes);
    }

    /// The next piece of the body, which buys no time unless `progress` says so.
    pub async fn piece_without_progress(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let began = Instant::now();
            let body = &mut self.body;
            let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let came = timeout(self.pace.patience(), next).await;
            self.pace.waited(began.elapsed());
            let frame = match came {
                Err(_) => return Err(self.failed("it went silent in the middle of its answer")),
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => {
                    return Err(self.failed("it hung up in the middle of its answer"));
                }
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers say nothing to us.
            let Ok(piece) = frame.into_data() else { continue };
            return Ok(Some(piece));
        }
    }

    /// No such repository, or not for us: other questions are answered alike.
    pub fn is_closed_to_us(&self) -> bool {
        matches!(self.status.as_u16(), 401 | 403 | 404 | 410)
    }

    /// In words, why an answer with this status is of no use.
    pub fn refusal(&self) -> String {
        let status = self.status.as_u16();
        match status {
            401 | 403 | 407 => format!("it asks for a login (status {status})"),
            404 | 410 => format!("it has no such repository (status {status})"),
            500.. => format!("it is in trouble (status {status})"),
            _ => format!("it answers with status {status}"),
        }
    }

    fn failed(&self, why: &str) -> CallError {
        CallError::Failed(format!("{}: {why}", self.host))
    }
}

/// Some say it with a refusal of another kind, and a time.
fn asks_for_less(status: StatusCode, headers: &HeaderMap) -> bool {
    match status.as_u16() {
        429 | 503 => true,
        400.. => headers.contains_key(header::RETRY_AFTER),
        _ => false,
    }
}

fn retry_after(headers: &HeaderMap, now: Time) -> Option<Duration> {
    retry_after::parse(headers.get(header::RETRY_AFTER)?.to_str().ok()?, now)
}

fn is_plain(headers: &HeaderMap) -> bool {
    let mut named = headers.get_all(header::CONTENT_ENCODING).iter();
    named.all(|name| name.is_empty() || name.as_bytes().eq_ignore_ascii_case(b"identity"))
}
