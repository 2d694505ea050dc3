//! One connection to a vetted address, plain or through TLS. It knows no names but the one its
//! certificate must have, and keeps its place until it is dropped.

use crate::outbound::address::counted_as;
use crate::outbound::dial::DialError;
use crate::outbound::guard::Target;
use crate::outbound::places::{Place, Places};
use crate::outbound::starts::{SharedStarts, StartKind, Until};
use grasp_core::Time;
use rustls::pki_types::{DnsName, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use url::Host;

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

pub struct Stream {
    wire: Box<dyn Wire>,
    _place: Option<Place>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("place", &self._place).finish_non_exhaustive()
    }
}

/// Before TLS: connected, and counted.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) tcp: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) place: Place,
}

/// An address that does not answer must leave time for the next.
const SHARE_MIN: Duration = Duration::from_secs(1);

/// What an address must have room for before it is connected to.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub(super) places: &'a Places,
    /// Where which start is counted for each address; nowhere if it is paid for already.
    pub(super) starts: Option<(&'a SharedStarts, StartKind)>,
}

/// Connects to the first of these that answers and has room.
pub(super) async fn reach(
    addresses: &[SocketAddr],
    room: Room<'_>,
    target: &Target,
    time_max: Duration,
) -> Result<Reached, DialError> {
    let deadline = Instant::now() + time_max;
    let Some(first) = addresses.first() else { return Err(failed(target, "no address")) };
    let mut failure = DialError::Crowded { address: counted_as(first.ip()) };
    for (at, address) in addresses.iter().enumerate() {
        let Some(place) = room.places.take(address.ip()) else { continue };
        if let Some((starts, kind)) = room.starts
            && let Err(Until(until)) = starts.take(address.ip(), kind)
        {
            failure = failure.or_busy(until);
            continue;
        }
        let left = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        let until = deadline.min(Instant::now() + share.max(SHARE_MIN));
        match timeout_at(until, connect(*address)).await {
            Ok(Ok(tcp)) => return Ok(Reached { tcp, address: *address, place }),
            Ok(Err(error)) => failure = failed(target, &error.kind().to_string()),
            Err(_) => failure = failed(target, "no connection in time"),
        }
    }
    Err(failure)
}

impl DialError {
    /// What was tried says more than what could not be tried.
    fn or_busy(self, until: Time) -> Self {
        match self {
            Self::Busy { until: first } => Self::Busy { until: first.min(until) },
            Self::Crowded { .. } => Self::Busy { until },
            tried => tried,
        }
    }
}

pub(super) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// TLS where the URL asks for it.
pub(super) async fn secured(
    tcp: TcpStream,
    place: Option<Place>,
    target: &Target,
    tls: &TlsConnector,
    time_max: Duration,
) -> Result<Stream, DialError> {
    if !target.secure {
        return Ok(Stream { wire: Box::new(tcp), _place: place });
    }
    let name = server_name(target).ok_or_else(|| failed(target, "no name for a certificate"))?;
    match timeout(time_max, tls.connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok(Stream { wire: Box::new(stream), _place: place }),
        Ok(Err(error)) => Err(failed(target, tls_failure(&error))),
        Err(_) => Err(failed(target, "no TLS in time")),
    }
}

fn server_name(target: &Target) -> Option<ServerName<'static>> {
    Some(match &target.host {
        Host::Domain(name) => ServerName::DnsName(DnsName::try_from(name.clone()).ok()?),
        Host::Ipv4(ip) => ServerName::IpAddress((*ip).into()),
        Host::Ipv6(ip) => ServerName::IpAddress((*ip).into()),
    })
}

/// Not the error's own words: they quote what the other side sent.
fn tls_failure(error: &io::Error) -> &'static str {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(_)) => "its certificate is not valid for this name",
        _ => "it does not speak TLS as it should",
    }
}

pub(super) fn failed(target: &Target, why: &str) -> DialError {
    DialError::Failed(format!("{}: {why}", target.host))
}

/// TLS 1.2 and 1.3, for servers that the well-known authorities vouch for.
pub(super) fn public_trust() -> Result<ClientConfig, rustls::Error> {
    trusting(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect())
}

pub(super) fn trusting(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder =
        builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_read(cx, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }
}
