//! Small graphs as SVG. Every one says in words what it shows, and shows it by shape as well as by
//! colour. Made of numbers and fixed words only.

use super::markup::Markup;
use super::words::{compared, count};
use crate::report::{Ledger, Slot};
use grasp_core::Time;
use std::fmt::Write as _;

const BAR_WIDTH: u64 = 1_000;
/// What is there at all can be seen.
const SEGMENT_WIDTH_MIN: u64 = 8;
const SLOTS: u64 = 96;
const SLOT_MS: u64 = 15 * 60 * 1_000;
const SLOT_WIDTH: u64 = 4;
const TIMELINE_HEIGHT: u64 = 24;

/// A ledger's verdicts side by side. `name` is unique on the page.
pub(super) fn bar(ledger: &Ledger, name: &str) -> Markup {
    let all = compared(ledger).max(1);
    let (mut x, mut drawn) = (0, String::new());
    for (class, number) in [
        ("equal", ledger.equal),
        ("we-lack", ledger.we_lack),
        ("they-lack", ledger.they_lack),
        ("unverifiable", ledger.unverifiable),
    ] {
        if number == 0 {
            continue;
        }
        let share = u128::from(number) * u128::from(BAR_WIDTH) / u128::from(all);
        let width = u64::try_from(share).unwrap_or(BAR_WIDTH).max(SEGMENT_WIDTH_MIN);
        let _ =
            write!(drawn, "<rect class=\"{class}\" x=\"{x}\" width=\"{width}\" height=\"16\"/>");
        x += width;
    }
    // Widths were rounded: the box is as wide as what is in it.
    Markup::vouched(format!(
        "<svg class=\"bar\" viewBox=\"0 0 {} 16\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-labelledby=\"{name}-title {name}-desc\">\
         <title id=\"{name}-title\">Verdicts</title><desc id=\"{name}-desc\">{} equal, \
         we lack something in {}, they lack something in {}, {} unverifiable.</desc>{drawn}</svg>",
        x.max(1),
        count(ledger.equal),
        count(ledger.we_lack),
        count(ledger.they_lack),
        count(ledger.unverifiable),
    ))
}

/// How a quarter of an hour went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Went {
    Up,
    Partly,
    Down,
    Unwanted,
}

impl Went {
    fn of(slot: &Slot) -> Self {
        match slot.up_permille {
            None => Self::Unwanted,
            Some(0) => Self::Down,
            Some(1..990) => Self::Partly,
            Some(_) => Self::Up,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Partly => "partly",
            Self::Down => "down",
            Self::Unwanted => "unwanted",
        }
    }

    /// Taller is better, so that the graph can be read without its colours.
    const fn height(self) -> u64 {
        match self {
            Self::Up => TIMELINE_HEIGHT,
            Self::Partly => TIMELINE_HEIGHT * 2 / 3,
            Self::Down => TIMELINE_HEIGHT / 3,
            Self::Unwanted => 2,
        }
    }
}

/// The last day of a relay, oldest first. `name` is unique on the page.
pub(super) fn timeline(slots: &[Slot], now: Time, name: &str) -> Markup {
    let mut day = [Went::Unwanted; SLOTS as usize];
    for slot in slots {
        let back = (now.0 / SLOT_MS).checked_sub(slot.at.0 / SLOT_MS);
        let place = back.and_then(|back| (SLOTS - 1).checked_sub(back));
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(went) = place.and_then(|place| day.get_mut(place)) {
            *went = Went::of(slot);
        }
    }
    let number = |wanted| day.iter().filter(|went| **went == wanted).count();
    let mut out = format!(
        "<svg class=\"timeline\" viewBox=\"0 0 {} {TIMELINE_HEIGHT}\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-labelledby=\"{name}-title {name}-desc\">\
         <title id=\"{name}-title\">The last 24 hours</title><desc id=\"{name}-desc\">Of 96 quarter \
         hours: connected throughout in {}, partly in {}, not at all in {}; no link was wanted in \
         {}.</desc>",
        SLOTS * SLOT_WIDTH,
        number(Went::Up),
        number(Went::Partly),
        number(Went::Down),
        number(Went::Unwanted),
    );
    let mut x = 0;
    for run in day.chunk_by(|a, b| a == b) {
        let width = u64::try_from(run.len()).unwrap_or(SLOTS) * SLOT_WIDTH;
        let Some(went) = run.first() else { continue };
        let (class, height) = (went.class(), went.height());
        let y = TIMELINE_HEIGHT - height;
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
        x += width;
    }
    out.push_str("</svg>");
    Markup::vouched(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_smallest_share_and_says_the_numbers() {
        let ledger = Ledger { equal: 1_000_000, they_lack: 1, ..Ledger::default() };
        let bar = bar(&ledger, "ledger").to_string();
        assert!(bar.contains("class=\"equal\" x=\"0\" width=\"999\""), "{bar}");
        assert!(bar.contains("class=\"they-lack\" x=\"999\" width=\"8\""), "{bar}");
        assert!(bar.contains("viewBox=\"0 0 1007 16\""), "{bar}");
        assert!(bar.contains("1,000,000 equal, we lack something in 0, they lack something in 1"));
        assert!(!bar.contains("we-lack\""), "what is not there is not drawn: {bar}");
    }

    #[test]
    fn a_timeline_places_quarter_hours_by_their_time() {
        let now = Time(SLOT_MS * 1_000 + 5);
        let slot = |back: u64, up| Slot { at: Time((1_000 - back) * SLOT_MS), up_permille: up };
        let slots =
            [slot(0, Some(1_000)), slot(1, Some(500)), slot(2, Some(0)), slot(96, Some(1_000))];
        let line = timeline(&slots, now, "r0").to_string();
        for part in [
            "class=\"up\" x=\"380\" y=\"0\" width=\"4\"",
            "class=\"partly\" x=\"376\" y=\"8\" width=\"4\"",
            "class=\"down\" x=\"372\" y=\"16\" width=\"4\"",
            "class=\"unwanted\" x=\"0\" y=\"22\" width=\"372\"",
            "throughout in 1, partly in 1, not at all in 1; no link was wanted in 93.",
        ] {
            assert!(line.contains(part), "{part} is missing in {line}");
        }
        assert_eq!(line.matches("<rect").count(), 4, "a slot older than a day is not drawn");
    }
}
