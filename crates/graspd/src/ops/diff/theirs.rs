//! The other server's side: asked through the guarded way out, as any client would ask. The operator
//! named it, so it may be anywhere.

use super::ours::by_repository;
use super::talk::Talk;
use super::verdict::Refs;
use super::{Announcements, Item};
use crate::clock::Clock;
use crate::outbound::{Ask, CallLimits, Caller, DialLimits, Dialer, Instance, Rule, Stream};
use anyhow::{Context, Result, anyhow, bail};
use grasp_core::{CloneUrl, Filter, Kind, RelayUrl, RepoId};
use grasp_git::fetch::{ADVERT_TYPE, INFO_REFS, is_type};
use grasp_relay::neg::Difference;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

pub(super) struct Theirs {
    talk: Box<Talk<Stream>>,
    caller: Caller,
    /// Below which the repositories are.
    web: String,
}

const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
const LIST_BYTES_MAX: usize = 16 << 20;

impl Theirs {
    pub(super) async fn open(url: &Url) -> Result<Self> {
        let web = url.as_str().trim_end_matches('/').to_owned();
        let relay: RelayUrl = web.replacen("http", "ws", 1).parse().context("not an address")?;
        let dialer = Dialer::new(Instance::random()?, DialLimits::default())?;
        let clock = Arc::new(Clock::default());
        let caller = Caller::new(dialer.clone(), clock, CallLimits::default());
        let dialled = dialer.dial(&relay, Rule::Operator).await;
        let dialled = dialled.with_context(|| format!("cannot reach {relay}"))?;
        Ok(Self { talk: Box::new(Talk::new(dialled.socket)), caller, web })
    }

    pub(super) async fn announcements(&mut self) -> Result<Announcements> {
        let filter = Filter { kinds: Some(vec![Kind::ANNOUNCEMENT]), ..Filter::default() };
        Ok(by_repository(&self.talk.events(&filter).await?))
    }

    pub(super) async fn differs(&mut self, filter: &Filter, ours: &[Item]) -> Result<Difference> {
        self.talk.differs(filter, ours).await
    }

    /// Nothing, where it has no such repository.
    pub(super) async fn refs(&mut self, repo: &RepoId) -> Result<Refs> {
        let (npub, name) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
        let url: CloneUrl = format!("{}/{npub}/{name}.git", self.web).parse()?;
        let ask = Ask { path: INFO_REFS, accept: ADVERT_TYPE, v2: false, body: None };
        let answer = async {
            let mut connection = self.caller.open(&url, Rule::Operator).await?;
            let mut answer = connection.request(&ask).await?;
            if answer.is_closed_to_us() {
                return Ok(Refs::new());
            }
            if !is_type(answer.content_type(), ADVERT_TYPE) {
                bail!("{}", answer.refusal());
            }
            let mut list = Vec::new();
            while let Some(piece) = answer.piece().await? {
                list.extend_from_slice(&piece);
                if list.len() > LIST_BYTES_MAX {
                    bail!("its list of refs does not end");
                }
            }
            super::refs::read(&list).map_err(|why| anyhow!(why))
        };
        timeout(ANSWER_TIME_MAX, answer).await.context("it does not answer in time")?
    }
}
