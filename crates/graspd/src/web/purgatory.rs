//! What waits, for what, and for how much longer.

use super::frame::{Frame, Place, finished};
use super::{Site, markup, words};
use crate::report::Purgatory;
use askama::Template;

#[derive(Template)]
#[template(path = "purgatory.html", whitespace = "minimize")]
struct PurgatoryPage<'a> {
    frame: Frame<'a>,
    purgatory: &'a Purgatory,
}

pub fn purgatory(site: &Site, purgatory: &Purgatory) -> String {
    let frame = Frame::new(site, Place::Purgatory, "Purgatory");
    let frame = frame.watching("purgatory", purgatory.now);
    finished(&PurgatoryPage { frame, purgatory })
}
