//! Numbers, times and states as people say them. Knows no HTML.

use crate::report::text::{DESCRIPTION_MAX, WORDS_MAX, shown};
use crate::report::when::{Calendar, LAST_SECOND};
use crate::report::{Held, Ledger, Verdict};
use grasp_core::{EventId, Oid, Time};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Names of refs, repositories, hosts: one line, without what cannot be seen.
pub(super) fn name(text: &str) -> String {
    shown(text, WORDS_MAX)
}

pub(super) fn long(text: &str) -> String {
    shown(text, DESCRIPTION_MAX)
}

/// What can be counted; templates hand over references.
pub(super) trait Number {
    fn number(&self) -> u64;
}

impl Number for u64 {
    fn number(&self) -> u64 {
        *self
    }
}

impl Number for usize {
    fn number(&self) -> u64 {
        u64::try_from(*self).unwrap_or(u64::MAX)
    }
}

impl<N: Number> Number for &N {
    fn number(&self) -> u64 {
        (**self).number()
    }
}

/// `1,234,567`
pub(super) fn count(number: impl Number) -> String {
    let digits = number.number().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 relay`, `2 relays`
pub(super) fn counted(number: impl Number, one: &str, many: &str) -> String {
    let number = number.number();
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

pub(super) fn bytes(number: u64) -> String {
    grasp_core::human_bytes(number)
}

pub(super) fn permille(number: u16) -> String {
    match (number / 10, number % 10) {
        (whole, 0) => format!("{whole} %"),
        (whole, tenth) => format!("{whole}.{tenth} %"),
    }
}

pub(super) fn percent(number: f64) -> String {
    if number.is_nan() {
        return "unknown".to_owned();
    }
    // Rounded down: only what was always there is 100 %.
    let text = format!("{:.1}", (number.clamp(0.0, 100.0) * 10.0).floor() / 10.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// The two largest units that matter.
pub(super) fn span(secs: impl Number) -> String {
    let secs = secs.number();
    let two = |whole: u64, unit: &str, rest: u64, small: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {small}"),
    };
    match secs {
        0..MINUTE => format!("{secs} s"),
        MINUTE..HOUR => format!("{} min", secs / MINUTE),
        HOUR..DAY => two(secs / HOUR, "h", secs % HOUR / MINUTE, "min"),
        _ => match secs / DAY {
            1 => two(1, "day", secs % DAY / HOUR, "h"),
            days if days < 7 => two(days, "days", secs % DAY / HOUR, "h"),
            days => format!("{} days", count(days)),
        },
    }
}

pub(super) fn ago(now: &Time, time: &Time) -> String {
    match now.0.abs_diff(time.0) / 1_000 {
        0..10 => "just now".to_owned(),
        secs if time > now => format!("in {}", span(secs)),
        secs => format!("{} ago", span(secs)),
    }
}

pub(super) fn left(now: &Time, time: &Time) -> String {
    match time.since(*now).as_secs() {
        0 => "any moment now".to_owned(),
        secs => format!("in {}", span(secs)),
    }
}

/// `2025-11-16T10:03:00Z`
pub(super) fn iso(time: &Time) -> String {
    let Calendar { year, month, day, hour, minute, second } = Calendar::of(*time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `16 Nov 2025, 10:03 UTC`
pub(super) fn utc(time: &Time) -> String {
    if time.0 / 1_000 > LAST_SECOND {
        return "after the year 9999".to_owned();
    }
    let Calendar { year, month, day, hour, minute, .. } = Calendar::of(*time);
    let month = usize::try_from(month).unwrap_or(0).saturating_sub(1);
    let month = MONTHS.get(month).copied().unwrap_or_default();
    format!("{day} {month} {year}, {hour:02}:{minute:02} UTC")
}

/// What people call a repository.
pub(super) fn title(name: &str, identifier: &str) -> String {
    match self::name(name) {
        empty if empty.is_empty() => self::name(identifier),
        name => name,
    }
}

/// Beginning and end of a key, or of anything as long.
pub(super) fn short(text: &str) -> String {
    let text = name(text);
    let chars: Vec<char> = text.chars().collect();
    match (chars.get(..12), chars.len().checked_sub(6).and_then(|at| chars.get(at..))) {
        (Some(start), Some(end)) if chars.len() > 24 => {
            format!("{}…{}", start.iter().collect::<String>(), end.iter().collect::<String>())
        }
        _ => text,
    }
}

pub(super) fn short_id(id: &EventId) -> String {
    short(&id.to_string())
}

/// As git shortens them, with room to spare.
pub(super) fn short_oid(oid: &Oid) -> String {
    oid.to_string().chars().take(12).collect()
}

/// What a repository is called, or its address where nothing is known of its name.
pub(super) fn repository_name(called: &Option<String>, address: &str) -> String {
    called.as_ref().map_or_else(|| short_repo(address), |called| name(called))
}

/// `<npub>/<identifier>` with a short owner.
pub(super) fn short_repo(text: &str) -> String {
    match text.split_once('/') {
        Some((npub, identifier)) => format!("{}/{}", short(npub), name(identifier)),
        None => name(text),
    }
}

/// Without `wss://`.
pub(super) fn host(relay: &str) -> String {
    let place = relay.split_once("://").map_or(relay, |(_, place)| place);
    name(place.trim_end_matches('/'))
}

pub(super) fn kind(kind: &u16) -> String {
    match kind {
        30_617 => "Announcement".to_owned(),
        30_618 => "State".to_owned(),
        1_617 => "Patch".to_owned(),
        1_618 => "Pull request".to_owned(),
        1_619 => "Pull request update".to_owned(),
        1_621 => "Issue".to_owned(),
        other => format!("Event of kind {other}"),
    }
}

/// The phases of waiting: for the eye, and in words.
pub(super) fn phase(held: &Held) -> (&'static str, &'static str) {
    match held.phase.as_str() {
        "asleep" => ("asleep", "asleep until a state comes"),
        "wanted" => ("wanted", "given up, still looked for"),
        _ => ("awake", "waiting"),
    }
}

/// What happens at its deadline.
pub(super) fn deadline(held: &Held) -> &'static str {
    match held.phase.as_str() {
        "wanted" => "Looked for until",
        "asleep" => "Forgotten at",
        _ => "Waits until",
    }
}

