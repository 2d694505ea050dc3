//! The pages people see, drawn from what `report` tells and from nothing else. Pure: no store, no
//! clock, no request. What strangers wrote is text on every one of them.

mod assets;
mod draw;
mod frame;
mod home;
mod markup;
mod purgatory;
mod readme;
mod relays;
mod repos;
mod repository;
#[cfg(test)]
mod tests;
mod words;

pub use assets::{Asset, asset};
pub use home::home;
pub use purgatory::purgatory;
pub use readme::{Readme, Readmes};
pub use relays::relays;
pub use repos::repos;
pub use repository::repository;

use askama::Template;
use frame::{Frame, Place, finished};

/// What every page says and links to.
#[derive(Debug, Clone)]
pub struct Site {
    /// The server's name, as its operator gave it.
    pub name: String,
    /// `""`, or starts with a slash and does not end with one.
    pub base_path: String,
}

/// A heading and a few sentences.
#[derive(Template)]
#[template(path = "plain.html", whitespace = "minimize")]
struct Plain<'a> {
    frame: Frame<'a>,
    heading: &'a str,
    sentences: &'a [&'a str],
}

/// 404 at the address of a repository.
pub fn no_repository(site: &Site) -> String {
    plain(
        site,
        "No such repository",
        &[
            "This server does not host a repository under that address.",
            "A repository is hosted once its owner publishes an announcement (kind 30617) here that \
             names this server in its clone and relays tags.",
        ],
    )
}

/// 404 anywhere else.
pub fn not_found(site: &Site) -> String {
    plain(site, "Not found", &["There is nothing here under that address."])
}

fn plain(site: &Site, heading: &str, sentences: &[&str]) -> String {
    let frame = Frame::new(site, Place::Elsewhere, heading);
    finished(&Plain { frame, heading, sentences })
}
