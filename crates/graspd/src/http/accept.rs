//! The accept loop and the requests it brings. A client that dawdles over its headers is dropped
//! (`idle.rs`). Running out of descriptors slows the loop down and never ends it.

use crate::config::HttpLimits;
use crate::http::address::is_trusted;
use crate::http::git::{self, Guest};
use crate::http::idle::{
    AnsweringBody, ConnectionPlaces, HttpConnection, IdleConnections, PhaseSocket,
};
use crate::http::live::Visitor;
use crate::http::relay::Conversation;
use crate::http::respond::{self, Answer, busy, empty, finished};
use crate::http::route::{Route, Step};
use crate::http::unstuck::Unstuck;
use crate::http::{api, pages};
use crate::ingest::{held_figures, refused};
use crate::ledger;
use crate::metrics::{self, FullTable, Gathered};
use crate::node::{Node, Ready, Visit};
use crate::outbound::Instance;
use crate::report;
use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use grasp_core::RepoId;
use grasp_git::{Service, advertise};
use grasp_relay::{IpKey, Refused};
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// After a failed accept, most likely for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes the kernel takes before it has sent them: more would look as if the client had them.
const UNSENT_BYTES_MAX: u32 = 256 << 10;
/// The kernel's own limit, for WebSockets: a client may send thousands of events before it reads its OKs.
const UNSENT_BYTES_DEFAULT: u32 = 0;
/// That door is the operator's own.
const OPERATOR_IDLE: Duration = Duration::from_secs(60 * 60);
const NO_DUMB_HTTP: &str = "this server speaks git's smart protocol only: ask with \
    ?service=git-upload-pack or ?service=git-receive-pack";

