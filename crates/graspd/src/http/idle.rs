//! How long a connection may keep the server waiting for a request: a request head has one limit, the
//! pause between two requests another one. Connections that may be idle for long are listed, so that
//! they are closed first when connections run out.

use crate::node::{Seat, Visit};
use axum::body::{Body, Bytes};
use grasp_relay::IpKey;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Clients list the refs, then build their pack for minutes and send it on the same connection.
pub const IDLE_AFTER_ADVERTISEMENT: Duration = Duration::from_secs(5 * 60);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    /// The head of a request arrives since then.
    Head(Instant),
    /// A request is being answered.
    Answer,
    /// Nothing since then, for this long at most.
    Idle { since: Instant, limit: Duration },
    /// Not HTTP any more.
    Upgraded,
}

impl ConnectionPhase {
    fn deadline(self, head_limit: Duration) -> Option<Instant> {
        match self {
            Self::Head(since) => Some(since + head_limit),
            Self::Idle { since, limit } => Some(since + limit),
            Self::Answer | Self::Upgraded => None,
        }
    }
}

/// What a connection takes of the server's and its address's room.
#[derive(Debug, Default)]
pub struct ConnectionPlaces {
    pub seat: Option<Seat>,
    /// None if a proxy speaks for many addresses: each request is counted by itself then.
    pub visit: Option<Visit>,
}

/// One connection, shared by its socket, its requests and the list of idle ones.
#[derive(Debug)]
pub struct HttpConnection {
    phase: Mutex<ConnectionPhase>,
    head_limit: Duration,
    /// Of the peer; None if each request is counted by itself.
    pub address: Option<IpKey>,
    places: Mutex<ConnectionPlaces>,
    /// Of the task that waits for bytes of the client.
    reader: Mutex<Option<Waker>>,
    /// Ends it, for a peer that is not worth waiting for any longer.
    pub hang_up: CancellationToken,
}

impl HttpConnection {
    pub fn new(
        head_limit: Duration,
        address: Option<IpKey>,
        places: ConnectionPlaces,
    ) -> Arc<Self> {
        Arc::new(Self {
            phase: Mutex::new(ConnectionPhase::Head(Instant::now())),
            head_limit,
            address,
            places: Mutex::new(places),
            reader: Mutex::default(),
            hang_up: CancellationToken::new(),
        })
    }

    pub fn request_begins(&self) {
        *self.phase.lock() = ConnectionPhase::Answer;
    }

    pub fn is_upgraded(&self) -> bool {
        *self.phase.lock() == ConnectionPhase::Upgraded
    }

    pub fn upgrade(&self) {
        *self.phase.lock() = ConnectionPhase::Upgraded;
    }

    fn is_idle(&self) -> bool {
        matches!(*self.phase.lock(), ConnectionPhase::Idle { .. })
    }

    fn answer_ends(&self, limit: Duration) {
        let mut phase = self.phase.lock();
        if *phase == ConnectionPhase::Answer {
            *phase = ConnectionPhase::Idle { since: Instant::now(), limit };
        }
        drop(phase);
        self.wake_reader();
    }

    /// The socket is read once more, so that a deadline that begins now has its alarm: the server
    /// reads of its own accord only when bytes arrive.
    fn wake_reader(&self) {
        if let Some(reader) = self.reader.lock().take() {
            reader.wake();
        }
    }

    fn bytes_arrive(&self) {
        let mut phase = self.phase.lock();
        if matches!(*phase, ConnectionPhase::Idle { .. }) {
            *phase = ConnectionPhase::Head(Instant::now());
        }
    }

    /// The rest of an answer is still on its way to the client.
    fn answer_moves(&self) {
        if let ConnectionPhase::Idle { since, .. } = &mut *self.phase.lock() {
            *since = Instant::now();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.phase.lock().deadline(self.head_limit)
    }

    /// Its room is free when this returns; its socket closes right after.
    fn close(&self) {
        drop(std::mem::take(&mut *self.places.lock()));
        self.hang_up.cancel();
    }
}

/// Connections that may be idle for long, the longest listed first.
#[derive(Debug, Default)]
pub struct IdleConnections(Mutex<Vec<Weak<HttpConnection>>>);

impl IdleConnections {
    fn list(&self, connection: &Arc<HttpConnection>) {
        let mut listed = self.0.lock();
        let is_other = |it: &HttpConnection| !std::ptr::eq(it, &**connection);
        listed.retain(|it| it.upgrade().is_some_and(|it| it.is_idle() && is_other(&it)));
        listed.push(Arc::downgrade(connection));
    }

