//! The shapes of the API as a person reads them. Pure: from a shape to a sheet. What is said in whole
//! sentences is said in the same words everywhere, so it is only laid out here.

use crate::ops::print::{Cell, Sheet, Tone, cell, repositories, toned};
use crate::report::text::bytes;
use crate::report::when::{distance, moment, span, stamp};
use crate::report::{
    EventReport, Held, Ledger, Mirror, Origin, Purgatory, Relay, Relays, Repo, RepoLine, Repos,
    Server, Status, Totals, Verdict,
};
use grasp_core::{Kind, Time};
use std::time::Duration;

/// Ids are told apart by much less than all of their digits.
const ID_CHARS: usize = 12;
const REFS_SHOWN: usize = 50;
const ACTIVITY_SHOWN: usize = 10;

pub(super) fn status(sheet: &mut Sheet, it: &Status) {
    server(sheet, &it.server);
    sheet.heading("Totals");
    totals(sheet, &it.totals);
    sheet.heading("Compared with others");
    ledger(sheet, &it.ledger);
    sheet.heading("Problems");
    if it.problems.is_empty() {
        sheet.toned_line("none", Tone::Good);
    }
    it.problems.iter().for_each(|problem| sheet.item(problem));
    if !it.activity.is_empty() {
        sheet.heading("Latest");
    }
    for one in it.activity.iter().take(ACTIVITY_SHOWN) {
        let times = if one.count > 1 { format!("{} x ", one.count) } else { String::new() };
        sheet.pair(&distance(one.at, it.now), format!("{times}{}", one.text));
    }
}

fn server(sheet: &mut Sheet, it: &Server) {
    sheet.heading(&it.name);
    sheet.pair("about", &it.description);
    sheet.pair("relay", &it.relay);
    sheet.pair("clone", &it.clone);
    sheet.pair("key", &it.npub);
    sheet.pair("version", &it.version);
    sheet.pair("syncs", if it.syncs { "yes" } else { "no" });
    let running = it.uptime_secs.map(|secs| format!("for {}", span(Duration::from_secs(secs))));
    sheet.pair("runs", running.as_deref().unwrap_or("no"));
    let (used, budget) = (bytes(it.disk_used_bytes), bytes(it.disk_budget_bytes));
    sheet.pair("event store", format!("{used} of {budget} used"));
    let git = it.git_used_bytes.map_or_else(|| "being measured".to_owned(), bytes);
    sheet.pair("git on disk", git);
}

fn totals(sheet: &mut Sheet, it: &Totals) {
    sheet.pair("announced", format!("{} repositories", it.announcements));
    sheet.pair("events", format!("{} ({} wait, {} wanted)", it.events, it.held, it.wanted));
    let (connected, dead) = (it.relays_connected, it.relays_dead);
    sheet.pair("relays", format!("{} ({connected} connected, {dead} dead)", it.relays));
    sheet.pair("git data", format!("{} looked for, {} being fetched", it.hunts, it.fetching));
}

fn ledger(sheet: &mut Sheet, it: &Ledger) {
    sheet.toned_pair("equal", &count(it.equal, Tone::Good));
    sheet.toned_pair("we lack", &count(it.we_lack, Tone::Bad));
    sheet.toned_pair("they lack", &count(it.they_lack, Tone::Unsure));
    sheet.toned_pair("unverifiable", &count(it.unverifiable, Tone::Unsure));
    let secs = |secs| span(Duration::from_secs(secs));
    sheet.pair("oldest", format!("{} of at most {}", secs(it.oldest_secs), secs(it.age_max_secs)));
}

/// `why_none` is the sentence for an empty list.
pub(super) fn relays(sheet: &mut Sheet, it: &Relays, why_none: &str) {
    if it.relays.is_empty() {
        return sheet.line(why_none);
    }
    let rows: Vec<Vec<Cell>> = it.relays.iter().map(relay).collect();
    sheet.table(&["RELAY", "HEALTH", "UPTIME", "REPOS", "COVERAGE", "WHAT"], &rows);
}

fn relay(it: &Relay) -> Vec<Cell> {
    let health = match (it.health.as_str(), it.connected) {
        ("healthy", true) => toned("linked", Tone::Good),
        ("healthy", false) => toned("not linked", Tone::Unsure),
        (health, _) => toned(health, Tone::Bad),
    };
    let percent = it.uptime_percent.map(|percent| format!("{percent:.1} %"));
    let coverage = it.coverage_permille.map(|part| format!("{:.1} %", f64::from(part) / 10.0));
    let missing = || "-".to_owned();
    vec![
        cell(&it.relay),
        health,
        cell(percent.unwrap_or_else(missing)),
        cell(it.repositories.to_string()),
        cell(coverage.unwrap_or_else(missing)),
        cell(&it.explain),
    ]
}

