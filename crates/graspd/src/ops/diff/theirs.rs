//! The other server's side: asked through the guarded way out, as any client would ask. The operator
//! named it, so it may be anywhere.

use super::adverts::{Advert, Adverts};
use super::ours::by_repository;
use super::talk::{Talk, hung_up};
use super::{Announcements, Item};
use crate::outbound::{CallLimits, DialLimits, Dialer, Instance, Rule, Stream};
use anyhow::{Context, Result};
use grasp_core::{Filter, Kind, RelayUrl, RepoId};
use grasp_relay::neg::Difference;
use tokio_tungstenite::WebSocketStream;
use url::Url;

pub(super) struct Theirs {
    relay: RelayUrl,
    dialer: Dialer,
    talk: Box<Talk<Stream>>,
    /// Once for each repository.
    may_return: bool,
    adverts: Adverts,
}

impl Theirs {
    pub(super) async fn open(url: &Url) -> Result<Self> {
        let web = url.as_str().trim_end_matches('/').to_owned();
        let relay: RelayUrl = web.replacen("http", "ws", 1).parse().context("not an address")?;
        let dialer = Dialer::new(Instance::random()?, DialLimits::default())?;
        let talk = Box::new(Talk::new(dialled(&dialer, &relay).await?));
        let adverts = Adverts::new(dialer.clone(), CallLimits::default(), web);
        Ok(Self { relay, dialer, talk, may_return: true, adverts })
    }

    pub(super) fn begin_repository(&mut self) {
        self.may_return = true;
    }

    pub(super) async fn announcements(&mut self) -> Result<Announcements> {
        let filter = Filter { kinds: Some([Kind::ANNOUNCEMENT].into()), ..Filter::default() };
        let events = match self.talk.events(&filter).await {
            Err(error) if self.returns(&error).await? => self.talk.events(&filter).await?,
            answered => answered?,
        };
        Ok(by_repository(&events))
    }

    pub(super) async fn differs(&mut self, filter: &Filter, ours: &[Item]) -> Result<Difference> {
        match self.talk.differs(filter, ours).await {
            Err(error) if self.returns(&error).await? => self.talk.differs(filter, ours).await,
            answered => answered,
        }
    }

    pub(super) async fn advert(&self, repo: &RepoId) -> Result<Advert> {
        self.adverts.advert(repo).await
    }

    /// Who was left alone while our side was read may have hung up, and is called again.
    async fn returns(&mut self, error: &anyhow::Error) -> Result<bool> {
        if !hung_up(error) || !std::mem::take(&mut self.may_return) {
            return Ok(false);
        }
        self.talk.resume(dialled(&self.dialer, &self.relay).await?);
        Ok(true)
    }
}

async fn dialled(dialer: &Dialer, relay: &RelayUrl) -> Result<WebSocketStream<Stream>> {
    let dialled = dialer.dial(relay, Rule::Operator).await;
    Ok(dialled.with_context(|| format!("cannot reach {relay}"))?.socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_testkit::chaos::ChaosRelay;

    #[tokio::test]
    async fn who_hung_up_meanwhile_is_called_again_once_for_each_repository() {
        let relay = ChaosRelay::strict(100).await;
        let url = format!("http://{}", relay.address()).parse().unwrap();
        let mut theirs = Theirs::open(&url).await.unwrap();
        relay.drops_everyone();
        assert!(theirs.announcements().await.unwrap().is_empty());
        relay.drops_everyone();
        let error = theirs.announcements().await.unwrap_err();
        assert!(hung_up(&error), "{error:#}");
        theirs.begin_repository();
        let filter = Filter::default();
        assert_eq!(theirs.differs(&filter, &[]).await.unwrap(), Difference::default());
    }
}