pub async fn serve(listener: TcpListener, node: Arc<Node>, http: HttpLimits) {
    let listening = Listening { node, http, idle: Arc::default() };
    loop {
        let accepted = tokio::select! {
            () = listening.node.closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => listening.welcome(stream, peer),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Listening {
    node: Arc<Node>,
    http: HttpLimits,
    idle: Arc<IdleConnections>,
}

impl Listening {
    /// One more visitor: counted against its address until it leaves.
    fn welcome(&self, stream: TcpStream, peer: SocketAddr) {
        let Self { node, http, idle } = self;
        // A trusted proxy speaks for many addresses; those are counted when their requests come.
        let behind_proxy = is_trusted(peer.ip().to_canonical(), &node.trusted_proxies);
        let address: Option<IpKey> = (!behind_proxy).then(|| peer.ip().into());
        let places = match self.places(address) {
            Ok(places) => places,
            Err(why) => return refuse(&stream, &why),
        };
        let _ = stream.set_nodelay(true);
        limit_unsent_bytes(&stream, UNSENT_BYTES_MAX);
        let connection = HttpConnection::new(http.header_timeout, address, places);
        let caller = Caller {
            node: Arc::clone(node),
            peer: peer.ip(),
            behind_proxy,
            connection: Arc::clone(&connection),
            idle: Arc::clone(idle),
            requests_left: Arc::new(AtomicU64::new(http.requests_per_connection_max)),
        };
        let service = service_fn(move |request| {
            let caller = caller.clone();
            async move { Ok::<_, Infallible>(caller.answer(request).await) }
        });
        let hang_up = connection.hang_up.clone();
        let socket = PhaseSocket::new(stream, Arc::clone(&connection))
            .when_upgraded(|stream| limit_unsent_bytes(stream, UNSENT_BYTES_DEFAULT));
        let connection = hyper::server::conn::http1::Builder::new()
            // The limits of `idle.rs` apply.
            .header_read_timeout(None)
            .max_buf_size(http.header_bytes_max.max(8 << 10))
            .max_headers(http.headers_max)
            .serve_connection(TokioIo::new(Unstuck::new(socket, connection)), service)
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

    /// Room for one more connection.
    fn places(&self, address: Option<IpKey>) -> Result<ConnectionPlaces, String> {
        let Self { node, idle, .. } = self;
        let (visit, seat) = idle
            .make_room(address, |ip| node.visit(ip), || node.seat())
            .map_err(|why| why.to_string())?;
        let Some(seat) = seat else {
            node.metrics.full.refused(FullTable::Connections, node.clock.now());
            return Err("the server is full".to_owned());
        };
        Ok(ConnectionPlaces { seat: Some(seat), visit })
    }
}

fn limit_unsent_bytes(stream: &TcpStream, bytes_max: u32) {
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes_max);
}

/// A proxy and this server could each believe another of them.
const TWO_HOSTS: &str = "this request has more than one Host header; send exactly one";

/// A request that came by the operator's own door: the same answer as everybody gets.
pub async fn for_operator(node: &Arc<Node>, request: Request<Incoming>) -> Answer {
    let caller = Caller {
        node: Arc::clone(node),
        peer: IpAddr::from([127, 0, 0, 1]),
        behind_proxy: false,
        // That door has few enough places of its own, and a server full of visitors is when it is
        // needed.
        connection: HttpConnection::new(OPERATOR_IDLE, None, ConnectionPlaces::default()),
        idle: Arc::default(),
        requests_left: Arc::new(AtomicU64::new(u64::MAX)),
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

#[derive(Clone)]
struct Caller {
    node: Arc<Node>,
    peer: IpAddr,
    behind_proxy: bool,
    connection: Arc<HttpConnection>,
    idle: Arc<IdleConnections>,
    requests_left: Arc<AtomicU64>,
}

impl Caller {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.connection.request_begins();
        let node = &self.node;
        let base_path = node.service.base_path();
        let route = Route::parse(request.method(), request.uri(), request.headers(), base_path);
        let hosts = request.headers().get_all(header::HOST).iter().count();
        // Only git's posts are read. Any other request that brings a body gets its answer and the
        // door.
        let is_read = matches!(route, Route::Git(_, Step::Post(_)));
        let is_last = self.requests_left.fetch_sub(1, Ordering::Relaxed) <= 1
            || (!is_read && !request.body().is_end_stream())
            || hosts > 1;
        let is_head = request.method() == Method::HEAD;
        let is_advertisement = matches!(route, Route::Git(_, Step::InfoRefs(Service::ReceivePack)));
        let answer = match hosts {
            0 | 1 => self.handle(route, request).await,
            _ => respond::line(StatusCode::BAD_REQUEST, TWO_HOSTS),
        };
        let mut answer = finished(answer);
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.connection.upgrade();
            return answer;
        }
        if is_last {
            let close = header::HeaderValue::from_static("close");
            answer.headers_mut().insert(header::CONNECTION, close);
        }
        let answer = if is_head { without_body(answer) } else { answer };
        let is_long = is_advertisement && answer.status() == StatusCode::OK;
        let long_idle = is_long.then(|| Arc::clone(&self.idle));
        let connection = Arc::clone(&self.connection);
        answer.map(|body| axum::body::Body::new(AnsweringBody { body, connection, long_idle }))
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
            Route::BadApi(why) => api::malformed(&why),
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
        let ip = self.node.client_address(self.peer, headers);
        let is_exempt = self.node.budgets.lock().is_exempt(ip);
        Ok(Visitor { ip: (!is_exempt).then_some(ip), visit: self.visit(ip)? })
    }

    fn guest(&self, repo: RepoId, headers: &HeaderMap) -> Result<Guest, Refused> {
        let ip = self.node.client_address(self.peer, headers);
        let visit = self.visit(ip)?.map(Arc::new);
        let (node, hang_up) = (Arc::clone(&self.node), self.connection.hang_up.clone());
        Ok(Guest { node, repo, ip, hang_up, visit })
    }

    /// The socket itself was counted when it came, unless it came through a proxy.
    fn visit(&self, ip: IpKey) -> Result<Option<Visit>, Refused> {
        if self.behind_proxy { self.node.visit(ip).map(Some) } else { Ok(None) }
    }

    async fn metrics(&self) -> Answer {
        let node = &self.node;
        let figures = node.figures().await;
        self.count_refused().await;
        self.sum_up_ledger().await;
        if let Some(status) = report::status(node).await {
            node.metrics.tell_problems(&status.problem_details);
        }
        self.count_held().await;
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

    /// How full the table of held events is.
    async fn count_held(&self) {
        let (node, table) = (&self.node, self.node.limits.held_table);
        let figures = node.readers.ask(move |store| held_figures(&*store.read()?, table));
        if let Ok(Ok(figures)) = figures.await {
            node.metrics.held.tell(&figures);
        }
    }

    /// How other servers stand, now.
    async fn sum_up_ledger(&self) {
        let node = &self.node;
        let (now, age_max) = (node.clock.wall(), node.reports.identity.verdict_age_max);
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
        // The library takes any key, and an empty one proves nothing to its client.
        if request.headers().get(header::SEC_WEBSOCKET_KEY).is_some_and(HeaderValue::is_empty) {
            return respond::line(StatusCode::BAD_REQUEST, "the Sec-WebSocket-Key is empty");
        }
        let (mut parts, _) = request.into_parts();
        let ip = node.client_address(self.peer, &parts.headers);
        let visit = match self.visit(ip) {
            Ok(visit) => visit,
            Err(why) => return busy(&why.to_string()),
        };
        let Some(chair) = node.chair() else {
            node.metrics.full.refused(FullTable::Connections, node.clock.now());
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
        let (node, connection) = (Arc::clone(node), Arc::clone(&self.connection));
        upgrade
            .read_buffer_size(8 << 10)
            .write_buffer_size(8 << 10)
            .max_message_size(message_max)
            .max_frame_size(message_max)
            .on_upgrade(move |socket| async move {
                let _kept_until_the_end = (connection, visit, chair);
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