pub(super) fn repos(sheet: &mut Sheet, it: &Repos) {
    if it.repositories.is_empty() {
        return sheet.line(match it.next {
            Some(_) => "nothing in this part of the list is hosted here",
            None => "no repositories are served",
        });
    }
    let rows: Vec<Vec<Cell>> = it.repositories.iter().map(repo_line).collect();
    sheet.table(&["REPOSITORY", "NAME", "STATE", "MIRRORS"], &rows);
}

fn repo_line(it: &RepoLine) -> Vec<Cell> {
    vec![
        repositories([format!("{}/{}", it.npub, it.identifier).as_str()]),
        cell(&it.name),
        it.state_at.map_or_else(|| toned("none", Tone::Unsure), |at| cell(stamp(at))),
        standing(&it.ledger),
    ]
}

/// All verdicts about one repository in a few words.
fn standing(it: &Ledger) -> Cell {
    let tone = match (it.we_lack, it.they_lack + it.unverifiable) {
        (0, 0) => Tone::Good,
        (0, _) => Tone::Unsure,
        _ => Tone::Bad,
    };
    let parts = [
        (it.equal, "equal"),
        (it.we_lack, "we lack"),
        (it.they_lack, "they lack"),
        (it.unverifiable, "unverifiable"),
        (it.checking, "checking"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    match words.is_empty() {
        true => cell("none"),
        false => toned(words.join(", "), tone),
    }
}

pub(super) fn repo(sheet: &mut Sheet, it: &Repo) {
    sheet.heading(&format!("{}/{}", it.npub, it.identifier));
    sheet.pair("name", &it.name);
    sheet.pair("about", &it.description);
    sheet.pair("web", it.web.join(" "));
    sheet.pair("clone", &it.clone);
    sheet.pair("with ngit", &it.nostr);
    sheet.pair("standing", &it.standing);
    sheet.pair("maintainers", it.maintainers.join(" "));
    sheet.pair("announced", origin(&it.announcement, it.now));
    let state = it.state.as_ref().map(|state| origin(state, it.now));
    let waits = it.held.iter().any(|held| held.kind == Kind::STATE.0);
    let none = if waits { "signed, and waits for its git data" } else { "nothing was signed yet" };
    sheet.pair("state", state.as_deref().unwrap_or(none));
    let more = if it.threads.more { " or more" } else { "" };
    sheet.pair("threads", format!("{} open of {}{more}", it.threads.open, it.threads.all));
    sheet.pair("events", format!("{} (fingerprint {})", it.events, it.fingerprint));
    if it.objects_missing > 0 {
        sheet.toned_pair("missing", &toned(format!("{} objects", it.objects_missing), Tone::Bad));
    }
    refs(sheet, it);
    mirrors(sheet, &it.mirrors, it.now);
    if !it.held.is_empty() {
        sheet.heading("Waiting");
        it.held.iter().for_each(|held| sheet.item(&held.explain));
    }
    obstacles(sheet, &it.explain);
}

fn origin(it: &Origin, now: Time) -> String {
    let from = it.relay.as_ref().map(|relay| format!(" from {relay}")).unwrap_or_default();
    let (at, received) = (stamp(it.created_at), distance(it.received, now));
    format!("{at} by {}, received {received} ({}{from})", it.author, it.source)
}

fn refs(sheet: &mut Sheet, it: &Repo) {
    if it.refs.is_empty() {
        return;
    }
    sheet.heading("Refs");
    let row = |one: &crate::report::Ref| {
        let head = it.head.as_deref() == Some(one.name.as_str());
        let signed = match one.signed {
            true => toned("signed", Tone::Good),
            false => toned("not signed", Tone::Unsure),
        };
        let name = if head { format!("{} (HEAD)", one.name) } else { one.name.clone() };
        vec![cell(name), cell(short(&one.oid.to_hex())), signed]
    };
    let rows: Vec<Vec<Cell>> = it.refs.iter().take(REFS_SHOWN).map(row).collect();
    sheet.table(&["REF", "COMMIT", "STATE"], &rows);
    let hidden = it.refs_total.saturating_sub(rows.len());
    if hidden > 0 {
        sheet.line(&format!("and {hidden} more"));
    }
}

fn mirrors(sheet: &mut Sheet, mirrors: &[Mirror], now: Time) {
    if mirrors.is_empty() {
        return;
    }
    sheet.heading("Mirrors");
    let row = |it: &Mirror| {
        let at = it.at.map_or_else(|| "never".to_owned(), |at| distance(at, now));
        vec![cell(&it.place), verdict(it.verdict), cell(at), cell(&it.because)]
    };
    let rows: Vec<Vec<Cell>> = mirrors.iter().map(row).collect();
    sheet.table(&["PLACE", "VERDICT", "LOOKED AT", "BECAUSE"], &rows);
}

fn verdict(it: Verdict) -> Cell {
    match it {
        Verdict::Equal => toned("equal", Tone::Good),
        Verdict::WeLack => toned("we lack", Tone::Bad),
        Verdict::TheyLack => toned("they lack", Tone::Unsure),
        Verdict::Unverifiable => toned("unverifiable", Tone::Unsure),
        Verdict::Checking => toned("checking", Tone::Plain),
    }
}

pub(super) fn obstacles(sheet: &mut Sheet, sentences: &[String]) {
    sheet.heading("In the way");
    if sentences.is_empty() {
        sheet.toned_line("nothing", Tone::Good);
    }
    sentences.iter().for_each(|sentence| sheet.item(sentence));
}

pub(super) fn purgatory(sheet: &mut Sheet, it: &Purgatory) {
    if it.held.is_empty() {
        return sheet.line("nothing waits");
    }
    let rows: Vec<Vec<Cell>> = it.held.iter().map(|held| held_row(held, it.now)).collect();
    sheet.table(&["EVENT", "KIND", "PHASE", "UNTIL", "REPOSITORY", "WHY"], &rows);
    sheet.line(&format!("{} in all", it.total));
}

fn held_row(it: &Held, now: Time) -> Vec<Cell> {
    vec![
        cell(short(&it.id.to_hex())),
        cell(it.kind.to_string()),
        cell(&it.phase),
        cell(distance(it.until, now)),
        repositories(it.repositories.iter().map(String::as_str)),
        cell(&it.explain),
    ]
}

pub(super) fn event(sheet: &mut Sheet, it: &EventReport) {
    sheet.heading(&it.id.to_hex());
    sheet.pair("kind", it.origin.kind.to_string());
    sheet.pair("standing", &it.standing);
    sheet.pair("came", origin(&it.origin, it.now));
    let released = it.origin.released.map(moment).unwrap_or_default();
    sheet.pair("released", released);
    obstacles(sheet, it.explain.as_slice());
}

fn count(count: u64, tone: Tone) -> Cell {
    toned(count.to_string(), if count > 0 { tone } else { Tone::Plain })
}

fn short(hex: &str) -> &str {
    hex.get(..ID_CHARS).unwrap_or(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_told_with_its_mirrors_and_obstacles() {
        let origin = Origin {
            id: grasp_core::EventId::from_bytes([1; 32]),
            kind: 30617,
            author: "npub1alice".into(),
            created_at: grasp_core::Timestamp(0),
            source: "direct".into(),
            relay: None,
            received: Time(0),
            released: None,
        };
        let mirror = Mirror {
            place: "git.example".into(),
            relay: None,
            clone: None,
            verdict: Verdict::TheyLack,
            because: "they lack 3 events".into(),
            at: Some(Time(0)),
            since: None,
            events: None,
            refs: None,
        };
        let shape = Repo {
            now: Time(60_000),
            npub: "npub1alice".into(),
            identifier: "acme".into(),
            standing: "served".into(),
            name: "Acme\u{1b}[31m".into(),
            description: String::new(),
            web: vec![],
            maintainers: vec![],
            clone: "https://ours.example/npub1alice/acme.git".into(),
            nostr: String::new(),
            announcement: origin,
            state: None,
            head: None,
            refs: vec![],
            refs_total: 0,
            events: 4,
            fingerprint: "ab".into(),
            objects_missing: 0,
            threads: Default::default(),
            held: vec![],
            mirrors: vec![mirror],
            explain: vec!["state 12f waits for a commit".into()],
        };
        let mut sheet = Sheet::plain();
        repo(&mut sheet, &shape);
        let text = sheet.into_text();
        for part in [
            "npub1alice/acme\n",
            "name          Acme [31m\n",
            "state         nothing was signed yet\n",
            "git.example  they lack  60 s ago   they lack 3 events\n",
            "- state 12f waits for a commit\n",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
}
