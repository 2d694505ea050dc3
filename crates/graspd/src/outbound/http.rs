//! HTTP/1.1 with a git server that somebody named: vetted, resolved once, connected to the vetted
//! address, which stays the same for all requests of one conversation. Nothing here retries.
//! Invariant: every request was counted against the address it goes to; no redirect is followed.

use crate::clock::Clock;
use crate::outbound::answer::Response;
use crate::outbound::dial::{DialError, Dialer};
use crate::outbound::guard::{Protocol, Rule, Target, vet_url};
use crate::outbound::nonce::Instance;
use crate::outbound::pace::{Pace, Silence};
use crate::outbound::places::Places;
use crate::outbound::probe::USER_AGENT;
use crate::outbound::resolve::addresses;
use crate::outbound::starts::{SharedStarts, StartKind, StartLimits, Until};
use crate::outbound::stream::{Room, failed, reach, secured};
use bytes::Bytes;
use grasp_core::{CloneUrl, Time};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Opens conversations. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Caller {
    dialer: Dialer,
    starts: SharedStarts,
    places: Places,
    clock: Arc<Clock>,
    limits: CallLimits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLimits {
    pub starts: StartLimits,
    pub connections_per_address_max: usize,
    /// When an answer, its head included, counts as silent.
    pub silence: Silence,
    pub head_bytes_max: usize,
    pub headers_max: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            starts: StartLimits::default(),
            connections_per_address_max: 20,
            silence: Silence::default(),
            head_bytes_max: 64 << 10,
            headers_max: 100,
        }
    }
}

/// Why there is no answer that could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not a place we may be sent to.
    #[error("{0}")]
    Forbidden(String),
    #[error("this is our own server")]
    Ourselves,
    #[error("its address had all the requests it may have for now")]
    Crowded { until: Time },
    #[error("it asks to be left alone for a while")]
    SlowDown { retry_after: Option<Duration> },
    /// The server had closed a connection that was open for a second request; whether it saw that
    /// request nobody knows.
    #[error("{0}")]
    Stale(String),
    /// Class and host, never an address.
    #[error("{0}")]
    Failed(String),
}

/// One request, below the path of the repository.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Path below the repository, and query.
    pub path: &'static str,
    pub accept: &'static str,
    /// Asks for protocol v2.
    pub v2: bool,
    /// Content type and bytes of a post; without, it is a get.
    pub body: Option<(&'static str, Bytes)>,
}

/// A conversation with one vetted address.
#[derive(Debug)]
pub struct Connection {
    caller: Caller,
    target: Target,
    /// Of the repository, without a slash at its end.
    base_path: String,
    address: SocketAddr,
    wire: Option<Wire>,
}

#[derive(Debug)]
struct Wire {
    sender: SendRequest<Whole>,
    /// It moves the bytes, and ends with us.
    _driver: AbortOnDropHandle<()>,
    used: bool,
}

/// A place may be free again any moment; this long is waited for one.
const PLACE_WAIT: Duration = Duration::from_secs(5);
/// For a kept connection to be ready again after an answer was read to its end.
const READY_WAIT: Duration = Duration::from_secs(1);

impl Caller {
    /// Resolves, trusts, counts and names itself as the dialler does. `limits.starts` hold where the
    /// dialler counts nothing.
    pub fn new(dialer: Dialer, clock: Arc<Clock>, limits: CallLimits) -> Self {
        let own = || SharedStarts::new(limits.starts.clone(), Arc::clone(&clock));
        Self {
            starts: dialer.starts.clone().unwrap_or_else(own),
            dialer,
            places: Places::new(limits.connections_per_address_max),
            clock,
            limits,
        }
    }

    /// Connects; nothing is asked yet.
    pub async fn open(&self, url: &CloneUrl, rule: Rule) -> Result<Connection, CallError> {
        let forbidden = || CallError::Forbidden("this is not an address".into());
        let url = url.to_url().ok_or_else(forbidden)?;
        let target = vet_url(&url, Protocol::Git, rule)
            .map_err(|forbidden| CallError::Forbidden(forbidden.0))?;
        let dial = &self.dialer.limits;
        let (resolver, max) = (&*self.dialer.resolver, dial.addresses_max);
        let found = addresses(resolver, &target, dial.lookup, max).await;
        let found = found.map_err(|error| self.missed(error))?;
        let (wire, address) =
            self.connect(&found, &target, Some((&self.starts, StartKind::GitRequest))).await?;
        let base_path = url.path().trim_end_matches('/').to_owned();
        Ok(Connection { caller: self.clone(), target, base_path, address, wire: Some(wire) })
    }

