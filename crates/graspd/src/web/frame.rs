//! What surrounds every page: title, navigation, assets, and the links that lead from one to another.
//! A link is made of typed values or is not made.

use super::assets::ASSETS;
use super::{Site, words};
use askama::Template;
use grasp_core::service::percent_encoded;
use grasp_core::{Identifier, PubKey, Time};
use url::Url;

/// No honest address is longer.
pub(super) const HREF_BYTES_MAX: usize = 2_000;

/// Where in the navigation a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Home,
    Repositories,
    Relays,
    Purgatory,
    Elsewhere,
}

pub(super) struct Frame<'a> {
    pub(super) site: &'a Site,
    pub(super) place: Place,
    /// Of the page, before the server's name.
    pub(super) title: String,
    /// A change of what makes the script look again.
    pub(super) topic: String,
    /// At least so long between two looks.
    pub(super) pause_ms: u64,
    pub(super) now: Time,
}

impl<'a> Frame<'a> {
    pub(super) fn new(site: &'a Site, place: Place, title: &str) -> Self {
        let title = words::name(title);
        Self { site, place, title, topic: String::new(), pause_ms: 1_000, now: Time(0) }
    }

    pub(super) fn watching(self, topic: impl Into<String>, now: Time) -> Self {
        Self { topic: topic.into(), now, ..self }
    }

    pub(super) fn base(&self) -> &str {
        &self.site.base_path
    }

    pub(super) fn style(&self) -> &str {
        &ASSETS.style.name
    }

    pub(super) fn script(&self) -> &str {
        &ASSETS.script.name
    }

    pub(super) fn icon(&self) -> &str {
        &ASSETS.icon.name
    }

    pub(super) fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    /// The navigation: where to, what it is called, and whether that is here.
    pub(super) fn places(&self) -> [(&'static str, &'static str, bool); 4] {
        [
            ("/", "Home", self.place == Place::Home),
            ("/repos", "Repositories", self.place == Place::Repositories),
            ("/relays", "Relays", self.place == Place::Relays),
            ("/purgatory", "Purgatory", self.place == Place::Purgatory),
        ]
    }

    /// The page of `<npub>/<identifier>`.
    pub(super) fn repository(&self, name: &str) -> Option<String> {
        let (npub, identifier) = name.split_once('/')?;
        let owner = PubKey::from_npub(npub).ok()?;
        let identifier: Identifier = identifier.parse().ok()?;
        let (base, identifier) = (self.base(), identifier.percent_encoded());
        Some(format!("{base}/{}/{identifier}.git", owner.to_npub()))
    }

    /// The page after this one of a list.
    pub(super) fn after(&self, list: &str, next: &str) -> String {
        format!("{}/{list}?after={}", self.base(), percent_encoded(next))
    }
}

/// An address somewhere else, if it is one that people may be sent to.
pub(super) fn href(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= HREF_BYTES_MAX)?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none();
    plain.then(|| url.to_string())
}

/// Writing to memory fails only where a value cannot be shown, and all of ours can.
pub(super) fn finished(page: &impl Template) -> String {
    page.render().unwrap_or_else(|error| {
        tracing::error!(%error, "a page could not be drawn");
        "<!doctype html><title>Error</title><p>This page could not be drawn.</p>".to_owned()
    })
}
