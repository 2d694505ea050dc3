//! `graspd diff`: this server beside another, repository by repository. Ours are asked for through the
//! control socket or read from the data, theirs as any client would ask; nothing is changed on either side.

mod adverts;
mod filters;
mod ours;
mod refs;
mod talk;
mod tell;
mod theirs;
mod verdict;

pub use verdict::{Compared, Difference, Line, Standing, Totals};

use crate::config::Config;
use crate::ops::failure::complain;
use crate::ops::on_runtime;
use crate::ops::progress::Progress;
use crate::ops::terminal::is_output_closed;
use adverts::Advert;
use anyhow::{Context, Result};
use grasp_core::nip34::Announcement;
use grasp_core::service::{Authority, Service};
use grasp_core::{EventId, Kind, RepoId};
use ours::Ours;
use std::collections::BTreeMap;
use std::process::ExitCode;
use theirs::Theirs;
use url::Url;
use verdict::Refs;

/// So many repositories are compared; of the rest it is told that they were not.
const REPOSITORIES_MAX: usize = 100_000;
/// Of one repository.
const EVENTS_MAX: usize = 1_000_000;

/// 0: equal; 1: different; 2: could not be compared.
pub fn run(config: &Config, url: &str, json: bool) -> Result<ExitCode> {
    let compared = on_runtime(async {
        let compared = compare(config, url).await?;
        tell::print(url, &compared, json)?;
        Ok(compared.exit_code())
    });
    match compared {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) if is_output_closed(&error) => Err(error),
        Err(error) => {
            complain(&error);
            Ok(ExitCode::from(2))
        }
    }
}

async fn compare(config: &Config, url: &str) -> Result<Compared> {
    let (web, place) = server(url)?;
    let mut ours = Ours::open(config).await?;
    let here = ours.service(config).await;
    let mut theirs = Theirs::open(&web).await?;
    let bar = Progress::spinner();
    bar.say("reading announcements");
    let mut repositories =
        ours.announcements().await.context("our announcements cannot be read")?;
    let foreign = theirs.announcements().await.context("their announcements cannot be read")?;
    bar.finish();
    // What they host for us too is ours to have.
    for (repo, announcement) in foreign.iter().filter(|(_, it)| it.lists(&here)) {
        repositories.entry(repo.clone()).or_insert_with(|| announcement.clone());
    }
    let left_out = repositories.len().saturating_sub(REPOSITORIES_MAX);
    let bar = Progress::of((repositories.len() - left_out) as u64, "repositories");
    let mut lines = Vec::new();
    for (repo, announcement) in repositories.into_iter().take(REPOSITORIES_MAX) {
        bar.say(&repo.to_string());
        let known = foreign.get(&repo);
        let is_theirs = known.is_some() || announcement.lists(&place);
        let (standing, refs_compared) = match is_theirs {
            false => (Standing::NotListed, false),
            true => {
                // Either side may have the newer one, or know the server by the name it was given.
                let mut copies = std::iter::once(&announcement).chain(known);
                let has_git = copies.any(|it| it.listing(&place).in_clone);
                one((&mut ours, &mut theirs), &repo, &announcement, has_git).await
            }
        };
        lines.push(Line { repository: repo.to_string(), standing, refs_compared });
        bar.advance(1);
    }
    Ok(Compared { lines, left_out })
}

/// How it stands, and whether its refs had a part in that.
async fn one(
    (ours, theirs): (&mut Ours, &mut Theirs),
    repo: &RepoId,
    it: &Announcement,
    has_git: bool,
) -> (Standing, bool) {
    ours.begin_repository();
    theirs.begin_repository();
    let compared = async {
        let mut difference = events(ours, theirs, repo, it).await?;
        let here = ours.refs(repo).await.context("our refs cannot be read")?;
        let there = their_refs(theirs, repo, has_git).await.context("their refs cannot be read")?;
        if let Some(there) = &there {
            difference.count_refs(&here, there);
        }
        anyhow::Ok((difference, there.is_some()))
    };
    match compared.await {
        Ok((difference, refs_compared)) => (Standing::of(difference), refs_compared),
        Err(error) => (Standing::Incomparable(format!("{error:#}")), false),
    }
}

/// `None`: a relay, of which nobody expects git, and which says that it has none.
async fn their_refs(theirs: &Theirs, repo: &RepoId, has_git: bool) -> Result<Option<Refs>> {
    match theirs.advert(repo).await? {
        Advert::Listed(refs) => Ok(Some(refs)),
        Advert::Missing => Ok(has_git.then(Refs::new)),
        Advert::NotGit(why) if has_git => anyhow::bail!(why),
        Advert::NotGit(_) => Ok(None),
    }
}

async fn events(
    ours: &mut Ours,
    theirs: &mut Theirs,
    repo: &RepoId,
    it: &Announcement,
) -> Result<Difference> {
    let mut difference = Difference::default();
    let mut roots: Vec<EventId> = Vec::new();
    let mut all = 0;
    for filter in filters::around(repo, it) {
        let here = ours.items(&filter).await.context("our events cannot be read")?;
        roots.extend(here.iter().filter(|it| filters::is_root(it.kind)).map(|it| it.id));
        all += here.len();
        let there = theirs.differs(&filter, &here).await.context("their events cannot be read")?;
        difference.count_events(there);
    }
    roots.sort_unstable();
    roots.dedup();
    for filter in filters::replies(&roots) {
        if all > EVENTS_MAX {
            anyhow::bail!("more than {EVENTS_MAX} events belong to it");
        }
        let here = ours.items(&filter).await.context("our events cannot be read")?;
        all += here.len();
        let there = theirs.differs(&filter, &here).await.context("their events cannot be read")?;
        difference.count_events(there);
    }
    Ok(difference)
}

/// An event as far as it takes to compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) created_at: grasp_core::Timestamp,
    pub(crate) id: EventId,
    pub(crate) kind: Kind,
}

type Announcements = BTreeMap<RepoId, Announcement>;

/// The address as it is asked by HTTP, and what announcements call it.
fn server(text: &str) -> Result<(Url, Service)> {
    let how = "name the other server as https://git.example";
    let text = text.trim();
    let whole = match text.split_once("://") {
        None => format!("https://{text}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("http" | "https", _)) => text.to_owned(),
        Some(_) => anyhow::bail!("{how}"),
    };
    let url = Url::parse(&whole).context(how)?;
    Ok((url.clone(), service(&url).context(how)?))
}

pub(crate) fn service(url: &Url) -> Option<Service> {
    let host = url.host_str()?;
    let authority = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    Some(Service::new(Authority::parse(&authority).ok()?, Vec::new(), url.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_in_any_of_its_ways() {
        for (text, url) in [
            ("https://git.example", "https://git.example/"),
            ("git.example/", "https://git.example/"),
            ("wss://git.example/base/", "https://git.example/base/"),
            ("ws://127.0.0.1:7334", "http://127.0.0.1:7334/"),
        ] {
            let (found, service) = server(text).unwrap();
            assert_eq!(found.as_str(), url, "{text}");
            assert!(service.names_relay(&found.as_str().replacen("http", "ws", 1)), "{text}");
        }
        for text in ["", "ftp://x", "https://"] {
            assert!(server(text).is_err(), "{text}");
        }
    }
}
