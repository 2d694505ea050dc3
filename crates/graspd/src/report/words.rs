//! One sentence for each thing in the way, in the same words wherever it is told. Hosts, never whole
//! addresses of strangers; what they said, cleaned and short.

use super::sight::Identity;
use super::text::{WORDS_MAX, shown};
use super::when::clock;
use crate::ingest::{Rest, Waiting};
use grasp_core::{CloneUrl, Domain, Time};
use grasp_engine::hunt::{DomainView, HuntView, SourceView};
use grasp_engine::{RelayView, Wait};

/// What is going on with one relay.
pub(super) fn relay(view: &RelayView, identity: &Identity, now: Time) -> String {
    let link = match (view.connected, view.connecting) {
        (true, _) => "connected",
        (false, true) => "connecting",
        (false, false) => "not connected",
    };
    let mut sentence = format!(
        "{}: {link}, {} repositories, {} threads; {} of {} groups of questions answered",
        identity.relay_host(&view.relay),
        view.repositories,
        view.roots,
        view.confirmed,
        view.confirmed + view.pending + view.missing,
    );
    if view.connected && view.health.failures() > 0 {
        sentence += &format!(", after {} failed attempts", view.health.failures());
    }
    if view.in_rotation > 0 {
        sentence += &format!(", {} asked in turn", view.in_rotation);
    }
    sentence += &batches(view, now);
    if let Some(why) = &view.comparison_failure {
        let why = shown(why, WORDS_MAX);
        sentence += &format!("; read in pages because comparing failed: {why}");
    }
    if view.full_seconds > 0 {
        let count = view.full_seconds;
        sentence += &format!("; {count} seconds have more events than it gives out");
    }
    if view.shares_address_with > 0 {
        let others = view.shares_address_with;
        sentence += &format!("; takes turns with {others} other relays at its network address");
    }
    if view.budget.by_name {
        let (refused, received) = (view.budget.refused, view.budget.received());
        sentence += &format!("; {refused} of its {received} events were refused");
        sentence += ", so it is asked only for known repositories";
    }
    sentence += &match &view.waits {
        None => String::new(),
        Some(Wait::Ourselves) => "; this very server under another name".to_owned(),
        Some(Wait::NotFollowed { why }) => format!("; not followed: {why}"),
        Some(Wait::Place) => "; waits for a free place".to_owned(),
        Some(Wait::Address) => "; waits for its turn".to_owned(),
        Some(Wait::Retry { until }) => format!("; tried again at {}", clock(*until, now)),
        Some(Wait::Cooldown { until }) => {
            format!("; asked us to slow down, left alone until {}", clock(*until, now))
        }
        Some(Wait::Pause { until }) => {
            format!("; does not want our questions, left alone until {}", clock(*until, now))
        }
        Some(Wait::Unanswered { until }) => {
            format!("; left questions unanswered, asked again at {}", clock(*until, now))
        }
    };
    sentence
}

/// `; batch 12 compares 3 groups, 2 questions open since 14:02 UTC`
fn batches(view: &RelayView, now: Time) -> String {
    let told = view.batches.iter().map(|batch| {
        let verb = if batch.compares { "compares" } else { "reads" };
        let (id, groups, open) = (batch.id, batch.groups, batch.outstanding);
        let since = clock(batch.since, now);
        format!("; batch {id} {verb} {groups} groups, {open} questions open since {since}")
    });
    told.collect()
}

/// Sources that are named in a sentence; of the rest only the number.
const TRIED_MAX: usize = 5;

/// `state 5f3a… waits for git object 12f0…; tried a.example: 404, b.example: rate limited until
/// 14:05 UTC; next try 14:02 UTC at c.example`
pub(super) fn waits(
    it: &Waiting,
    hunt: Option<&HuntView>,
    domains: &[DomainView],
    now: Time,
) -> String {
    let mut sentence = it.words.clone();
    if let Some(hunt) = hunt {
        sentence += &tried(hunt, domains, now);
        sentence += &next(hunt, now);
    }
    let until = clock(it.until, now);
    sentence += &match it.rest {
        Rest::Awake => format!("; given up at {until} unless it comes"),
        Rest::Asleep => format!("; it sleeps until {until}, and a state or a push wakes it"),
        Rest::Wanted => {
            format!("; nothing waits for it any more, but it is looked for until {until}")
        }
    };
    sentence
}

fn tried(hunt: &HuntView, domains: &[DomainView], now: Time) -> String {
    let asked: Vec<&SourceView> = hunt.sources.iter().filter(|it| it.asked.is_some()).collect();
    let named = asked.iter().take(TRIED_MAX).map(|it| said(it, domains, now));
    let named = named.collect::<Vec<_>>().join(", ");
    match (asked.len(), hunt.sources.len()) {
        (0, 0) => "; no other server is named that could have it".to_owned(),
        (0, _) => "; nobody was asked yet".to_owned(),
        (count, _) if count > TRIED_MAX => {
            format!("; tried {named} and {} more", count - TRIED_MAX)
        }
        _ => format!("; tried {named}"),
    }
}

