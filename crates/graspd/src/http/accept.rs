//! The accept loop and the requests it brings. Timers are on: a client that dawdles over its
//! headers is dropped. Running out of descriptors slows the loop down and never ends it.

use crate::config::HttpLimits;
use crate::http::address::{self, is_trusted};
use crate::http::git::{self, Guest};
use crate::http::live::Visitor;
use crate::http::relay::Conversation;
use crate::http::respond::{self, Answer, busy, empty, finished};
use crate::http::route::{Route, Step};
use crate::http::unstuck::Unstuck;
use crate::http::{api, pages};
use crate::ingest::refused;
use crate::ledger;
use crate::metrics::{self, Gathered};
use crate::node::{Node, Ready, Seat, Visit};
use crate::outbound::Instance;
use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use grasp_core::RepoId;
use grasp_git::advertise;
use grasp_relay::{IpKey, Refused};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// After a failed accept, most likely for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// For a peer that takes nothing of what it asked for; a full buffer on a slow line needs a while.
const STUCK_MAX: Duration = Duration::from_secs(60);
const NO_DUMB_HTTP: &str = "this server speaks git's smart protocol only: ask with \
    ?service=git-upload-pack or ?service=git-receive-pack";

pub async fn serve(listener: TcpListener, node: Arc<Node>, http: HttpLimits) {
    loop {
        let accepted = tokio::select! {
            () = node.closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => welcome(stream, peer, &node, &http),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One more visitor: counted against its address until it leaves.
fn welcome(stream: TcpStream, peer: SocketAddr, node: &Arc<Node>, http: &HttpLimits) {
    // A trusted proxy speaks for many addresses; those are counted when their requests come.
    let behind_proxy = is_trusted(peer.ip().to_canonical(), &node.trusted_proxies);
    let Some(seat) = node.seat() else { return refuse(&stream, "the server is full") };
    let visit = if behind_proxy { None } else { Some(node.visit(peer.ip().into())) };
    let visit = match visit.transpose() {
        Ok(visit) => visit,
        Err(why) => return refuse(&stream, &why.to_string()),
    };
    let _ = stream.set_nodelay(true);
    let hang_up = CancellationToken::new();
    let caller = Caller {
        node: Arc::clone(node),
        peer: peer.ip(),
        guests: Arc::new(Guests::Visitor(seat, visit)),
        requests_left: Arc::new(AtomicU64::new(http.requests_per_connection_max)),
        hang_up: hang_up.clone(),
    };
    let service = service_fn(move |request| {
        let caller = caller.clone();
        async move { Ok::<_, Infallible>(caller.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(http.header_timeout)
        .max_buf_size(http.header_bytes_max.max(8 << 10))
        .max_headers(http.headers_max)
        .serve_connection(TokioIo::new(Unstuck::new(stream, STUCK_MAX)), service)
        .with_upgrades();
    let closing = node.closing.clone();
    node.tasks.spawn(async move {
        let mut connection = std::pin::pin!(connection);
        // Peers hang up in the middle of things all day long; neither end is an error of ours.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = hang_up.cancelled() => return,
            () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = hang_up.cancelled() => {}
        }
    });
}

/// A request that came by the operator's own door: the same answer as everybody gets.
pub async fn for_operator(node: &Arc<Node>, request: Request<Incoming>) -> Answer {
    let caller = Caller {
        node: Arc::clone(node),
        peer: IpAddr::from([127, 0, 0, 1]),
        guests: Arc::new(Guests::Operator),
        requests_left: Arc::new(AtomicU64::new(u64::MAX)),
        hang_up: CancellationToken::new(),
    };
    caller.answer(request).await
}

/// Tells why in a few bytes, if the socket takes them at once.
fn refuse(stream: &TcpStream, why: &str) {
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\nAccess-Control-Allow-Origin: *\r\nRetry-After: 30\r\n\
         Content-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{why}\n",
        why.len() + 1
    );
    let _ = stream.try_write(text.as_bytes());
}

/// The places a connection takes up. The operator's own door has few enough of its own, and a server
/// full of visitors is when it is needed.
enum Guests {
    Visitor(#[expect(dead_code, reason = "held until the connection ends")] Seat, Option<Visit>),
    Operator,
}

#[derive(Clone)]
struct Caller {
    node: Arc<Node>,
    peer: IpAddr,
    guests: Arc<Guests>,
    requests_left: Arc<AtomicU64>,
    /// For a peer that is not worth waiting for any longer.
    hang_up: CancellationToken,
}

impl Caller {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let node = &self.node;
        let base_path = node.service.base_path();
        let route = Route::parse(request.method(), request.uri(), request.headers(), base_path);
        // Only git's posts are read. Any other request that brings a body gets its answer and the
        // door.
        let is_read = matches!(route, Route::Git(_, Step::Post(_)));
        let is_last = self.requests_left.fetch_sub(1, Ordering::Relaxed) <= 1
            || (!is_read && !request.body().is_end_stream());
        let is_head = request.method() == Method::HEAD;
        let mut answer = finished(self.handle(route, request).await);
        if is_last && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = header::HeaderValue::from_static("close");
            answer.headers_mut().insert(header::CONNECTION, close);
        }
        if is_head { without_body(answer) } else { answer }
    }

    async fn handle(&self, route: Route, request: Request<Incoming>) -> Answer {
        let node = &self.node;
        match route {
            Route::Preflight => empty(StatusCode::NO_CONTENT),
            Route::Socket => self.upgrade(request).await,
            Route::Info => {
                let json = node.info.clone();
                respond::text(StatusCode::OK, "application/nostr+json", json)
            }
            Route::Landing
            | Route::Api(_)
            | Route::Relays(_)
            | Route::Repos(_)
            | Route::Purgatory(_) => match self.visitor(request.headers()) {
                Ok(visitor) => tell(node, route, request.headers(), visitor).await,
                Err(why) => busy(&why.to_string()),
            },
            Route::Names => {
                let names = format!("{{\"names\":{{\"_\":\"{}\"}}}}", node.rules.relay_key);
                respond::text(StatusCode::OK, "application/json", names)
            }
            Route::Metrics if node.metrics_enabled => self.metrics().await,
            Route::NoApi => api::nothing_here(),
            Route::Asset(name) => pages::asset(&node.site, &name, request.headers()),
            Route::Health => respond::line(StatusCode::OK, "ok"),
            Route::Ready => match node.ready().await {
                Ready::Yes => respond::line(StatusCode::OK, "ready"),
                Ready::No(why) => busy(&why),
            },
            Route::Repository(repo) => match self.guest(repo, request.headers()) {
                Ok(guest) => guest.page().await,
                Err(why) => busy(&why.to_string()),
            },
            Route::Git(..) if node.instance.is_named_in(request.headers()) => {
                git::unread(request, ourselves(&node.instance)).await
            }
            Route::Git(repo, step) => match self.guest(repo, request.headers()) {
                Ok(guest) => guest.answer(step, request).await,
                Err(why) => git::unread(request, busy(&why.to_string())).await,
            },
            Route::DumbHttp => respond::line(StatusCode::FORBIDDEN, NO_DUMB_HTTP),
            Route::WrongType(service) => {
                let kind = advertise::request_type(service);
                let why = format!("this place reads {kind}; send the request as that");
                let refusal = respond::line(StatusCode::UNSUPPORTED_MEDIA_TYPE, &why);
                git::unread(request, refusal).await
            }
            Route::NotAllowed(allow) => {
                let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
                let allow = header::HeaderValue::from_static(allow);
                answer.headers_mut().insert(header::ALLOW, allow);
                answer
            }
            Route::NotFound | Route::Metrics => pages::not_found(&node.site),
        }
    }

    /// Whoever reads: counted with the others of its address, until it has its answer.
    fn visitor(&self, headers: &HeaderMap) -> Result<Visitor, Refused> {
        let ip: IpKey = address::client(self.peer, headers, &self.node.trusted_proxies).into();
        let is_exempt = self.node.budgets.lock().is_exempt(ip);
        Ok(Visitor { ip: (!is_exempt).then_some(ip), visit: self.visit(ip)? })
    }

    fn guest(&self, repo: RepoId, headers: &HeaderMap) -> Result<Guest, Refused> {
        let ip: IpKey = address::client(self.peer, headers, &self.node.trusted_proxies).into();
        let visit = self.visit(ip)?.map(Arc::new);
        let (node, hang_up) = (Arc::clone(&self.node), self.hang_up.clone());
        Ok(Guest { node, repo, ip, hang_up, visit })
    }

    /// The socket itself was counted when it came, unless it came through a proxy.
    fn visit(&self, ip: IpKey) -> Result<Option<Visit>, Refused> {
        match &*self.guests {
            Guests::Visitor(_, None) => self.node.visit(ip).map(Some),
            Guests::Visitor(_, Some(_)) | Guests::Operator => Ok(None),
        }
    }

    async fn metrics(&self) -> Answer {
        let node = &self.node;
        let figures = node.figures().await;
        self.count_refused().await;
        self.sum_up_ledger().await;
        let page = node.metrics.render(&Gathered {
            uptime_secs: node.uptime().as_secs(),
            repositories: figures.repositories,
            store_used_bytes: figures.store_used_bytes,
            store_budget_bytes: figures.store_budget_bytes,
            crowd: node.budgets.lock().crowd(node.limits.crowded_connections),
            busiest: node.turnstile.busiest(),
        });
        respond::text(StatusCode::OK, metrics::CONTENT_TYPE, page)
    }

    /// How other servers stand, now.
    async fn sum_up_ledger(&self) {
        let node = &self.node;
        let (now, age_max) = (node.clock.now(), node.reports.identity.verdict_age_max);
        let sum = node.readers.ask(move |store| ledger::summary(&*store.read()?, now, age_max));
        if let Ok(Ok(sum)) = sum.await {
            node.metrics.ledger.tell(&sum);
        }
    }

    /// Events that may still get a second chance: whole, and by id.
    async fn count_refused(&self) {
        let node = &self.node;
        let cold = node.readers.ask(|store| refused::counts(&*store.read()?));
        let Ok(Ok(cold)) = cold.await else { return };
        let shown = &node.metrics.refused;
        shown.kept(node.second_chance.sizes().into(), cold.into());
        shown.whole_expired(node.second_chance.take_expired().into());
    }

    async fn upgrade(&self, request: Request<Incoming>) -> Answer {
        let node = &self.node;
        if node.closing.is_cancelled() {
            return busy("the server is stopping");
        }
        if node.instance.is_named_in(request.headers()) {
            return ourselves(&node.instance);
        }
        let (mut parts, _) = request.into_parts();
        let ip: IpKey = address::client(self.peer, &parts.headers, &node.trusted_proxies).into();
        let visit = match self.visit(ip) {
            Ok(visit) => visit,
            Err(why) => return busy(&why.to_string()),
        };
        let Some(chair) = node.chair() else {
            return busy("all connections of this relay are in use");
        };
        let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
            Ok(upgrade) => upgrade,
            Err(rejection) => {
                let why = format!("{}\n", rejection.body_text());
                return respond::text(rejection.status(), "text/plain; charset=utf-8", why);
            }
        };
        let message_max = node.limits.relay.message_bytes_max;
        let (node, guests) = (Arc::clone(node), Arc::clone(&self.guests));
        upgrade
            .read_buffer_size(8 << 10)
            .write_buffer_size(8 << 10)
            .max_message_size(message_max)
            .max_frame_size(message_max)
            .on_upgrade(move |socket| async move {
                let _kept_until_the_end = (guests, visit, chair);
                let challenge = node.challenge();
                node.metrics.connections_total.inc();
                let tasks = node.tasks.clone();
                let talk = Conversation::new(node, socket, ip, challenge).run();
                tasks.track_future(Box::pin(talk)).await;
            })
    }
}

/// What is told about this server, as JSON or as a page.
async fn tell(node: &Arc<Node>, route: Route, headers: &HeaderMap, visitor: Visitor) -> Answer {
    match route {
        Route::Api(asked) => api::answer(node, asked, headers, visitor).await,
        Route::Relays(page) => pages::relays(node, page).await,
        Route::Repos(page) => pages::repos(node, page).await,
        Route::Purgatory(page) => pages::purgatory(node, page).await,
        _ => pages::home(node).await,
    }
}

/// Our own call, by whatever name it came here: what we have is of no use to us.
fn ourselves(instance: &Instance) -> Answer {
    let mut answer = respond::line(StatusCode::CONFLICT, "ourselves");
    answer.headers_mut().insert(Instance::HEADER, instance.header_value());
    answer
}

fn without_body(answer: Answer) -> Answer {
    let (parts, body) = answer.into_parts();
    let len = body.size_hint().exact();
    let mut answer = Answer::from_parts(parts, axum::body::Body::empty());
    if let Some(len) = len {
        answer.headers_mut().insert(header::CONTENT_LENGTH, len.into());
    }
    answer
}