pub(super) fn health(health: &str) -> &'static str {
    match health {
        "healthy" => "healthy",
        "degraded" => "degraded: some attempts failed",
        "dead" => "dead: it has not answered for long",
        "banned" => "banned: it is left alone",
        _ => "unknown",
    }
}

pub(super) fn verdict(verdict: &Verdict) -> Said {
    match verdict {
        Verdict::Equal => Said { class: "equal", sign: "✓", words: "equal" },
        Verdict::WeLack => Said { class: "we-lack", sign: "↓", words: "we lack" },
        Verdict::TheyLack => Said { class: "they-lack", sign: "↑", words: "they lack" },
        Verdict::Unverifiable => Said { class: "unverifiable", sign: "?", words: "unverifiable" },
        Verdict::Checking => Said { class: "checking", sign: "…", words: "checking" },
    }
}

/// A verdict for the eye, for those who see no colours, and for the ear.
pub(super) struct Said {
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
    pub(super) words: &'static str,
}

pub(super) fn compared(ledger: &Ledger) -> u64 {
    let Ledger { equal, we_lack, they_lack, unverifiable, checking, .. } = *ledger;
    [equal, we_lack, they_lack, unverifiable, checking]
        .iter()
        .fold(0, |sum: u64, count| sum.saturating_add(*count))
}

/// `3 of 4 mirrors equal`
pub(super) fn mirrors(ledger: &Ledger) -> String {
    match (ledger.equal, compared(ledger)) {
        (_, 0) => "no other mirror known".to_owned(),
        (1, 1) => "its only mirror is equal".to_owned(),
        (equal, all) if equal == all => format!("all {} mirrors equal", count(all)),
        (equal, all) => {
            let checking = match ledger.checking {
                0 => String::new(),
                some => format!(", {} being checked", count(some)),
            };
            format!("{} of {} equal{checking}", count(equal), counted(all, "mirror", "mirrors"))
        }
    }
}

#[cfg(test)]
mod tests;
