//! Git's smart HTTP. What a request means is decided in `route.rs`, what a push may do in
//! `landing.rs`; here bytes move, within bounds. Nothing is read from disk by a name from a URL: the
//! repository must be known by its announcement first.

mod body;
mod inflate;
mod outbound;
mod pace;
mod push;
mod rate;
mod refs;
mod shares;
mod slots;
mod spool;
mod spooled;
mod traffic;
mod upload;

use crate::config::GitLimits;
use crate::host::Host;
use crate::http::pages;
use crate::http::respond::{self, Answer};
use crate::http::route::Step;
use crate::ingest::hosted;
use crate::metrics::FullTable;
use crate::node::{Node, Visit};
use crate::repos::Shown;
use axum::body::Body;
use body::{BadBody, Drain, Encoding, Inbound};
use grasp_core::RepoId;
use grasp_git::{Protocol, Service};
use grasp_relay::IpKey;
use grasp_store::EventStore;
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, StatusCode};
use shares::Payer;
use slots::{Busy, Slots};
use spool::{PackSpool, SPOOL_BYTES_MAX, SpoolPlace};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use traffic::Traffic;

/// Clients listen only once they have said everything; this much is heard before a refusal.
const UNREAD: Drain = Drain { bytes: 1 << 20, time: Duration::from_secs(5) };

/// Readers of spooled answers: each has a connection and less than 256 KiB on its way.
const READERS_MAX: usize = 512;
const READERS_PER_ADDRESS_MAX: u32 = 64;

/// Who gets in, and what moved through.
#[derive(Debug)]
pub struct Turnstile {
    limits: GitLimits,
    uploads: Slots,
    /// Of those who read spooled answers, which takes no git process.
    readers: Slots,
    pushes: Slots,
    spool: PackSpool,
    traffic: Traffic,
    busiest_max: usize,
}

impl Turnstile {
    pub fn new(limits: GitLimits, host: &Host, busiest_max: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let uploads_max = limits.uploads_max.unwrap_or(2 * cores + 2);
        let pushes_max = limits.pushes_max.unwrap_or(cores + 1);
        Self {
            uploads: Slots::new(uploads_max, limits.uploads_per_ip_max, limits.queue_wait),
            readers: Slots::new(READERS_MAX, READERS_PER_ADDRESS_MAX, limits.queue_wait),
            spool: PackSpool::new(SpoolPlace {
                directory: host.layout.tmp(),
                bytes_max: SPOOL_BYTES_MAX,
                disk: host.disk.clone(),
            }),
            pushes: Slots::new(pushes_max, limits.pushes_per_ip_max, limits.queue_wait),
            traffic: Traffic::default(),
            busiest_max,
            limits,
        }
    }

    /// Forgets answers that were not read for a while.
    pub fn sweep(&self) {
        self.spool.sweep(Instant::now());
    }

    /// Resolves once no push is running.
    pub async fn pushes_done(&self) {
        self.pushes.all_free().await;
    }

    /// The repositories that moved the most bytes since the start.
    pub fn busiest(&self) -> Vec<(String, u64)> {
        self.traffic.busiest(self.busiest_max)
    }
}

/// One request's client, and the repository it asks for.
#[derive(Debug, Clone)]
pub struct Guest {
    pub node: Arc<Node>,
    pub repo: RepoId,
    pub ip: IpKey,
    /// Ends the connection, for a client that does not even take our answer.
    pub hang_up: CancellationToken,
    /// Its place among those of its address, if the connection itself has none.
    pub visit: Option<Arc<Visit>>,
}

impl Guest {
    pub async fn answer(self, step: Step, request: Request<Incoming>) -> Answer {
        let now = self.node.clock.now();
        let taken = self.node.budgets.lock().take_git_request(self.ip, now);
        if let Err(why) = taken {
            return unread(request, respond::too_many(&why)).await;
        }
        let shown = match self.look().await {
            Ok(Some(shown)) => shown,
            Ok(None) => return unread(request, pages::no_repository(&self.node.site)).await,
            Err(answer) => return unread(request, answer).await,
        };
        let protocol = protocol(request.headers());
        match step {
            Step::InfoRefs(service) => refs::advertised(&shown, service, protocol),
            Step::Post(service) => self.post(service, protocol, shown, request).await,
        }
    }

