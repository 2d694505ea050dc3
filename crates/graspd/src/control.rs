//! The operator's door: a socket in the data root that nobody but the owner of the data can open. It
//! answers whatever the port answers, and takes the few requests that change something.
//! Invariant: the socket is open to nobody else, not even for the moment in which it is made.

use crate::http::accept;
use crate::http::respond::{self, Answer, busy};
use crate::node::Node;
use crate::report;
use crate::report::when::clock;
use crate::sync::Watch;
use axum::body::{Body, to_bytes};
use grasp_core::{RelayUrl, RepoId, Time};
use grasp_engine::{RelayView, Wait};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// In the relay's data root.
pub const SOCKET: &str = "control.sock";
/// Where a comparison with others is asked for.
pub const SYNC: &str = "/control/v1/sync";
/// Where it is asked how far that comparison is; the request is the same.
pub const SYNC_PROGRESS: &str = "/control/v1/sync/progress";
/// A private room in which the socket is made, and its name there.
const ROOM: &str = "control.new";
const IN_ROOM: &str = "control.new/s";
/// What fits into the address of a socket, and the zero behind it.
const SOCKET_PATH_MAX: usize = 107;
const CALLERS_MAX: usize = 8;
const BODY_BYTES_MAX: usize = 4 << 10;
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
const BODY_TIME_MAX: Duration = Duration::from_secs(5);
/// One caller with all its requests.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What to compare now; nothing means everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// `<npub>/<identifier>`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncStarted {
    /// How many relays are asked.
    pub relays: usize,
}

/// How far a comparison is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SyncProgress {
    pub relays: usize,
    /// Relays that were asked for everything and compared.
    pub done: usize,
    /// Relays that could not be compared now, each with the reason.
    pub failed: Vec<RelayNote>,
    /// Relays with which it goes on.
    pub under_way: Vec<RelayNote>,
}

/// A relay and a word about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayNote {
    pub relay: String,
    pub why: String,
}

impl SyncProgress {
    /// Of these relays. Pure.
    fn of(views: &[RelayView], now: Time) -> Self {
        let mut it = Self { relays: views.len(), ..Self::default() };
        for view in views {
            let note = |why: String| RelayNote { relay: view.relay.to_string(), why };
            let later = |words: &str, until: Time| note(format!("{words} {}", clock(until, now)));
            match view.waits {
                Some(Wait::Ourselves) => it.done += 1,
                Some(Wait::NotFollowed { .. }) => it.failed.push(note("is not followed".into())),
                None if view.settled && view.no_room => {
                    it.failed.push(note("has events for which this server has no room now".into()));
                }
                None if view.settled => it.done += 1,
                None if !view.connected => it.under_way.push(note("is being dialled".into())),
                None => {
                    let left = view.missing + view.pending;
                    it.under_way.push(note(format!("{left} questions are left, or a comparison")));
                }
                Some(Wait::Place) => it.under_way.push(note("waits for a free link".into())),
                Some(Wait::Address) => {
                    it.under_way.push(note("waits for its turn at its network address".into()));
                }
                Some(Wait::Retry { until }) => {
                    it.failed.push(later("cannot be reached; tried again at", until));
                }
                Some(Wait::Cooldown { until }) => {
                    it.failed.push(later("asked this server to slow down until", until));
                }
                Some(Wait::Pause { until }) => {
                    it.failed.push(later("refuses the questions of this server until", until));
                }
                Some(Wait::Unanswered { until }) => {
                    it.failed.push(later("left questions unanswered; asked again at", until));
                }
            }
        }
        it
    }
}