    /// Takes the room of a connection from this address, then of the server. If there is none, the
    /// longest idle connection makes room. An address with too many closes none of another.
    pub fn make_room<V, S, E>(
        &self,
        address: Option<IpKey>,
        visit: impl Fn(IpKey) -> Result<V, E>,
        seat: impl Fn() -> Option<S>,
    ) -> Result<(Option<V>, Option<S>), E> {
        let visit = |ip| {
            let close = |why| if self.close_one(Some(ip)) { visit(ip) } else { Err(why) };
            visit(ip).or_else(close)
        };
        let visit = address.map(visit).transpose()?;
        let seat = seat().or_else(|| self.close_one(None).then(seat).flatten());
        Ok((visit, seat))
    }

    /// Closes one, of this address if one is given. False if there is none.
    fn close_one(&self, of: Option<IpKey>) -> bool {
        let mut listed = self.0.lock();
        let matches = |it: &HttpConnection| it.is_idle() && (of.is_none() || it.address == of);
        let found = listed.iter().enumerate().find_map(|(at, it)| {
            it.upgrade().filter(|it| matches(it)).map(|connection| (at, connection))
        });
        let Some((at, connection)) = found else { return false };
        listed.remove(at);
        connection.close();
        true
    }
}

/// A body that tells when the answer is over: the connection is idle from then on.
#[derive(Debug)]
pub struct AnsweringBody {
    pub body: Body,
    pub connection: Arc<HttpConnection>,
    /// Where the connection is listed if it may be idle for long.
    pub long_idle: Option<Arc<IdleConnections>>,
}

impl hyper::body::Body for AnsweringBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnsweringBody {
    fn drop(&mut self) {
        match &self.long_idle {
            None => self.connection.answer_ends(self.connection.head_limit),
            Some(idle) => {
                self.connection.answer_ends(IDLE_AFTER_ADVERTISEMENT);
                idle.list(&self.connection);
            }
        }
    }
}

/// A socket that fails when its connection keeps the server waiting for a request too long.
#[derive(Debug)]
pub struct PhaseSocket<S> {
    stream: S,
    connection: Arc<HttpConnection>,
    is_write_pending: bool,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Called once, when the connection has become a WebSocket.
    when_upgraded: Option<fn(&S)>,
}

impl<S> PhaseSocket<S> {
    pub fn new(stream: S, connection: Arc<HttpConnection>) -> Self {
        Self { stream, connection, is_write_pending: false, alarm: None, when_upgraded: None }
    }

    pub fn when_upgraded(self, call: fn(&S)) -> Self {
        Self { when_upgraded: Some(call), ..self }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.connection.deadline().filter(|_| !self.is_write_pending);
        let Some(deadline) = deadline else {
            self.alarm = None;
            return Poll::Pending;
        };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        alarm.as_mut().poll(cx)
    }

