//! The refs of another server, asked for by HTTP. It is asked no faster than any other place is; whoever
//! has many repositories is compared a little longer.

use super::refs;
use super::verdict::Refs;
use crate::clock::Clock;
use crate::outbound::{Ask, CallError, CallLimits, Caller, Dialer, Rule};
use anyhow::{Context, Result, anyhow, bail};
use grasp_core::{CloneUrl, RepoId, Time};
use grasp_git::fetch::{ADVERT_TYPE, INFO_REFS, is_type};
use hyper::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

pub(super) struct Adverts {
    caller: Caller,
    clock: Arc<Clock>,
    /// Below which the repositories are.
    web: String,
}

/// What a server says when it is asked for the refs of a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advert {
    Listed(Refs),
    /// It has no such repository, or not for us.
    Missing,
    /// In words: what it says where a git server would list refs.
    NotGit(String),
}

const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
const LIST_BYTES_MAX: usize = 16 << 20;
/// For one list, before something else must be wrong.
const WAITS_MAX: usize = 10;
const WAIT_MIN: Duration = Duration::from_millis(10);

impl Adverts {
    pub(super) fn new(dialer: Dialer, limits: CallLimits, web: String) -> Self {
        let clock = Arc::new(Clock::default());
        Self { caller: Caller::new(dialer, Arc::clone(&clock), limits), clock, web }
    }

    /// Silence and trouble are errors: they say nothing about what it has.
    pub(super) async fn advert(&self, repo: &RepoId) -> Result<Advert> {
        let (npub, name) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
        let url: CloneUrl = format!("{}/{npub}/{name}.git", self.web).parse()?;
        for _ in 0..WAITS_MAX {
            let asked = timeout(ANSWER_TIME_MAX, self.ask(&url)).await;
            match asked.context("it does not answer in time")? {
                Ok(advert) => return Ok(advert),
                Err(error) => match crowded(&error) {
                    Some(until) => sleep(until.since(self.clock.now()).max(WAIT_MIN)).await,
                    None => return Err(error),
                },
            }
        }
        bail!("it has all the requests it may have")
    }

    async fn ask(&self, url: &CloneUrl) -> Result<Advert> {
        let ask = Ask { path: INFO_REFS, accept: ADVERT_TYPE, v2: false, body: None };
        let mut connection = self.caller.open(url, Rule::Operator).await?;
        let mut answer = connection.request(&ask).await?;
        if answer.is_closed_to_us() {
            return Ok(Advert::Missing);
        }
        if is_trouble(answer.status) {
            bail!("{}", answer.refusal());
        }
        if !is_type(answer.content_type(), ADVERT_TYPE) {
            return Ok(Advert::NotGit(answer.refusal()));
        }
        let mut list = Vec::new();
        while let Some(piece) = answer.piece().await? {
            list.extend_from_slice(&piece);
            if list.len() > LIST_BYTES_MAX {
                bail!("its list of refs does not end");
            }
        }
        refs::read(&list).map(Advert::Listed).map_err(|why| anyhow!(why))
    }
}

/// A git server that is not well says this, too.
fn is_trouble(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT
}

/// Until when our own manners say to wait.
fn crowded(error: &anyhow::Error) -> Option<Time> {
    match error.downcast_ref()? {
        CallError::Crowded { until } => Some(*until),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::{DialLimits, Instance, StartLimits};
    use grasp_core::PubKey;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_server_with_many_repositories_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let web = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                let _ = caller.read(&mut [0; 4096]).await;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {ADVERT_TYPE}\r\nContent-Length: 4\r\n\
                     Connection: close\r\n\r\n0000"
                );
                let _ = caller.write_all(answer.as_bytes()).await;
            }
        });
        let starts = StartLimits {
            starts_max: 1,
            window: Duration::from_millis(50),
            ..StartLimits::default()
        };
        let dialer = Dialer::new(Instance::random().unwrap(), DialLimits::default()).unwrap();
        let limits = CallLimits { starts, ..CallLimits::default() };
        let adverts = Adverts::new(dialer, limits, web);
        let repo =
            RepoId { owner: PubKey::from_bytes([7; 32]), identifier: "acme".parse().unwrap() };
        for _ in 0..3 {
            assert_eq!(adverts.advert(&repo).await.unwrap(), Advert::Listed(Refs::new()));
        }
    }
}
