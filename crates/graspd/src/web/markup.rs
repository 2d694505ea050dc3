//! Pieces of HTML that are made in code rather than in a template. Each is made of numbers and fixed
//! words, or was cleaned; nothing else may become one, because templates do not escape them.

use super::words;
use askama::filters::HtmlSafe;
use grasp_core::{Time, Timestamp};
use std::fmt;

#[derive(Debug, Clone)]
pub(super) struct Markup(String);

impl HtmlSafe for Markup {}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Markup {
    /// The caller vouches that no stranger can say what is in it.
    pub(super) fn vouched(html: String) -> Self {
        Self(html)
    }
}

/// Day and minute, in UTC; the script shows it in the reader's own time.
pub(super) fn at(time: &Time) -> Markup {
    let (iso, utc) = (words::iso(time), words::utc(time));
    Markup(format!("<time datetime=\"{iso}\">{utc}</time>"))
}

pub(super) fn at_secs(time: &Timestamp) -> Markup {
    at(&Time::from_secs(time.0))
}

/// How long before or after `now`; the script keeps it true.
pub(super) fn ago(now: &Time, time: &Time) -> Markup {
    let (iso, utc, ago) = (words::iso(time), words::utc(time), words::ago(now, time));
    Markup(format!("<time datetime=\"{iso}\" title=\"{utc}\" data-ago>{ago}</time>"))
}

pub(super) fn ago_secs(now: &Time, time: &Timestamp) -> Markup {
    ago(now, &Time::from_secs(time.0))
}

/// What is left until then; the script counts down.
pub(super) fn until(now: &Time, time: &Time) -> Markup {
    let (iso, utc, left) = (words::iso(time), words::utc(time), words::left(now, time));
    Markup(format!("<time datetime=\"{iso}\" title=\"{utc}\" data-until>{left}</time>"))
}
