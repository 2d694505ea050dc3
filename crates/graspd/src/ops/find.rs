//! Finds the repository that the operator named: by identifier alone where only one here has it, or by a clone
//! URL if that URL leads to this server. A name that leads nowhere gets suggestions.

use crate::config::{Config, edits};
use crate::ops::diff::service;
use crate::ops::place::{self, HOW, RepositoryName};
use crate::ops::source::{Place, Source};
use crate::report::{Page, Purgatory, Repos, Status};
use anyhow::{Result, anyhow, bail};
use grasp_core::RepoId;
use grasp_core::service::{Authority, Service};
use std::net::IpAddr;
use url::Url;

/// Repositories that are looked through for a name, the newest first.
const LOOKED_THROUGH_MAX: usize = 20_000;
const SUGGESTIONS_MAX: usize = 3;
const LISTED_MAX: usize = 5;
/// A name with more differences is another name.
const TYPOS_MAX: usize = 2;

/// A repository as far as it takes to recognise it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownRepository {
    /// `<npub>/<identifier>`
    id: String,
    identifier: String,
    /// As announced; may be empty.
    name: String,
}

pub(super) async fn find_repository(
    source: &Source,
    config: &Config,
    name: &RepositoryName,
) -> Result<RepoId> {
    match name {
        RepositoryName::Id(repo) => Ok(repo.clone()),
        RepositoryName::Url(url, repo) => match is_here(source, config, url).await {
            true => Ok(repo.clone()),
            false => bail!("{}", elsewhere(url)),
        },
        RepositoryName::Identifier(name) => {
            let found = choose(&candidates(source).await?, name).map_err(|why| anyhow!(why))?;
            place::repository(&found).map_err(|why| anyhow!(why))
        }
    }
}

/// What to say of a repository that is not here.
pub(super) async fn missing(source: &Source, repo: &RepoId) -> Result<String> {
    let id = crate::report::text::shown(&repo.to_string(), crate::report::text::WORDS_MAX);
    let known = candidates(source).await?;
    let near = nearest(&known, repo.identifier.as_str());
    Ok(format!("there is no repository {id} here{}", suggestion(&near)))
}

fn elsewhere(url: &Url) -> String {
    let server = url.origin().ascii_serialization();
    format!(
        "{url} is a repository on another server, and this command asks this one; `graspd diff \
         {server}` compares the two, and <npub>/<identifier> without a server means the copy here"
    )
}

/// Does the URL lead to the server that is asked?
async fn is_here(source: &Source, config: &Config, url: &Url) -> bool {
    let is_named = |it: Service| it.is_here(url.as_str());
    if is_named(config.service.clone()) || listening_at(config).is_some_and(is_named) {
        return true;
    }
    // A server that was started on any free port knows its address best.
    let Source::Running(_) = source else { return false };
    let Ok(Some(status)) = source.ask::<Status>(&Place::Status).await else { return false };
    let running = Url::parse(&status.server.clone).ok().and_then(|url| service(&url));
    running.is_some_and(is_named)
}

/// The address we listen on is ours as well, beside the public one.
fn listening_at(config: &Config) -> Option<Service> {
    let bound = config.bind_address;
    let port = bound.port();
    let is_local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    let names = ["127.0.0.1", "[::1]", "localhost"].into_iter().filter(|_| is_local(bound.ip()));
    let aliases = names.filter_map(|name| Authority::parse(&format!("{name}:{port}")).ok());
    let authority = Authority::parse(&bound.to_string()).ok()?;
    Some(Service::new(authority, aliases.collect(), config.service.base_path()))
}

