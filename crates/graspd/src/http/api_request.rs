//! From a path below `/api/` to a typed request, or to the reason why there is none. Nothing is ignored: a
//! parameter that cannot be read, or that the resource does not have, is refused.

use super::api::Api;
use crate::report::{LongList, Page};
use grasp_core::service::percent_decoded;
use grasp_core::{EventId, PubKey, RepoId};

/// Why a request cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadApiRequest {
    /// There is no such resource.
    Unknown,
    /// It is written in a wrong way; the sentence says which.
    Malformed(String),
}

impl BadApiRequest {
    fn malformed(why: impl Into<String>) -> Self {
        Self::Malformed(why.into())
    }
}

const LIMIT: &str = "limit";
const AFTER: &str = "after";

pub(super) fn parse_api(place: &str, query: Option<&str>) -> Result<Api, BadApiRequest> {
    let resource = match place {
        "v1" => "",
        place => place.strip_prefix("v1/").ok_or(BadApiRequest::Unknown)?,
    };
    let list = match resource {
        "relays" => Some(LongList::Relays),
        "repos" => Some(LongList::Repos),
        "purgatory" => Some(LongList::Purgatory),
        _ => None,
    };
    if let Some(list) = list {
        let page = parse_page(list, query)?;
        return Ok(match list {
            LongList::Relays => Api::Relays(page),
            LongList::Repos => Api::Repos(page),
            LongList::Purgatory => Api::Purgatory(page),
        });
    }
    let found = match resource {
        "" => Api::Index,
        "status" => Api::Status,
        "hunts" => Api::Hunts,
        "live" => Api::Live,
        rest => match rest.split_once('/') {
            Some(("events", id)) => Api::Event(parse_event_id(id)?),
            Some(("repos", repo)) => Api::Repo(parse_repository(repo)?),
            _ => return Err(BadApiRequest::Unknown),
        },
    };
    parameters(query, &[]).map(|_| found)
}

fn parse_event_id(text: &str) -> Result<EventId, BadApiRequest> {
    let why = "the id of an event is 64 hexadecimal digits in small letters";
    text.parse().map_err(|_| BadApiRequest::malformed(why))
}

/// `<npub>/<identifier>`
fn parse_repository(place: &str) -> Result<RepoId, BadApiRequest> {
    let how = "a repository is asked for as /api/v1/repos/<npub>/<identifier>";
    let bad = |why: &str| BadApiRequest::malformed(format!("{why}; {how}"));
    let (npub, name) = place.split_once('/').ok_or_else(|| BadApiRequest::malformed(how))?;
    let owner = PubKey::from_npub(npub).map_err(|_| bad("this is not an npub"))?;
    let escape = "the identifier has a broken percent escape";
    let name = percent_decoded(name).ok_or_else(|| bad(escape))?;
    let identifier = name.parse().map_err(|_| bad("this cannot be an identifier"))?;
    Ok(RepoId { owner, identifier })
}

fn parse_page(list: LongList, query: Option<&str>) -> Result<Page, BadApiRequest> {
    let found = parameters(query, &[LIMIT, AFTER])?;
    let value = |name: &str| found.iter().find(|(it, _)| *it == name).map(|(_, value)| *value);
    let limit = value(LIMIT).map(|text| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number of any length is a number; the page cuts it to what is given at most.
        let number = digits.then(|| text.parse().unwrap_or(usize::MAX)).filter(|it| *it > 0);
        number.ok_or_else(|| {
            let most = Page::LIMIT_MAX;
            BadApiRequest::malformed(format!("limit must be a whole number from 1 to {most}"))
        })
    });
    let after = value(AFTER).map(|text| {
        let why = "after has a broken percent escape";
        percent_decoded(text).ok_or_else(|| BadApiRequest::malformed(why))
    });
    let page = Page::new(after.transpose()?, limit.transpose()?);
    list.check(&page).map_err(BadApiRequest::Malformed)?;
    Ok(page)
}

/// Names and values; each of the known names at most once, and no other.
fn parameters<'a>(
    query: Option<&'a str>,
    known: &[&str],
) -> Result<Vec<(&'a str, &'a str)>, BadApiRequest> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !known.contains(&name) {
            let known = match known {
                [] => "this resource has no parameters".to_owned(),
                names => format!("this resource has the parameters {}", names.join(" and ")),
            };
            return Err(BadApiRequest::malformed(format!("unknown parameter; {known}")));
        }
        if found.iter().any(|(it, _)| *it == name) {
            return Err(BadApiRequest::malformed(format!("{name} is given twice")));
        }
        found.push((name, value));
    }
    Ok(found)
}
