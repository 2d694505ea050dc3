//! Where answers come from: the running server, or the data of one that does not run. Both speak in the
//! shapes of the API, so nobody behind this has to know which one it was.

use crate::config::{Backend, Config};
use crate::ops::client::Client;
use crate::ops::terminal::print_note;
use crate::report::{self, Offline, Page};
use anyhow::{Context, Result, bail};
use grasp_core::service::percent_encoded;
use grasp_core::{EventId, RepoId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// What can be asked.
#[derive(Debug, Clone)]
pub enum Place {
    Status,
    Relays(Page),
    Repos(Page),
    Repo(RepoId),
    Purgatory(Page),
    Event(EventId),
}

#[derive(Debug)]
pub enum Source {
    Running(Client),
    Stopped(Box<Offline>),
}

impl Place {
    /// Below the root of the server.
    pub fn path(&self) -> String {
        match self {
            Self::Status => "/api/v1/status".to_owned(),
            Self::Relays(page) => format!("/api/v1/relays{}", query(page)),
            Self::Repos(page) => format!("/api/v1/repos{}", query(page)),
            Self::Repo(repo) => {
                let (npub, name) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
                format!("/api/v1/repos/{npub}/{name}")
            }
            Self::Purgatory(page) => format!("/api/v1/purgatory{}", query(page)),
            Self::Event(id) => format!("/api/v1/events/{id}"),
        }
    }
}

fn query(page: &Page) -> String {
    let limit = page.limit;
    match &page.after {
        Some(after) => format!("?limit={limit}&after={}", percent_encoded(after)),
        None => format!("?limit={limit}"),
    }
}

impl Source {
    pub async fn open(config: &Config) -> Result<Self> {
        if let Some(client) = Client::find(&config.relay_data_path).await? {
            return Ok(Self::Running(client));
        }
        has_data(config)?;
        let offline =
            report::offline(config).context("no server answers, and its data cannot be read")?;
        let path = config.relay_data_path.display();
        print_note(&format!("note: no server runs on {path}; this is what its data says"));
        Ok(Self::Stopped(Box::new(offline)))
    }

    /// As JSON, in the shape of the API; `None` if there is no such thing.
    pub async fn json(&self, place: &Place) -> Result<Option<String>> {
        match self {
            Self::Running(client) => {
                let body = client.get(&place.path()).await?;
                let text = body.map(|body| String::from_utf8(body.into()));
                text.transpose().context("the running server answers with something else than text")
            }
            Self::Stopped(offline) => stopped(offline, place),
        }
    }

    pub async fn ask<T: DeserializeOwned>(&self, place: &Place) -> Result<Option<T>> {
        let Some(json) = self.json(place).await? else { return Ok(None) };
        let read = serde_json::from_str(&json);
        read.map(Some).context("the running server answers in another way; is it another version?")
    }
}

/// Opening would make an empty one, which is not what somebody wants who asks what is in it.
pub(crate) fn has_data(config: &Config) -> Result<()> {
    if config.backend == Backend::Memory {
        bail!(
            "no server answers, and the memory backend keeps nothing; set NGIT_DATABASE_BACKEND=lmdb"
        );
    }
    for (path, setting) in [
        (&config.relay_data_path, "NGIT_RELAY_DATA_PATH"),
        (&config.git_data_path, "NGIT_GIT_DATA_PATH"),
    ] {
        exists(path).with_context(|| {
            format!(
                "there is no data of a server in {}; set {setting}, or start the server first",
                path.display()
            )
        })?;
    }
    Ok(())
}

fn exists(root: &Path) -> std::io::Result<()> {
    std::fs::metadata(root.join(crate::datadir::MARKER)).map(drop)
}

fn stopped(offline: &Offline, place: &Place) -> Result<Option<String>> {
    fn json<T: Serialize>(shape: Option<T>) -> Result<Option<String>> {
        Ok(shape.map(|shape| serde_json::to_string(&shape)).transpose()?)
    }
    match place {
        Place::Status => json(Some(offline.status()?)),
        Place::Relays(page) => json(Some(offline.relays(page)?)),
        Place::Repos(page) => json(Some(offline.repos(page)?)),
        Place::Repo(repo) => json(offline.repo(repo)?),
        Place::Purgatory(page) => json(Some(offline.purgatory(page)?)),
        Place::Event(id) => json(offline.event(id)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_spelled_as_the_api_has_it() {
        let page = Page { after: Some("npub1x/two words&c".into()), limit: 7 };
        let after = "npub1x%2Ftwo%20words%26c";
        assert_eq!(Place::Repos(page).path(), format!("/api/v1/repos?limit=7&after={after}"));
        let page = Page { after: None, limit: 100 };
        assert_eq!(Place::Relays(page).path(), "/api/v1/relays?limit=100");
        let owner = grasp_core::PubKey::from_bytes([7; 32]);
        let repo = RepoId { owner, identifier: "a b".parse().unwrap() };
        let path = Place::Repo(repo).path();
        assert_eq!(path, format!("/api/v1/repos/{}/a%20b", owner.to_npub()));
    }
}
