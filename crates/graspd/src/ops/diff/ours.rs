//! This server's side of the comparison: asked through its control socket like any client, or read from
//! its data while it does not run.

use super::talk::{Talk, hung_up};
use super::verdict::Refs;
use super::{Announcements, Item, service};
use crate::clock::Clock;
use crate::config::Config;
use crate::ops::client::Client;
use crate::ops::source::{Place, has_data};
use crate::ops::terminal::print_note;
use crate::report::Status;
use crate::repos::Repos;
use crate::serve::{self, Opened};
use anyhow::{Context, Result};
use grasp_core::nip34::Announcement;
use grasp_core::{Event, Filter, Kind, RepoId, Service};
use grasp_git::Layout;
use grasp_git::fetch::INFO_REFS;
use grasp_store::{Budget, Cursor, Hit, Progress, Space, Want};
use tokio::net::UnixStream;

pub(super) enum Ours {
    Running {
        client: Client,
        talk: Box<Talk<UnixStream>>,
        /// Once for each repository.
        may_return: bool,
    },
    Stopped {
        opened: Box<Opened>,
        repos: Repos,
    },
}

const PAGE: Budget = Budget { steps: 20_000, bytes: 16 << 20 };

impl Ours {
    pub(super) async fn open(config: &Config) -> Result<Self> {
        if let Some(client) = Client::find(&config.relay_data_path).await? {
            let talk = Box::new(Talk::new(client.relay().await?));
            return Ok(Self::Running { client, talk, may_return: true });
        }
        has_data(config)?;
        let opened = Box::new(serve::open(config)?);
        let path = config.relay_data_path.display();
        print_note(&format!("note: no server runs on {path}; this compares what its data says"));
        let repos = Repos::new(Layout::new(opened.git_root.canonicalize()?));
        Ok(Self::Stopped { opened, repos })
    }

    pub(super) fn begin_repository(&mut self) {
        if let Self::Running { may_return, .. } = self {
            *may_return = true;
        }
    }

    /// What announcements call us; the running server knows best.
    pub(super) async fn service(&self, config: &Config) -> Service {
        let known = || config.service.clone();
        let Self::Running { client, .. } = self else { return known() };
        let Ok(Some(json)) = client.get(&Place::Status.path()).await else { return known() };
        let status = serde_json::from_slice::<Status>(&json).ok();
        let url = status.and_then(|it| url::Url::parse(&it.server.clone).ok());
        url.and_then(|url| service(&url)).unwrap_or_else(known)
    }

    pub(super) async fn announcements(&mut self) -> Result<Announcements> {
        let filter = Filter { kinds: Some([Kind::ANNOUNCEMENT].into()), ..Filter::default() };
        let events = self.events(&filter).await?;
        Ok(by_repository(&events))
    }

    pub(super) async fn items(&mut self, filter: &Filter) -> Result<Vec<Item>> {
        let events = self.events(filter).await?;
        let item = |it: &Event| Item { created_at: it.created_at, id: it.id, kind: it.kind };
        Ok(events.iter().map(item).collect())
    }

    pub(super) async fn refs(&mut self, repo: &RepoId) -> Result<Refs> {
        match self {
            Self::Running { client, .. } => {
                let (npub, name) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
                let path = format!("/{npub}/{name}.git/{INFO_REFS}");
                let Some(advert) = client.get(&path).await? else { return Ok(Refs::new()) };
                super::refs::read(&advert).map_err(anyhow::Error::msg)
            }
            Self::Stopped { repos, .. } => {
                let shown = repos.shown(repo)?;
                let listed = shown.refs.listed();
                Ok(listed.map(|(name, entry)| (name.into_owned(), entry.oid)).collect())
            }
        }
    }

    async fn events(&mut self, filter: &Filter) -> Result<Vec<Event>> {
        match self {
            Self::Running { client, talk, may_return } => match talk.events(filter).await {
                // Nobody answered its pings while the other side was read.
                Err(error) if hung_up(&error) && std::mem::take(may_return) => {
                    talk.resume(client.relay().await?);
                    talk.events(filter).await
                }
                answered => answered,
            },
            Self::Stopped { opened, .. } => stored(opened, filter),
        }
    }
}

fn stored(opened: &Opened, filter: &Filter) -> Result<Vec<Event>> {
    let now = Clock::default().now().timestamp();
    let mut cursor = Cursor::new([filter.clone()].into(), Want::Bodies, u64::MAX, now);
    let mut events = Vec::new();
    loop {
        let mut sink = |hit: Hit<'_>| events.push(Event::from_json(hit.json));
        let snapshot = opened.store.read()?;
        let progress = snapshot.advance(Space::Served, &mut cursor, &mut { PAGE }, &mut sink)?;
        if progress == Progress::Done {
            break;
        }
    }
    let events: Result<Vec<Event>, _> = events.into_iter().collect();
    events.context("an event in the store cannot be read")
}

/// What cannot be read as one announces nothing.
pub(super) fn by_repository(events: &[Event]) -> Announcements {
    let announcements = events.iter().filter_map(|event| Announcement::parse(event).ok());
    announcements.map(|it| (it.repo.clone(), it)).collect()
}
