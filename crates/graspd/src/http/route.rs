//! From a request line to a typed route, or to nothing. Everything lives below the base path.

use hyper::{HeaderMap, Method, header};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    Health,
    Ready,
    NotFound,
    /// The place exists, the method does not.
    NotAllowed,
}

impl Route {
    pub fn parse(method: &Method, path: &str, headers: &HeaderMap, base_path: &str) -> Self {
        if method == Method::OPTIONS {
            return Route::Preflight;
        }
        let Some(place) = below(path, base_path) else { return Route::NotFound };
        let route = match place {
            "" | "/" if wants_upgrade(headers) => Route::Socket,
            "" | "/" if accepts_info(headers) => Route::Info,
            "" | "/" => Route::Landing,
            "/.well-known/nostr.json" if base_path.is_empty() => Route::Names,
            "/metrics" => Route::Metrics,
            "/healthz" => Route::Health,
            "/readyz" => Route::Ready,
            _ => return Route::NotFound,
        };
        let allowed = method == Method::GET || (method == Method::HEAD && route != Route::Socket);
        if allowed { route } else { Route::NotAllowed }
    }
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
mod tests {
    use super::*;

    fn route(method: &str, path: &str, headers: &[(&str, &str)], base: &str) -> Route {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: header::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        Route::parse(&method.parse().unwrap(), path, &map, base)
    }

    #[test]
    fn the_root_is_three_things() {
        let upgrade = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
        assert_eq!(route("GET", "/", &upgrade, ""), Route::Socket);
        let info = [("accept", "text/html, Application/Nostr+JSON;q=0.9")];
        assert_eq!(route("GET", "/", &info, ""), Route::Info);
        assert_eq!(route("HEAD", "/", &[], ""), Route::Landing);
        assert_eq!(route("POST", "/", &[], ""), Route::NotAllowed);
    }

    #[test]
    fn everything_lives_below_the_base_path() {
        for root in ["/grasp", "/grasp/"] {
            assert_eq!(route("GET", root, &[], "/grasp"), Route::Landing);
        }
        assert_eq!(route("GET", "/grasp/healthz", &[], "/grasp"), Route::Health);
        for outside in ["/", "/graspx", "/metrics", "/.well-known/nostr.json", "/gras"] {
            assert_eq!(route("GET", outside, &[], "/grasp"), Route::NotFound, "{outside}");
        }
        assert_eq!(route("GET", "/.well-known/nostr.json", &[], ""), Route::Names);
    }

    #[test]
    fn preflight_is_answered_anywhere() {
        assert_eq!(route("OPTIONS", "/no/such/place", &[], "/grasp"), Route::Preflight);
    }
}
