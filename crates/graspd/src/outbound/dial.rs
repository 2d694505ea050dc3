//! A WebSocket to a relay that somebody named: vetted, resolved once, connected to the vetted
//! address, and asked what it is at the same time. Nothing here retries or remembers.
//! Invariant: the words of an error name the host and the kind of failure, never an address it
//! resolved to.

use crate::outbound::guard::{Forbidden, Rule, Target, vet};
use crate::outbound::nonce::Instance;
use crate::outbound::places::Places;
use crate::outbound::probe::{self, Ourselves, Question, USER_AGENT};
use crate::outbound::resolve::{Resolve, System, addresses};
use crate::outbound::starts::{SharedStarts, StartKind};
use crate::outbound::stream::{self, Room, Stream, failed, reach, secured};
use grasp_core::{RelayUrl, Time};
use grasp_engine::Peer;
use hyper::header::{HeaderValue, USER_AGENT as USER_AGENT_HEADER};
use rustls::RootCertStore;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, error::ProtocolError};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

/// Makes links. Cheap to clone; all clones share one count of places.
#[derive(Clone)]
pub struct Dialer {
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) tls: TlsConnector,
    pub(super) instance: Instance,
    places: Places,
    /// Where every connection is counted, with those of others.
    pub(super) starts: Option<SharedStarts>,
    pub(super) limits: DialLimits,
}

/// A link that lives.
#[derive(Debug)]
pub struct Dialled {
    pub socket: WebSocketStream<Stream>,
    pub peer: Peer,
    pub address: SocketAddr,
}

/// Why there is no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// Not a place we may be sent to.
    #[error("{0}")]
    Forbidden(String),
    #[error("this is our own server")]
    Ourselves,
    #[error("its address already has all the links it may have")]
    Crowded { address: IpAddr },
    #[error("its address had all the connections it may have for now")]
    Busy { until: Time },
    #[error("{0}")]
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialLimits {
    pub lookup: Duration,
    pub connect: Duration,
    pub tls: Duration,
    pub handshake: Duration,
    /// All of the question what a relay is.
    pub probe: Duration,
    pub probe_bytes_max: usize,
    pub addresses_max: usize,
    pub links_per_address_max: usize,
    pub message_bytes_max: usize,
}

impl Default for DialLimits {
    fn default() -> Self {
        Self {
            lookup: Duration::from_secs(5),
            connect: Duration::from_secs(5),
            tls: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            probe: Duration::from_secs(3),
            probe_bytes_max: 256 << 10,
            addresses_max: 8,
            links_per_address_max: 32,
            // The largest event anybody takes, and the words around it.
            message_bytes_max: (1 << 20) + (64 << 10),
        }
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl From<Forbidden> for DialError {
    fn from(forbidden: Forbidden) -> Self {
        Self::Forbidden(forbidden.0)
    }
}

impl From<Ourselves> for DialError {
    fn from(_: Ourselves) -> Self {
        Self::Ourselves
    }
}

impl Dialer {
    /// With the machine's resolver, and the authorities that browsers trust.
    pub fn new(instance: Instance, limits: DialLimits) -> Result<Self, rustls::Error> {
        Ok(Self {
            resolver: Arc::new(System::default()),
            tls: Arc::new(stream::public_trust()?).into(),
            instance,
            places: Places::new(limits.links_per_address_max),
            starts: None,
            limits,
        })
    }

    /// Counts every connection there.
    pub fn counting(mut self, starts: SharedStarts) -> Self {
        self.starts = Some(starts);
        self
    }

    /// Asks somebody else where names lead.
    pub fn resolving_by(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Trusts these authorities and no others.
    pub fn trusting(mut self, roots: RootCertStore) -> Result<Self, rustls::Error> {
        self.tls = Arc::new(stream::trusting(roots)?).into();
        Ok(self)
    }

    pub async fn dial(&self, relay: &RelayUrl, rule: Rule) -> Result<Dialled, DialError> {
        let target = vet(relay, rule)?;
        let url = relay.to_url().ok_or_else(|| failed(&target, "not an address"))?;
        let limits = &self.limits;
        let (resolver, max) = (&*self.resolver, limits.addresses_max);
        let found = addresses(resolver, &target, limits.lookup, max).await?;
        let starts = self.starts.as_ref().map(|starts| (starts, StartKind::RelayDial));
        let room = Room { places: &self.places, starts };
        let reached = reach(&found, room, &target, limits.connect).await?;
        let address = reached.address;
        let talk = async {
            let place = Some(reached.place);
            let stream = secured(reached.tcp, place, &target, &self.tls, limits.tls).await?;
            self.shake_hands(stream, &url, &target).await
        };
        let asked = async { Ok(self.probe(address, &url, &target).await?) };
        let (socket, peer) = tokio::try_join!(talk, asked)?;
        if let (Some(starts), Some(published)) = (&self.starts, peer.git_requests_per_minute) {
            starts.publish(address.ip(), published);
        }
        Ok(Dialled { socket, peer, address })
    }

    async fn shake_hands(
        &self,
        stream: Stream,
        url: &Url,
        target: &Target,
    ) -> Result<WebSocketStream<Stream>, DialError> {
        let request = self.upgrade(url).ok_or_else(|| failed(target, "not an address"))?;
        let message_max = self.limits.message_bytes_max;
        let config = WebSocketConfig::default()
            .read_buffer_size(8 << 10)
            .write_buffer_size(8 << 10)
            .max_write_buffer_size(message_max + (64 << 10))
            .max_message_size(Some(message_max))
            .max_frame_size(Some(message_max));
        let handshake = client_async_with_config(request, stream, Some(config));
        match timeout(self.limits.handshake, handshake).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(error)) => Err(self.refusal(&error, target)),
            Err(_) => Err(failed(target, "no WebSocket in time")),
        }
    }

    fn upgrade(&self, url: &Url) -> Option<Request> {
        let mut request = url.as_str().into_client_request().ok()?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT_HEADER, HeaderValue::from_static(USER_AGENT));
        headers.insert(Instance::HEADER, self.instance.header_value());
        Some(request)
    }

    /// A redirect is an answer like any other that is not a WebSocket.
    fn refusal(&self, error: &Error, target: &Target) -> DialError {
        match error {
            Error::Http(answer)
                if answer.status() == StatusCode::CONFLICT
                    && self.instance.is_named_in(answer.headers()) =>
            {
                DialError::Ourselves
            }
            Error::Http(answer) => {
                failed(target, &format!("it answers with status {}", answer.status().as_u16()))
            }
            Error::Io(error) => failed(target, &error.kind().to_string()),
            Error::Protocol(ProtocolError::HandshakeIncomplete) => failed(target, "it hung up"),
            _ => failed(target, "it does not speak WebSocket as it should"),
        }
    }

    /// To the address that was vetted, whatever its name leads to by now.
    async fn probe(
        &self,
        address: SocketAddr,
        url: &Url,
        target: &Target,
    ) -> Result<Peer, Ourselves> {
        let question = Question {
            authority: target.authority(),
            path: path_and_query(url),
            instance: &self.instance,
            body_bytes_max: self.limits.probe_bytes_max,
        };
        let asked = async {
            let Ok(tcp) = stream::connect(address).await else { return Ok(Peer::default()) };
            match secured(tcp, None, target, &self.tls, self.limits.tls).await {
                Ok(stream) => probe::ask(stream, &question).await,
                Err(_) => Ok(Peer::default()),
            }
        };
        timeout(self.limits.probe, asked).await.unwrap_or(Ok(Peer::default()))
    }
}

fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}