    async fn connect(
        &self,
        addresses: &[SocketAddr],
        target: &Target,
        starts: Option<(&SharedStarts, StartKind)>,
    ) -> Result<(Wire, SocketAddr), CallError> {
        let dial = &self.dialer.limits;
        let room = Room { places: &self.places, starts };
        let reached = reach(addresses, room, target, dial.connect).await;
        let reached = reached.map_err(|error| self.missed(error))?;
        let address = reached.address;
        let (place, tls) = (Some(reached.place), &self.dialer.tls);
        let stream = secured(reached.tcp, place, target, tls, dial.tls).await;
        let stream = stream.map_err(|error| self.missed(error))?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(self.limits.head_bytes_max).max_headers(self.limits.headers_max);
        let shaken = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|_| failure(target, "it hung up"))?;
        // What becomes of it is told to whoever waits for an answer.
        let driver = tokio::spawn(async move { drop(connection.await) });
        let wire = Wire { sender, _driver: AbortOnDropHandle::new(driver), used: false };
        Ok((wire, address))
    }

    fn missed(&self, error: DialError) -> CallError {
        match error {
            DialError::Forbidden(why) => CallError::Forbidden(why),
            DialError::Ourselves => CallError::Ourselves,
            DialError::Crowded { .. } => {
                CallError::Crowded { until: self.clock.now().plus(PLACE_WAIT) }
            }
            DialError::Busy { until } => CallError::Crowded { until },
            DialError::Failed(why) => CallError::Failed(why),
        }
    }
}

impl Connection {
    /// Asks once. The answer has to be read to its end before the next question, or the connection
    /// is made anew, to the same address.
    pub async fn request(&mut self, ask: &Ask) -> Result<Response, CallError> {
        // The first request was counted when its connection was made.
        if self.wire.as_ref().is_none_or(|wire| wire.used) {
            let taken = self.caller.starts.take(self.address.ip(), StartKind::GitRequest);
            taken.map_err(|Until(until)| CallError::Crowded { until })?;
        }
        let request = self.render(ask)?;
        let mut pace = Pace::new(self.caller.limits.silence);
        let began = Instant::now();
        let sent = timeout(pace.patience(), self.send(request)).await;
        pace.waited(began.elapsed());
        let silent = |_| failure(&self.target, "it does not answer");
        let answer = sent.map_err(silent)??;
        let now = self.caller.clock.wall();
        let instance = &self.caller.dialer.instance;
        let judged = Response::judge(answer, self.target.host.to_string(), pace, instance, now);
        if matches!(judged, Err(CallError::SlowDown { .. })) {
            self.caller.starts.object(self.address.ip());
        }
        judged
    }

    fn render(&self, ask: &Ask) -> Result<Request<Whole>, CallError> {
        let method = if ask.body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/{}", self.base_path, ask.path))
            .header(header::HOST, self.target.authority())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, ask.accept)
            .header(header::ACCEPT_ENCODING, "identity")
            .header(Instance::HEADER, self.caller.dialer.instance.header_value());
        if ask.v2 {
            request = request.header("git-protocol", HeaderValue::from_static("version=2"));
        }
        let mut bytes = Bytes::new();
        if let Some((kind, body)) = &ask.body {
            request = request.header(header::CONTENT_TYPE, *kind);
            bytes = body.clone();
        }
        request.body(Whole(bytes)).map_err(|_| failure(&self.target, "not an address"))
    }

    async fn send(
        &mut self,
        request: Request<Whole>,
    ) -> Result<hyper::Response<Incoming>, CallError> {
        let mut wire = self.ready().await?;
        let used = std::mem::replace(&mut wire.used, true);
        let sent = wire.sender.try_send_request(request).await;
        self.wire = Some(wire);
        let mut error = match sent {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        self.wire = None;
        match error.take_message() {
            // The server had left before a byte was sent: that was no request.
            Some(unsent) if used => {
                let mut wire = self.ready().await?;
                wire.used = true;
                let sent = wire.sender.send_request(unsent).await;
                self.wire = Some(wire);
                sent.map_err(|error| failure(&self.target, lost(&error)))
            }
            _ if used => {
                let why = lost(error.error());
                Err(CallError::Stale(format!("{}: {why}", self.target.host)))
            }
            _ => Err(failure(&self.target, lost(error.error()))),
        }
    }

    /// The connection that is there, if it still is, or a new one to the same address.
    async fn ready(&mut self) -> Result<Wire, CallError> {
        if let Some(mut wire) = self.wire.take()
            && let Ok(Ok(())) = timeout(READY_WAIT, wire.sender.ready()).await
        {
            return Ok(wire);
        }
        // Counted with its request.
        let (wire, _) = self.caller.connect(&[self.address], &self.target, None).await?;
        Ok(wire)
    }
}

fn failure(target: &Target, why: &str) -> CallError {
    CallError::Failed(failed(target, why).to_string())
}

/// Not the error's own words: they may quote what the other side sent.
fn lost(error: &hyper::Error) -> &'static str {
    match () {
        () if error.is_parse_too_large() => "its answer begins with too many headers",
        () if error.is_parse() => "it does not speak HTTP as it should",
        () => "it hung up",
    }
}

/// A body that is there already.
#[derive(Debug)]
struct Whole(Bytes);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.0.len()).unwrap_or(u64::MAX))
    }
}