fn said(source: &SourceView, domains: &[DomainView], now: Time) -> String {
    let (host, domain) = (host(&source.url), source.url.domain());
    let paused = domains.iter().find(|it| it.domain == domain).and_then(|it| it.paused_until);
    match paused.filter(|until| *until > now) {
        Some(until) => format!("{host}: rate limited until {}", clock(until, now)),
        None => format!("{host}: {}", told(source)),
    }
}

/// With its port, if that is not the usual one.
pub(super) fn host(url: &CloneUrl) -> String {
    shown(&url.host_and_port(), WORDS_MAX)
}

/// What a source last said, fit to be shown.
pub(super) fn told(source: &SourceView) -> String {
    match (&source.said[..], source.asked) {
        ("", None) => "not asked yet".to_owned(),
        ("", Some(_)) => "being asked".to_owned(),
        (said, _) => {
            // Most of what is said of a server begins with its name.
            let host = source.url.host_and_port();
            let bare = said.strip_prefix(&host).and_then(|rest| rest.strip_prefix(": "));
            shown(bare.unwrap_or(said), WORDS_MAX)
        }
    }
}

fn next(hunt: &HuntView, now: Time) -> String {
    let hosts = |urls: &[CloneUrl]| {
        let mut hosts: Vec<String> = urls.iter().map(host).collect();
        hosts.dedup();
        hosts.join(" and ")
    };
    if !hunt.running.is_empty() {
        return format!("; being fetched from {}", hosts(&hunt.running));
    }
    let mut sentence = match hunt.next {
        Some(at) if at > now => format!("; next try {}", clock(at, now)),
        Some(_) => "; next try now".to_owned(),
        None if hunt.waits_for.is_empty() => return String::new(),
        None => "; next try".to_owned(),
    };
    let bare = |it: &Domain| it.as_str().trim_end_matches(":443").to_owned();
    let places: Vec<String> = hunt.waits_for.iter().map(bare).collect();
    if let Some(first) = places.first() {
        sentence += &format!(" at {first}");
        if places.len() > 1 {
            sentence += &format!(" or {} others", places.len() - 1);
        }
        sentence += ", in its turn";
    } else if let Some(fresh) = hunt.sources.iter().find(|it| it.asked.is_none()) {
        sentence += &format!(" at {}", host(&fresh.url));
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_engine::hunt::FamilyId;

    fn source(host: &str, said: &str, asked: Option<u64>) -> SourceView {
        let url = format!("https://{host}/npub1/acme.git").parse().unwrap();
        let (found, absent) = (0, 0);
        SourceView { url, asked: asked.map(Time::from_secs), said: said.into(), found, absent }
    }

    fn hunt(sources: Vec<SourceView>) -> HuntView {
        let owner = grasp_core::PubKey::from_bytes([1; 32]);
        HuntView {
            family: FamilyId { owner, identifier: "acme".parse().unwrap() },
            attempts: 1,
            next: Some(Time::from_secs(14 * 3600 + 120)),
            running: Vec::new(),
            waits_for: Vec::new(),
            waits_for_room: false,
            wants: 1,
            held: true,
            sources,
        }
    }

    fn told_of(hunt: &HuntView, domains: &[DomainView]) -> String {
        let now = Time::from_secs(14 * 3600);
        tried(hunt, domains, now) + &next(hunt, now)
    }

    #[test]
    fn it_says_who_was_asked_what_they_said_and_who_is_next() {
        let mut hunt = hunt(vec![
            source("a.example", "a.example: it has no such repository (status 404)", Some(1)),
            source("b.example", "429", Some(2)),
            source("c.example", "", None),
        ]);
        let paused = DomainView {
            domain: hunt.sources[1].url.domain(),
            in_flight: 0,
            in_flight_max: 5,
            queued: 0,
            starts_in_window: 0,
            starts_max: 30,
            paused_until: Some(Time::from_secs(14 * 3600 + 300)),
            grasp: false,
            failing: true,
            bytes_left: 0,
            requests: 1,
        };
        assert_eq!(
            told_of(&hunt, &[paused]),
            "; tried a.example: it has no such repository (status 404), b.example: rate limited \
             until 14:05 UTC; next try 14:02 UTC at c.example"
        );
        hunt.running = vec![hunt.sources[2].url.clone()];
        let told = told_of(&hunt, &[]);
        assert!(told.ends_with("; being fetched from c.example"), "{told}");
        hunt.running.clear();
        hunt.waits_for = vec![hunt.sources[0].url.domain(), hunt.sources[1].url.domain()];
        let told = told_of(&hunt, &[]);
        assert!(
            told.ends_with("; next try 14:02 UTC at a.example or 1 others, in its turn"),
            "{told}"
        );
    }

    #[test]
    fn where_nobody_can_be_asked_it_says_so() {
        assert!(told_of(&hunt(Vec::new()), &[]).starts_with("; no other server is named"));
        let unasked = hunt(vec![source("a.example", "", None)]);
        assert!(told_of(&unasked, &[]).starts_with("; nobody was asked yet"));
    }

    #[test]
    fn what_a_stranger_said_is_cleaned_and_short() {
        let nasty = format!("\u{1b}[2J{}", "x".repeat(1_000));
        let told = told_of(&hunt(vec![source("a.example", &nasty, Some(1))]), &[]);
        assert!(!told.contains('\u{1b}') && told.len() < 400, "{told}");
    }
}