/// The open door; the socket goes with it.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// For whoever holds the lock of this data root: a socket that is there already is nobody's.
    pub fn open(root: &Path) -> io::Result<Self> {
        let (room, path) = (root.join(ROOM), root.join(SOCKET));
        if let Err(error) = fs::remove_dir_all(&room)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        DirBuilder::new().mode(0o700).create(&room)?;
        let near = Near::to(root, IN_ROOM)?;
        let listener = UnixListener::bind(&near.path)?;
        fs::set_permissions(&near.path, Permissions::from_mode(0o600))?;
        fs::rename(&near.path, &path)?;
        fs::remove_dir(&room)?;
        Ok(Self { listener, path })
    }

    /// Until the server begins to stop.
    pub async fn serve(self, node: Arc<Node>) {
        let places = Arc::new(Semaphore::new(CALLERS_MAX));
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = node.closing.cancelled() => return,
                next = next => next,
            };
            match accepted {
                Ok((stream, _)) => {
                    let node = Arc::clone(&node);
                    node.tasks.clone().spawn(async move {
                        let _kept_until_the_end = place;
                        attend(stream, node).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a caller on the control socket");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Whoever starts next replaces it anyway.
        let _ = fs::remove_file(&self.path);
    }
}

/// A path that fits into the address of a socket, however deep the data root lies.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) path: PathBuf,
    /// What the path leads through.
    _root: Option<File>,
}

impl Near {
    pub(crate) fn to(root: &Path, name: &str) -> io::Result<Self> {
        let path = root.join(name);
        if path.as_os_str().len() <= SOCKET_PATH_MAX {
            return Ok(Self { path, _root: None });
        }
        let root = File::open(root)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", root.as_raw_fd()));
        Ok(Self { path, _root: Some(root) })
    }
}

async fn attend(stream: UnixStream, node: Arc<Node>) {
    let closing = node.closing.clone();
    let service = service_fn(move |request| {
        let node = Arc::clone(&node);
        async move { Ok::<_, Infallible>(answer(&node, request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(16 << 10)
        .max_headers(32)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = async {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    };
    let _ = timeout(CALL_TIME_MAX, served).await;
}

async fn answer(node: &Arc<Node>, request: Request<Incoming>) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::POST, SYNC | SYNC_PROGRESS) => sync_now(node, request).await,
        (&Method::GET, _) => match below_base(request, node.service.base_path()) {
            Some(request) => accept::for_operator(node, request).await,
            None => respond::line(StatusCode::BAD_REQUEST, "this is not a path"),
        },
        _ => respond::line(StatusCode::METHOD_NOT_ALLOWED, "this is not done here"),
    }
}

/// Callers need not know under which path the public finds us.
fn below_base(mut request: Request<Incoming>, base_path: &str) -> Option<Request<Incoming>> {
    let place = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let uri: Uri = format!("{base_path}{place}").parse().ok()?;
    *request.uri_mut() = uri;
    Some(request)
}

async fn sync_now(node: &Arc<Node>, request: Request<Incoming>) -> Answer {
    let is_order = request.uri().path() == SYNC;
    let body = to_bytes(Body::new(request.into_body()), BODY_BYTES_MAX);
    let Ok(Ok(body)) = timeout(BODY_TIME_MAX, body).await else {
        return respond::line(StatusCode::BAD_REQUEST, "the request could not be read");
    };
    let what = serde_json::from_slice::<SyncRequest>(&body).map_err(|error| error.to_string());
    match what.and_then(|what| Occasion::parse(&what)) {
        Ok(occasion) if is_order => refreshed(node, &occasion).await,
        Ok(occasion) => progressed(node, &occasion).await,
        Err(why) => respond::line(StatusCode::BAD_REQUEST, &why),
    }
}

/// A request that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Occasion {
    Everything,
    Relay(RelayUrl),
    Repository(RepoId),
}

impl Occasion {
    fn parse(what: &SyncRequest) -> Result<Self, String> {
        match (&what.relay, &what.repository) {
            (None, None) => Ok(Self::Everything),
            (Some(relay), None) => {
                let relay = relay.parse().map_err(|_| "this is not the address of a relay")?;
                Ok(Self::Relay(relay))
            }
            (None, Some(repo)) => crate::ops::place::repository(repo).map(Self::Repository),
            (Some(_), Some(_)) => Err("name a relay or a repository, not both".to_owned()),
        }
    }
}

async fn refreshed(node: &Arc<Node>, occasion: &Occasion) -> Answer {
    let (watch, relays) = match concerned(node, occasion).await {
        Ok(found) => found,
        Err(refusal) => return *refusal,
    };
    let (relay, repo) = match occasion.clone() {
        Occasion::Everything => (None, None),
        Occasion::Relay(relay) => (Some(relay), None),
        Occasion::Repository(repo) => (None, Some(repo)),
    };
    watch.refresh(relay, repo).await;
    json(&SyncStarted { relays: relays.len() })
}

async fn progressed(node: &Arc<Node>, occasion: &Occasion) -> Answer {
    match concerned(node, occasion).await {
        Ok((_, relays)) => json(&SyncProgress::of(&relays, node.clock.wall())),
        Err(refusal) => *refusal,
    }
}

fn json(shape: &impl Serialize) -> Answer {
    // Numbers and text always serialise.
    let json = serde_json::to_string(shape).unwrap_or_default();
    respond::text(StatusCode::OK, "application/json", json)
}

/// The relays that it is about, as they are now.
async fn concerned<'a>(
    node: &'a Arc<Node>,
    occasion: &Occasion,
) -> Result<(&'a Watch, Vec<RelayView>), Box<Answer>> {
    let refused = |why| Box::new(respond::line(StatusCode::UNPROCESSABLE_ENTITY, why));
    let Some(watch) = node.sync.get() else {
        let why = "this server does not sync with others; set NGIT_SYNC_ENABLED=true";
        return Err(Box::new(busy(why)));
    };
    let named = match occasion {
        Occasion::Repository(repo) => Some(relays_of(node, repo).await.map_err(refused)?),
        Occasion::Everything | Occasion::Relay(_) => None,
    };
    let stopping = "the server is stopping";
    let (_, mut relays) = watch.relays().await.ok_or_else(|| refused(stopping))?;
    // Other addresses of the same host are asked in their place.
    relays.retain(|view| !matches!(view.waits, Some(Wait::NotFollowed { .. })));
    relays.retain(|view| match (occasion, &named) {
        (Occasion::Relay(relay), _) => view.relay == *relay,
        (_, Some(named)) => named.contains(&view.relay),
        (_, None) => true,
    });
    if matches!(occasion, Occasion::Relay(_)) && relays.is_empty() {
        return Err(refused("this relay is not followed; see `graspd relays`"));
    }
    Ok((watch, relays))
}

async fn relays_of(node: &Arc<Node>, repo: &RepoId) -> Result<Vec<RelayUrl>, &'static str> {
    let report = report::repo(node, repo).await.ok_or("the server is stopping")?;
    let report = report.ok_or("there is no such repository here")?;
    let relays = report.mirrors.iter().filter_map(|mirror| mirror.relay.as_ref());
    Ok(relays.filter_map(|relay| relay.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_ours_alone_replaces_a_stale_one_and_goes_with_the_server() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(SOCKET);
        drop(UnixListener::bind(&path).unwrap());
        fs::create_dir(root.path().join(ROOM)).unwrap();
        let control = Control::open(root.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!root.path().join(ROOM).exists());
        assert!(UnixStream::connect(&path).await.is_ok());
        drop(control);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_data_root_may_lie_deeper_than_the_address_of_a_socket_is_long() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("x".repeat(120));
        fs::create_dir(&root).unwrap();
        let _control = Control::open(&root).unwrap();
        let near = Near::to(&root, SOCKET).unwrap();
        assert!(UnixStream::connect(&near.path).await.is_ok());
    }

    #[test]
    fn a_sync_is_asked_for_a_relay_a_repository_or_everything() {
        let parse = |json: &str| {
            let what = serde_json::from_str::<SyncRequest>(json).map_err(|it| it.to_string());
            what.and_then(|what| Occasion::parse(&what))
        };
        assert_eq!(parse("{}"), Ok(Occasion::Everything));
        let relay = parse(r#"{"relay":"wss://relay.example"}"#);
        assert_eq!(relay, Ok(Occasion::Relay("wss://relay.example".parse().unwrap())));
        let owner = grasp_core::PubKey::from_bytes([7; 32]);
        let repo = RepoId { owner, identifier: "acme".parse().unwrap() };
        let asked = format!(r#"{{"repository":"{repo}"}}"#);
        assert_eq!(parse(&asked), Ok(Occasion::Repository(repo)));
        for wrong in [
            r#"{"relay":"http://x"}"#,
            r#"{"repository":"acme"}"#,
            r#"{"relay":"wss://a.example","repository":"b"}"#,
            r#"{"relays":"wss://a.example"}"#,
            "[]",
            "",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
