//! Why a verdict is what it is, in words for people. Hosts are told elsewhere; here are only counts,
//! names of refs, and classes of what went wrong.

use super::row::{Counts, RefCounts, Seen, Why};
use crate::report::Giving;
use crate::report::text::shown;
use crate::report::when::clock;
use grasp_core::Time;

const NAME_CHARS_MAX: usize = 80;
/// More names than these are told as a number.
const NAMES_TOLD: usize = 2;

/// How one side stands: what it has all of, what it lacks, what stands in the way.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    has: Vec<String>,
    lacks: Vec<String>,
    ahead: Vec<String>,
    other: Vec<String>,
}

impl Clauses {
    pub(super) fn add(&mut self, seen: &Seen, now: Time) {
        match seen {
            Seen::Events(counts) => self.events(counts),
            Seen::Refs(counts) => self.refs(counts),
            Seen::Nothing(why) => self.other.push(obstacle(*why, now)),
        }
    }

    pub(super) fn old(&mut self, what: &str, at: Time, now: Time) {
        self.other.push(match at > now {
            true => format!("its {what} were last looked at by a clock that was ahead"),
            false => {
                let at = clock(at, now);
                format!("its {what} were last looked at {at}, which is too long ago")
            }
        });
    }

    /// It was looked at before something changed here, and is about to be looked at again.
    pub(super) fn checking(&mut self, what: &str, changed: Time, now: Time) {
        let at = clock(changed, now);
        self.other.push(format!("its {what} are being checked after the change at {at}"));
    }

    /// The server knows nothing of the repository: both ways to tell it.
    pub(super) fn never_told(&mut self, target: &str, own_relay: &str) {
        let target = shown(target, NAME_CHARS_MAX);
        self.other.push(format!(
            "it was never told of this repository: publish the announcement to {target}, or have its \
             operator set NGIT_SYNC_BOOTSTRAP_RELAY_URL={own_relay}"
        ));
    }

    pub(super) fn unseen(&mut self, what: &str) {
        self.other.push(format!("its {what} were not looked at yet"));
    }

    fn events(&mut self, counts: &Counts) {
        let ours = counts.both.saturating_add(counts.they_lack);
        match counts.they_lack {
            0 => self.has.push(all_of(ours, "event")),
            lacks => self.lacks.push(format!("{lacks} of {}", counted(ours, "event"))),
        }
        if counts.no_room > 0 {
            let events = counted(counts.no_room, "event");
            let again = "and this server has no room for; they are asked for again";
            self.ahead.push(format!("has {events} that we lack {again}"));
        }
        let kept = counts.we_lack.saturating_sub(counts.no_room);
        if kept > 0 {
            self.ahead.push(format!("names {} that it does not give out", counted(kept, "event")));
        }
    }

    fn refs(&mut self, counts: &RefCounts) {
        let signed = counts.equal + counts.they_lack + counts.we_lack + counts.unknown;
        let names: Vec<String> =
            counts.names.iter().map(|name| shown(name, NAME_CHARS_MAX)).collect();
        let told = |count: u64| match usize::try_from(count) {
            Ok(count) if count <= NAMES_TOLD && names.len() == count => names.join(" and "),
            _ => format!("{count} of {}", counted(signed, "ref")),
        };
        match (counts.they_lack, counts.we_lack) {
            (0, 0) if counts.unknown > 0 => {
                let what = told(counts.unknown);
                self.ahead
                    .push(format!("has {what} unlike any state known here, so it may be ahead"));
            }
            (0, 0) if counts.objects == Giving::Lacking => {}
            (0, 0) => self.has.push(all_of(signed, "ref")),
            (0, ahead) => {
                let what = told(ahead);
                self.ahead
                    .push(format!("has {what} as signed in a state whose objects are not here"));
            }
            (lacks, _) => self.lacks.push(told(lacks)),
        }
        self.objects(counts);
    }

    fn objects(&mut self, counts: &RefCounts) {
        let (refs, whose) =
            (counted(counts.equal, "ref"), if counts.equal == 1 { "its" } else { "their" });
        match counts.objects {
            Giving::Lacking => {
                self.ahead.push(format!("lists {refs} but does not give out {whose} objects"));
            }
            Giving::Unknown if counts.equal > 0 => {
                self.other.push("its objects were not looked at".to_owned());
            }
            Giving::Given | Giving::Unknown => {}
        }
    }

    /// One sentence, without its stop.
    pub(super) fn sentence(self) -> String {
        let mut parts = Vec::new();
        if !self.lacks.is_empty() {
            parts.push(format!("lacks {}", self.lacks.join(" and ")));
        }
        parts.extend(self.ahead);
        if !self.has.is_empty() {
            parts.push(format!("has {}", self.has.join(" and ")));
        }
        parts.extend(self.other);
        parts.join("; ")
    }
}

fn all_of(count: u64, what: &str) -> String {
    match count {
        0 => format!("no {what} to have"),
        1 => format!("the one {what}"),
        _ => format!("all {count} {what}s"),
    }
}

