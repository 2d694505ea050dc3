//! The relays this server follows: how each is doing, and how it was over the last day.

use super::frame::{Frame, Place, finished};
use super::home::{Share, shares};
use super::markup::{self, Markup};
use super::{Site, draw, words};
use crate::report::{Relay, Relays};
use askama::Template;

#[derive(Template)]
#[template(path = "relays.html", whitespace = "minimize")]
struct RelaysPage<'a> {
    frame: Frame<'a>,
    relays: &'a Relays,
}

pub fn relays(site: &Site, relays: &Relays) -> String {
    let frame = Frame::new(site, Place::Relays, "Relays").watching("relays", relays.now);
    finished(&RelaysPage { frame, relays })
}

impl RelaysPage<'_> {
    fn summary(&self) -> String {
        let all = self.relays.relays.len();
        let connected = self.relays.relays.iter().filter(|relay| relay.connected).count();
        format!(
            "{connected} of the {} below are connected.",
            words::counted(all, "relay", "relays")
        )
    }

    fn timeline(&self, relay: &Relay, number: &usize) -> Markup {
        draw::timeline(&relay.timeline, self.relays.now, &format!("day-{number}"))
    }

    fn graph(&self, relay: &Relay, number: &usize) -> Markup {
        draw::bar(&relay.ledger, &format!("ledger-{number}"))
    }

    fn legend(&self, relay: &Relay) -> Vec<Share> {
        shares(&relay.ledger)
    }

    fn facts(&self, relay: &Relay) -> Vec<(&'static str, String)> {
        let uptime =
            relay.uptime_percent.map_or_else(|| "not known yet".to_owned(), words::percent);
        let coverage =
            relay.coverage_permille.map_or_else(|| "not compared yet".to_owned(), words::permille);
        let gaps = match relay.gaps_sustained {
            0 => words::count(relay.gaps),
            late => {
                format!("{}, {} found only daily", words::count(relay.gaps), words::count(late))
            }
        };
        let attempts = match relay.attempts_failed {
            0 => words::count(relay.attempts),
            failed => format!("{}, {} failed", words::count(relay.attempts), words::count(failed)),
        };
        let groups = relay.confirmed.saturating_add(relay.pending).saturating_add(relay.missing);
        let asked = match groups {
            0 => "nothing yet".to_owned(),
            groups => format!("{} of {groups} groups confirmed", relay.confirmed),
        };
        let refused = match relay.refused.by_name {
            false => words::count(relay.refused.refused),
            true => format!(
                "{} of {}; asked only for known repositories",
                words::count(relay.refused.refused),
                words::count(relay.refused.received)
            ),
        };
        vec![
            ("Uptime", uptime),
            ("Coverage", coverage),
            ("Gaps", gaps),
            ("Events received", words::count(relay.events_received)),
            ("Events refused", refused),
            ("Repositories", words::count(relay.repositories)),
            ("Asked for", asked),
            ("Attempts", attempts),
            ("Compares", if relay.compares { "yes, by NIP-77" } else { "no" }.to_owned()),
        ]
    }
}
