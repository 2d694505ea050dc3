//! The first page: what this server is, how it is doing, and how to use it.

use super::frame::{Frame, Place, finished};
use super::markup::Markup;
use super::{Site, draw, words};
use crate::report::{Activity, Ledger, Status};
use askama::Template;

/// As many as the script keeps.
const ACTIVITY_MAX: usize = 50;

#[derive(Template)]
#[template(path = "home.html", whitespace = "minimize")]
struct Home<'a> {
    frame: Frame<'a>,
    status: &'a Status,
}

pub fn home(site: &Site, status: &Status) -> String {
    let frame = Frame::new(site, Place::Home, "").watching("home", status.now);
    finished(&Home { frame, status })
}

impl Home<'_> {
    fn figures(&self) -> Vec<Figure> {
        let totals = &self.status.totals;
        let figure = |number: String, what, note| Figure { number, what, note };
        vec![
            figure(words::count(totals.announcements), "repositories announced", String::new()),
            figure(words::count(totals.events), "events", String::new()),
            figure(
                format!("{} of {}", totals.relays_connected, totals.relays),
                "relays connected",
                match totals.relays_dead {
                    0 => String::new(),
                    dead => format!("{} dead", words::count(dead)),
                },
            ),
            figure(
                words::count(totals.held),
                "events waiting",
                match totals.wanted {
                    0 => String::new(),
                    wanted => format!("and {} given up, still looked for", words::count(wanted)),
                },
            ),
            figure(
                words::count(totals.hunts),
                "hunts for git data",
                match totals.fetching {
                    0 => String::new(),
                    fetching => words::counted(fetching, "fetch under way", "fetches under way"),
                },
            ),
            figure(words::bytes(self.on_disk()), "on disk", self.budget()),
        ]
    }

    /// Events and git data.
    fn on_disk(&self) -> u64 {
        let server = &self.status.server;
        server.disk_used_bytes.saturating_add(server.git_used_bytes.unwrap_or(0))
    }

    fn budget(&self) -> String {
        let server = &self.status.server;
        let events = words::bytes(server.disk_used_bytes);
        let events = match server.disk_budget_bytes {
            0 => format!("events {events}"),
            budget => format!("events {events} of {}", words::bytes(budget)),
        };
        match server.git_used_bytes {
            Some(git) => format!("{events}, git data {}", words::bytes(git)),
            None => format!("{events}; git data is being measured"),
        }
    }

    fn legend(&self) -> Vec<Share> {
        shares(&self.status.ledger)
    }

    fn activity(&self) -> impl Iterator<Item = &Activity> {
        self.status.activity.iter().take(ACTIVITY_MAX)
    }

    fn graph(&self) -> Markup {
        draw::bar(&self.status.ledger, "shares")
    }
}

struct Figure {
    number: String,
    what: &'static str,
    note: String,
}

/// One of the four verdicts, with its number.
pub(super) struct Share {
    pub(super) said: words::Said,
    pub(super) number: String,
}

pub(super) fn shares(ledger: &Ledger) -> Vec<Share> {
    use crate::report::Verdict::{Equal, TheyLack, Unverifiable, WeLack};
    let of =
        |verdict, number| Share { said: words::verdict(&verdict), number: words::count(number) };
    vec![
        of(Equal, ledger.equal),
        of(WeLack, ledger.we_lack),
        of(TheyLack, ledger.they_lack),
        of(Unverifiable, ledger.unverifiable),
    ]
}