/// Those that are served, then those that wait.
async fn candidates(source: &Source) -> Result<Vec<KnownRepository>> {
    let mut found = Vec::new();
    let mut after = None;
    while found.len() < LOOKED_THROUGH_MAX {
        let place = Place::Repos(Page { after, limit: Page::LIMIT_MAX });
        let Some(part) = source.ask::<Repos>(&place).await? else { break };
        found.extend(part.repositories.into_iter().map(|it| KnownRepository {
            id: format!("{}/{}", it.npub, it.identifier),
            identifier: it.identifier,
            name: it.name,
        }));
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    let mut after = None;
    while found.len() < LOOKED_THROUGH_MAX {
        let place = Place::Purgatory(Page { after, limit: Page::LIMIT_MAX });
        let Some(part) = source.ask::<Purgatory>(&place).await? else { break };
        for id in part.held.into_iter().flat_map(|it| it.repositories) {
            let Some((_, identifier)) = id.split_once('/') else { continue };
            let identifier = identifier.to_owned();
            found.push(KnownRepository { id, identifier, name: String::new() });
        }
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|a, b| a.id == b.id);
    Ok(found)
}

/// The address of the one that is meant, or why there is none.
fn choose(known: &[KnownRepository], name: &str) -> Result<String, String> {
    let exact = |it: &&KnownRepository| it.identifier == name;
    let alike = |it: &&KnownRepository| {
        it.identifier.eq_ignore_ascii_case(name) || it.name.eq_ignore_ascii_case(name)
    };
    let mut meant: Vec<&KnownRepository> = known.iter().filter(exact).collect();
    if meant.is_empty() {
        meant = known.iter().filter(alike).collect();
    }
    match &meant[..] {
        [] => Err(format!(
            "no repository here is named `{name}`{}; {HOW}",
            suggestion(&nearest(known, name))
        )),
        [one] => Ok(one.id.clone()),
        several => {
            let ids: Vec<&str> = several.iter().take(LISTED_MAX).map(|it| it.id.as_str()).collect();
            let more = if several.len() > LISTED_MAX { " and more" } else { "" };
            let (count, ids) = (several.len(), ids.join(", "));
            Err(format!("`{name}` may mean {count} repositories here: {ids}{more}; {HOW}"))
        }
    }
}

/// Identifiers that differ by a typing mistake, the nearest first.
fn nearest<'a>(known: &'a [KnownRepository], name: &str) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let typos_max = TYPOS_MAX.min(length / 2);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for it in known {
        let theirs = it.identifier.to_lowercase();
        if theirs.chars().count().abs_diff(length) > typos_max {
            continue;
        }
        let typos = edits(&name, &theirs);
        if typos <= typos_max && !near.iter().any(|(_, known)| *known == it.identifier) {
            near.push((typos, &it.identifier));
        }
    }
    near.sort_unstable();
    near.into_iter().take(SUGGESTIONS_MAX).map(|(_, identifier)| identifier).collect()
}

fn suggestion(near: &[&str]) -> String {
    match near {
        [] => "; `graspd repos` lists those that are".to_owned(),
        names => {
            let names: Vec<String> = names.iter().map(|it| format!("`{it}`")).collect();
            format!("; did you mean {}?", names.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<KnownRepository> {
        let one = |owner: &str, identifier: &str, name: &str| KnownRepository {
            id: format!("npub1{owner}/{identifier}"),
            identifier: identifier.into(),
            name: name.into(),
        };
        vec![
            one("a", "acme", "Acme Tools"),
            one("b", "gadget", ""),
            one("c", "gadget", "Gadget"),
            one("c", "widgets", ""),
        ]
    }

    #[test]
    fn a_name_that_only_one_repository_has_is_enough() {
        assert_eq!(choose(&known(), "acme"), Ok("npub1a/acme".into()));
        assert_eq!(choose(&known(), "Widgets"), Ok("npub1c/widgets".into()));
        assert_eq!(choose(&known(), "acme tools"), Ok("npub1a/acme".into()));
    }

    #[test]
    fn a_name_that_several_have_lists_them() {
        let why = choose(&known(), "gadget").unwrap_err();
        assert!(why.contains("2 repositories here: npub1b/gadget, npub1c/gadget"), "{why}");
    }

    #[test]
    fn a_typing_mistake_gets_a_suggestion_and_another_name_does_not() {
        for typo in ["amce", "acmee", "acm", "ACNE"] {
            let why = choose(&known(), typo).unwrap_err();
            assert!(why.contains("did you mean `acme`?"), "{why}");
        }
        let why = choose(&known(), "entirely-different").unwrap_err();
        assert!(!why.contains("did you mean") && why.contains("graspd repos"), "{why}");
        assert!(!choose(&known(), "x").unwrap_err().contains("did you mean"));
    }
}
