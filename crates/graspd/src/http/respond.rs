//! Answers, all of which carry the CORS headers GRASP asks for, errors included.

use axum::body::Body;
use grasp_relay::Refused;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

pub type Answer = Response<Body>;

const EVERYWHERE: [(HeaderName, &str); 8] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "Authorization, Content-Type, Git-Protocol, Accept, Content-Encoding, X-Requested-With, \
         X-Git-Request-Id",
    ),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "*"),
    (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; img-src 'self'; style-src 'self' 'unsafe-inline'; \
         script-src 'self'; connect-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
];

/// Adds what every answer has. One instance of each: a doubled CORS header breaks browsers.
pub fn finished(mut answer: Answer) -> Answer {
    for (name, value) in EVERYWHERE {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

pub fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

pub fn text(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

pub fn html(status: StatusCode, body: String) -> Answer {
    text(status, "text/html; charset=utf-8", body)
}

/// One sentence, for whoever looks at what went wrong.
pub fn line(status: StatusCode, sentence: &str) -> Answer {
    text(status, "text/plain; charset=utf-8", format!("{sentence}\n"))
}

/// For git, which must never be shown what a cache remembers.
pub fn git(content_type: &'static str, body: impl Into<Body>) -> Answer {
    let mut answer = text(StatusCode::OK, content_type, body);
    for (name, value) in NEVER_KEPT {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

const NEVER_KEPT: [(HeaderName, &str); 3] = [
    (header::CACHE_CONTROL, "no-cache, max-age=0, must-revalidate"),
    (header::PRAGMA, "no-cache"),
    (header::EXPIRES, "Fri, 01 Jan 1980 00:00:00 GMT"),
];

/// Not now; the sentence says why.
pub fn busy(why: &str) -> Answer {
    let mut answer = line(StatusCode::SERVICE_UNAVAILABLE, why);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    answer
}

/// The client asks more often than it may.
pub fn too_many(why: &Refused) -> Answer {
    let Some(secs) = why.retry_after_secs() else { return busy(&why.to_string()) };
    let mut answer = line(StatusCode::TOO_MANY_REQUESTS, &why.to_string());
    answer.headers_mut().insert(header::RETRY_AFTER, secs.into());
    answer
}