fn counted(count: u64, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}

fn obstacle(why: Why, now: Time) -> String {
    match why {
        Why::NoNegentropy => "does not speak NIP-77, so its events cannot be compared".to_owned(),
        Why::TurnedOff => "comparing events is turned off on this server".to_owned(),
        Why::Unreachable { since } => format!("not reachable since {}", clock(since, now)),
        Why::Keeps => {
            "names events that it does not give out, so what it says is worth nothing".to_owned()
        }
        Why::Hides => {
            "hides events when they are compared, so its comparisons are ignored for a day"
                .to_owned()
        }
        Why::Failed => "does not come to an end when its events are compared".to_owned(),
        Why::Refused => "does not want our questions".to_owned(),
        Why::RateLimited { until } => {
            format!("asked us to slow down, so it is left alone until {}", clock(until, now))
        }
        Why::NotFound => "says that it has no such repository".to_owned(),
        Why::TooLarge => "lists more refs than are read".to_owned(),
        Why::Forbidden => "is at an address that may not be asked".to_owned(),
        Why::Unclear => "does not answer as a git server does".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_700_000_000);

    fn said(sides: &[Seen]) -> String {
        let mut clauses = Clauses::default();
        sides.iter().for_each(|seen| clauses.add(seen, NOW));
        clauses.sentence()
    }

    fn events(both: u64, they_lack: u64, we_lack: u64) -> Seen {
        Seen::Events(Counts { both, they_lack, we_lack, ..Counts::default() })
    }

    fn refs(equal: u64, they_lack: u64, we_lack: u64, names: &[&str]) -> Seen {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let objects = Giving::Given;
        Seen::Refs(RefCounts { equal, they_lack, we_lack, objects, names, ..RefCounts::default() })
    }

    fn giving(seen: Seen, objects: Giving) -> Seen {
        match seen {
            Seen::Refs(counts) => Seen::Refs(RefCounts { objects, ..counts }),
            other => other,
        }
    }

    #[test]
    fn s43_the_reason_is_one_sentence() {
        for (sides, sentence) in [
            (vec![events(120, 0, 0), refs(14, 0, 0, &[])], "has all 120 events and all 14 refs"),
            (
                vec![events(117, 3, 0), refs(13, 1, 0, &["refs/heads/main"])],
                "lacks 3 of 120 events and refs/heads/main",
            ),
            (vec![events(9, 1, 0), refs(2, 0, 0, &[])], "lacks 1 of 10 events; has all 2 refs"),
            (vec![refs(10, 4, 0, &["refs/heads/a"])], "lacks 4 of 14 refs"),
            (
                vec![refs(1, 0, 1, &["refs/heads/main"])],
                "has refs/heads/main as signed in a state whose objects are not here",
            ),
            (
                vec![events(9, 0, 0), giving(refs(14, 0, 0, &[]), Giving::Lacking)],
                "lists 14 refs but does not give out their objects; has all 9 events",
            ),
            (
                vec![giving(refs(1, 1, 0, &["refs/heads/a"]), Giving::Lacking)],
                "lacks refs/heads/a; lists 1 ref but does not give out its objects",
            ),
            (
                vec![giving(refs(2, 0, 0, &[]), Giving::Unknown)],
                "has all 2 refs; its objects were not looked at",
            ),
            (vec![giving(refs(0, 1, 0, &["refs/heads/a"]), Giving::Unknown)], "lacks refs/heads/a"),
            (
                vec![Seen::Events(Counts { both: 9, we_lack: 2, no_room: 2, ..Counts::default() })],
                "has 2 events that we lack and this server has no room for; they are asked for \
                 again; has all 9 events",
            ),
            (
                vec![Seen::Refs(RefCounts { equal: 1, unknown: 2, ..RefCounts::default() })],
                "has 2 of 3 refs unlike any state known here, so it may be ahead; its objects were \
                 not looked at",
            ),
            (vec![events(9, 0, 1)], "names 1 event that it does not give out; has all 9 events"),
            (
                vec![Seen::Nothing(Why::NoNegentropy), refs(1, 0, 0, &[])],
                "has the one ref; does not speak NIP-77, so its events cannot be compared",
            ),
            (
                vec![Seen::Nothing(Why::Unreachable { since: Time::from_secs(1_699_999_320) })],
                "not reachable since 22:02 UTC",
            ),
            (
                vec![Seen::Nothing(Why::Unreachable { since: Time::from_secs(951_827_696) })],
                "not reachable since 2000-02-29 12:34 UTC",
            ),
        ] {
            assert_eq!(said(&sides), sentence);
        }
    }

    #[test]
    fn s43_names_of_refs_cannot_steer_a_terminal() {
        assert_eq!(said(&[refs(0, 1, 0, &["refs/heads/\u{1b}[2Jx"])]), "lacks refs/heads/ [2Jx");
    }
}