    async fn post(
        self,
        service: Service,
        protocol: Protocol,
        shown: Arc<Shown>,
        request: Request<Incoming>,
    ) -> Answer {
        let Some(encoding) = Encoding::of(request.headers()) else {
            let why = "this server reads plain and gzip bodies; send the request as one of them";
            let refusal = respond::line(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
            return unread(request, refusal).await;
        };
        let bytes_max = match service {
            Service::UploadPack => self.node.turnstile.limits.request_bytes_max as u64,
            // Its commands and its pack are measured by those who read them.
            Service::ReceivePack => u64::MAX,
        };
        let body = Inbound::new(Body::new(request.into_body()), encoding, bytes_max);
        match service {
            Service::UploadPack => upload::serve(self, protocol, &shown, body).await,
            Service::ReceivePack => push::serve(self, body).await,
        }
    }

    /// The answer to a request that got no slot. That is a problem of the server unless the address has enough.
    fn without_slot(&self, busy: Busy) -> Answer {
        if matches!(busy, Busy::All | Busy::Queue) {
            self.node.metrics.full.refused(FullTable::GitSlots, self.node.clock.now());
        }
        respond::busy(&busy.to_string())
    }

    /// The page for people at the same address.
    pub async fn page(&self) -> Answer {
        pages::repository(&self.node, &self.repo).await
    }

    /// The repository as visitors see it now; `None` if it is not hosted here.
    async fn look(&self) -> Result<Option<Arc<Shown>>, Answer> {
        let (rules, repos) = (Arc::clone(&self.node.rules), Arc::clone(&self.node.host.repos));
        let repo = self.repo.clone();
        let look = move |store: &dyn EventStore| -> anyhow::Result<_> {
            let hosting = hosted(&*store.read()?, &rules, &repo)?;
            Ok(hosting.map(|_| repos.shown(&repo)).transpose()?)
        };
        match self.node.readers.ask(look).await {
            Ok(Ok(shown)) => Ok(shown),
            Ok(Err(error)) => {
                tracing::error!(repo = %self.repo, %error, "cannot look at a repository");
                let why = "this repository cannot be read at the moment";
                Err(respond::line(StatusCode::INTERNAL_SERVER_ERROR, why))
            }
            Err(_) => Err(respond::busy("the server is stopping")),
        }
    }

    /// Peers on this machine have no budget of their own until a proxy is declared.
    fn payer(&self) -> Payer {
        match self.node.budgets.lock().is_exempt(self.ip) {
            true => Payer::Exempt,
            false => Payer::Address(self.ip.customer_key()),
        }
    }
}

/// The answer to a request whose body nobody will look at.
pub async fn unread(request: Request<Incoming>, answer: Answer) -> Answer {
    let mut body = Inbound::new(Body::new(request.into_body()), Encoding::Identity, u64::MAX);
    // However it ends, this is the answer.
    let _ = body.drain(UNREAD).await;
    answer
}

fn protocol(headers: &HeaderMap) -> Protocol {
    let header = headers.get("git-protocol").and_then(|value| value.to_str().ok());
    Protocol::from_header(header)
}

/// For a request that could not be read before anything was answered.
fn unreadable(bad: &BadBody) -> Answer {
    let status = match bad {
        BadBody::Gone | BadBody::Gzip(_) => StatusCode::BAD_REQUEST,
        BadBody::Slow(_) | BadBody::Late { .. } => StatusCode::REQUEST_TIMEOUT,
        BadBody::Long { .. } => StatusCode::PAYLOAD_TOO_LARGE,
    };
    respond::line(status, &bad.to_string())
}
