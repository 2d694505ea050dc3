//! From a request line to a typed route, or to nothing. Everything lives below the base path. Only
//! a parsed repository id leaves here, never a piece of the path, so nothing in it can reach a file.

use super::api::Api;
use super::api_request::{BadApiRequest, parse_api};
use crate::report::Page;
use grasp_core::service::percent_decoded;
use grasp_core::{PubKey, RepoId};
use grasp_git::{Service, advertise};
use hyper::{HeaderMap, Method, Uri, header};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Any OPTIONS request, anywhere.
    Preflight,
    /// A WebSocket handshake at the root.
    Socket,
    /// The NIP-11 document.
    Info,
    Landing,
    /// NIP-05 names of the relay itself.
    Names,
    Metrics,
    Api(Api),
    /// Below `/api/`, and nothing that can be asked.
    NoApi,
    /// Below `/api/`, and written in a way that cannot be understood; the sentence says why.
    BadApi(String),
    /// The list of relays, for people.
    Relays(Page),
    Repos(Page),
    Purgatory(Page),
    /// A stylesheet or a script, by name.
    Asset(String),
    Health,
    Ready,
    /// The page of a repository, for people.
    Repository(RepoId),
    Git(RepoId, Step),
    /// A repository was asked for its refs in the way of 2008.
    DumbHttp,
    /// The body is not what this half of git's protocol expects.
    WrongType(Service),
    NotFound,
    /// The place exists, the method does not.
    NotAllowed(&'static str),
}

/// The three requests of git's smart HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    InfoRefs(Service),
    Post(Service),
}

const READ: &str = "GET, HEAD, OPTIONS";
const SEND: &str = "POST, OPTIONS";

impl Route {
    pub fn parse(method: &Method, uri: &Uri, headers: &HeaderMap, base_path: &str) -> Self {
        if method == Method::OPTIONS {
            return Route::Preflight;
        }
        let Some(place) = below(uri.path(), base_path) else { return Route::NotFound };
        let route = match place {
            "" | "/" if wants_upgrade(headers) => Route::Socket,
            "" | "/" if accepts_info(headers) => Route::Info,
            "" | "/" => Route::Landing,
            "/.well-known/nostr.json" if base_path.is_empty() => Route::Names,
            "/metrics" => Route::Metrics,
            "/relays" => Route::Relays(page(uri.query())),
            "/repos" => Route::Repos(page(uri.query())),
            "/purgatory" => Route::Purgatory(page(uri.query())),
            "/healthz" => Route::Health,
            "/readyz" => Route::Ready,
            _ => {
                if let Some(rest) = place.strip_prefix("/api/") {
                    match parse_api(rest, uri.query()) {
                        Ok(asked) => Route::Api(asked),
                        Err(BadApiRequest::Unknown) => Route::NoApi,
                        Err(BadApiRequest::Malformed(why)) => Route::BadApi(why),
                    }
                } else if let Some(name) = place.strip_prefix("/assets/") {
                    Route::Asset(name.to_owned())
                } else {
                    return Self::repository(method, place, uri.query(), headers);
                }
            }
        };
        let allowed = method == Method::GET || (method == Method::HEAD && route != Route::Socket);
        if allowed { route } else { Route::NotAllowed(READ) }
    }

    fn repository(method: &Method, place: &str, query: Option<&str>, headers: &HeaderMap) -> Self {
        let Some((repo, rest)) = repository(place) else { return Route::NotFound };
        let reads = method == Method::GET || method == Method::HEAD;
        let posted = match rest {
            "" if reads => return Route::Repository(repo),
            "info/refs" if reads => {
                let asked = service(query).map(Step::InfoRefs);
                return asked.map_or(Route::DumbHttp, |step| Route::Git(repo, step));
            }
            "" | "info/refs" => return Route::NotAllowed(READ),
            name => Service::from_name(name),
        };
        match posted {
            None => Route::NotFound,
            Some(_) if method != Method::POST => Route::NotAllowed(SEND),
            Some(service) if !is_request(headers, service) => Route::WrongType(service),
            Some(service) => Route::Git(repo, Step::Post(service)),
        }
    }
}

/// `/<npub>/<identifier>.git`, and what follows behind it. People glue clone URLs together from
/// relay URLs that end in a slash, so a doubled first one is only spelling.
fn repository(place: &str) -> Option<(RepoId, &str)> {
    let place = place.strip_prefix("//").or_else(|| place.strip_prefix('/'))?;
    let (npub, place) = place.split_once('/')?;
    let (name, rest) = place.split_once('/').unwrap_or((place, ""));
    let owner = PubKey::from_npub(npub).ok()?;
    let name = percent_decoded(name)?;
    let identifier = name.strip_suffix(".git")?.parse().ok()?;
    Some((RepoId { owner, identifier }, rest))
}

/// For pages: what cannot be read is as good as not said, and a list then begins at its beginning.
fn page(query: Option<&str>) -> Page {
    let after = value(query, "after").and_then(percent_decoded);
    let limit = value(query, "limit").and_then(|text| text.parse().ok());
    Page::new(after, limit)
}

/// What `service=` asks for, wherever it stands in the query.
fn service(query: Option<&str>) -> Option<Service> {
    Service::from_name(&percent_decoded(value(query, "service")?)?)
}

fn value<'a>(query: Option<&'a str>, key: &str) -> Option<&'a str> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == key).map(|(_, value)| value)
}

fn is_request(headers: &HeaderMap, service: Service) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(advertise::request_type(service))
}

/// The rest of the path after the base, which ends at a segment.
fn below<'a>(path: &'a str, base_path: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(base_path)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// `Connection` is a list of tokens: Firefox sends `keep-alive, Upgrade`.
fn wants_upgrade(headers: &HeaderMap) -> bool {
    has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket")
}

fn accepts_info(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = values
        .flat_map(|value| value.split(','))
        .map(|part| part.split(';').next().unwrap_or_default().trim());
    types.any(|kind| kind.eq_ignore_ascii_case("application/nostr+json"))
}

fn has_token(headers: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests;
