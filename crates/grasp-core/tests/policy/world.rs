//! People, events and the one `check` that all tables go through. Events are unsigned: judging
//! never verifies.

use grasp_core::event::{Event, Rank, Tag};
use grasp_core::id::{EventId, Oid, PubKey, RepoId, Signature};
use grasp_core::maintainers::{Family, MaintainerRule, Member, Standing};
use grasp_core::nip34::Roles;
use grasp_core::policy::{About, Facts, Origin, Rules, Subject, Verdict, judge};
use grasp_core::service::{Authority, Service};
use grasp_core::{Kind, Timestamp};

pub(crate) const NOW: Timestamp = Timestamp(1_000_000);
pub(crate) const OID: &str = "1111111111111111111111111111111111111111";

/// `a`, `b`, `c`... in the order of their keys.
pub(crate) fn who(name: char) -> PubKey {
    PubKey::from_bytes([name as u8; 32])
}

pub(crate) fn oid() -> Oid {
    OID.parse().unwrap()
}

pub(crate) fn acme(owner: char) -> RepoId {
    RepoId { owner: who(owner), identifier: "acme".parse().unwrap() }
}

pub(crate) fn coordinate(owner: char) -> String {
    acme(owner).coordinate().to_string()
}

/// A second before `NOW`, with an id in the middle.
pub(crate) fn event(kind: u16, author: char) -> Event {
    Event {
        id: EventId::from_bytes([0x80; 32]),
        pubkey: who(author),
        created_at: Timestamp(NOW.0 - 1),
        kind: Kind(kind),
        tags: Vec::new(),
        content: String::new(),
        sig: Signature::from_bytes([0; 64]),
    }
}

pub(crate) trait Draft {
    fn tag(self, words: &[&str]) -> Self;
    fn at(self, secs: u64) -> Self;
    fn asking_for_us(self) -> Self;
}

impl Draft for Event {
    fn tag(mut self, words: &[&str]) -> Self {
        self.tags.push(Tag(words.iter().map(|word| (*word).to_owned()).collect()));
        self
    }

    fn at(mut self, secs: u64) -> Self {
        self.created_at = Timestamp(secs);
        self
    }

    fn asking_for_us(self) -> Self {
        let clone = format!("https://git.example/{}/acme.git", self.pubkey.to_npub());
        self.tag(&["clone", &clone]).tag(&["relays", "wss://git.example"])
    }
}

/// An announcement of `acme` that does not ask for us.
pub(crate) fn announces(author: char) -> Event {
    event(30617, author).tag(&["d", "acme"])
}

pub(crate) fn states(author: char) -> Event {
    event(30618, author).tag(&["d", "acme"])
}

pub(crate) fn rules() -> Rules {
    Rules {
        service: Service::new(Authority::parse("git.example").unwrap(), Vec::new(), ""),
        maintainer_rule: MaintainerRule::Confirmed,
        repository_whitelist: Vec::new(),
        repository_blacklist: Vec::new(),
        event_blacklist: [].into(),
        respect_deletions: true,
        relay_key: who('z'),
        created_at_ahead_secs_max: Rules::CREATED_AT_AHEAD_SECS_MAX,
        grasp_lists_max: 2,
    }
}

pub(crate) fn listed_rules() -> Rules {
    Rules { maintainer_rule: MaintainerRule::Listed, ..rules() }
}

/// Announcements in one line: `"a: M=a m=b; b?: list=a"`. A `?` means held, `=` names a key,
/// `@1,2` are boundaries, `list` is the old `maintainers` tag.
pub(crate) fn family(text: &str) -> Family {
    text.split(';').filter(|part| !part.trim().is_empty()).map(member).collect()
}

fn member(text: &str) -> (PubKey, Member) {
    let (author, records) = text.trim().split_once(':').unwrap();
    let name = author.chars().next().unwrap();
    let standing = if author.ends_with('?') { Standing::Held } else { Standing::Served };
    (who(name), Member { roles: roles(name, records), standing })
}

pub(crate) fn roles(author: char, records: &str) -> Roles {
    let tagged = records.split_whitespace().fold(announces(author), |event, record| {
        let (letter, rest) = record.split_once('=').unwrap();
        let letter = if letter == "list" { "maintainers" } else { letter };
        let (name, boundaries) = rest.split_once('@').unwrap_or((rest, ""));
        let key = who(name.chars().next().unwrap()).to_hex();
        let boundaries = boundaries.split(',').filter(|b| !b.is_empty());
        event.tag(&[letter, &key].into_iter().chain(boundaries).collect::<Vec<_>>())
    });
    Roles::of(&tagged)
}

pub(crate) fn people(names: &str) -> std::collections::BTreeSet<PubKey> {
    names.chars().map(who).collect()
}

pub(crate) fn older(event: &Event) -> Rank {
    Rank { created_at: Timestamp(event.created_at.0 - 10), id: event.id }
}

pub(crate) fn newer(event: &Event) -> Rank {
    Rank { created_at: Timestamp(event.created_at.0 + 10), id: event.id }
}

pub(crate) fn verdict(event: &Event, facts: &Facts, rules: &Rules, origin: Origin) -> Verdict {
    match Subject::of(event, rules) {
        Ok(subject) => judge(event, &subject, facts, rules, origin, NOW),
        Err(reason) => Verdict::Reject(reason),
    }
}

/// Reads as the row it tests: this event, these facts, that verdict.
pub(crate) fn check(row: &str, event: &Event, facts: &Facts, expected: &str) {
    check_under(row, event, facts, &rules(), expected);
}

pub(crate) fn check_under(row: &str, event: &Event, facts: &Facts, rules: &Rules, expected: &str) {
    let verdict = verdict(event, facts, rules, Origin::Direct);
    assert_eq!(verdict.code(), expected, "{row}: {}", verdict.answer().text);
}

pub(crate) fn anchored(anchor: Option<Standing>) -> Facts {
    Facts::new(About::Related(anchor))
}