    fn wrote<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let was_pending = std::mem::replace(&mut self.is_write_pending, written.is_pending());
        self.connection.answer_moves();
        if was_pending && !self.is_write_pending {
            self.connection.wake_reader();
        }
        if self.when_upgraded.is_some()
            && self.connection.is_upgraded()
            && let Some(call) = self.when_upgraded.take()
        {
            call(&self.stream);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PhaseSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = room.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, room);
        if read.is_ready() {
            if room.filled().len() > before {
                self.connection.bytes_arrive();
            }
            return read;
        }
        *self.connection.reader.lock() = Some(cx.waker().clone());
        self.poll_deadline(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PhaseSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::poll_immediate;
    use std::net::{IpAddr, Ipv4Addr};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    const HEAD: Duration = Duration::from_secs(10);

    fn address(last: u8) -> Option<IpKey> {
        Some(IpAddr::V4(Ipv4Addr::new(203, 0, 113, last)).into())
    }

    fn connection(last: u8) -> Arc<HttpConnection> {
        HttpConnection::new(HEAD, address(last), ConnectionPlaces::default())
    }

    fn answer(connection: &Arc<HttpConnection>, long_idle: Option<&Arc<IdleConnections>>) {
        connection.request_begins();
        let (connection, long_idle) = (Arc::clone(connection), long_idle.cloned());
        drop(AnsweringBody { body: Body::empty(), connection, long_idle });
    }

    /// How long the connection may stay silent from now on.
    fn patience(connection: &HttpConnection) -> Option<u64> {
        let left = connection.deadline()?.saturating_duration_since(Instant::now());
        Some(left.as_secs_f64().round() as u64)
    }

    #[tokio::test]
    async fn a_head_a_pause_and_a_pause_after_an_advertisement_have_their_own_limits() {
        let one = connection(1);
        assert_eq!(patience(&one), Some(10));
        answer(&one, None);
        assert_eq!(patience(&one), Some(10));
        answer(&one, Some(&Arc::default()));
        assert_eq!(patience(&one), Some(300));
        one.bytes_arrive();
        assert_eq!(patience(&one), Some(10), "a head has begun");
        one.request_begins();
        assert_eq!(patience(&one), None);
        one.upgrade();
        one.answer_ends(HEAD);
        assert_eq!(patience(&one), None);
    }

    #[tokio::test]
    async fn a_socket_fails_at_its_deadline_but_not_while_an_answer_is_on_its_way() {
        let (near, _far) = tokio::io::duplex(1);
        let short =
            HttpConnection::new(Duration::from_millis(20), None, ConnectionPlaces::default());
        let mut socket = PhaseSocket::new(near, short);
        socket.write_all(b"1").await.unwrap();
        assert!(poll_immediate(socket.write_u8(2)).await.is_none(), "the peer takes nothing");
        assert!(poll_immediate(socket.read_u8()).await.is_none());
        assert!(socket.alarm.is_none());
        socket.is_write_pending = false;
        let end = timeout(Duration::from_secs(20), socket.read_u8()).await.unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_read_that_began_before_the_answer_ended_fails_at_the_deadline() {
        let (near, _far) = tokio::io::duplex(64);
        let short =
            HttpConnection::new(Duration::from_millis(20), None, ConnectionPlaces::default());
        let mut socket = PhaseSocket::new(near, Arc::clone(&short));
        short.request_begins();
        let reading = tokio::spawn(async move { socket.read_u8().await });
        while short.reader.lock().is_none() {
            tokio::task::yield_now().await;
        }
        short.answer_ends(Duration::from_millis(20));
        let end = timeout(Duration::from_secs(20), reading).await.unwrap().unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn the_longest_listed_idle_connection_of_an_address_is_closed_first() {
        let idle = Arc::<IdleConnections>::default();
        let all = [connection(1), connection(2), connection(1), connection(1)];
        all.iter().for_each(|it| answer(it, Some(&idle)));
        all[0].request_begins();
        let closed = || all.each_ref().map(|it| it.hang_up.is_cancelled());
        assert!(idle.close_one(address(1)));
        assert_eq!(closed(), [false, false, true, false]);
        assert!(idle.close_one(None));
        assert_eq!(closed(), [false, true, true, false]);
        assert!(!idle.close_one(address(2)), "it has none any more");
        assert!(idle.close_one(address(1)));
        assert!(!idle.close_one(None), "a connection at work is left alone");
    }

    #[tokio::test]
    async fn an_address_without_room_closes_no_connection_of_another_one() {
        let idle = Arc::<IdleConnections>::default();
        let other = connection(2);
        answer(&other, Some(&idle));
        let is_closed = || other.hang_up.is_cancelled();
        let visit = |ip: IpKey| if Some(ip) == address(1) { Err("too many") } else { Ok(()) };
        let seat = || is_closed().then_some(());
        assert_eq!(idle.make_room(address(1), visit, seat), Err("too many"));
        assert!(!is_closed());
        assert_eq!(idle.make_room(address(3), visit, seat), Ok((Some(()), Some(()))));
        assert!(is_closed());
    }
}
