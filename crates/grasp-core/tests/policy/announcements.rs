//! P 2.1 with N 1.1, N 2 and D 2 and 3: what becomes of a kind 30617.

use crate::world::*;
use grasp_core::event::Event;
use grasp_core::maintainers::Standing::{self, Held, Served};
use grasp_core::policy::*;
use grasp_core::service::{Authority, Service};

fn facts(about: AnnouncementFacts) -> Facts {
    Facts::new(About::Announcement(about))
}

fn nothing_known() -> Facts {
    facts(AnnouncementFacts::default())
}

/// An older version is here and hosted.
fn hosted(event: &Event, standing: Standing) -> Facts {
    let current = Some(Current { rank: older(event), standing });
    Facts { current, ..facts(AnnouncementFacts { hosted: true, ..Default::default() }) }
}

/// An older version is here only for membership.
fn kept(event: &Event, standing: Standing) -> Facts {
    Facts { current: Some(Current { rank: older(event), standing }), ..nothing_known() }
}

fn invited(text: &str) -> Facts {
    facts(AnnouncementFacts { family: family(text), ..Default::default() })
}

#[test]
fn who_asks_for_us_waits_for_git_data_once() {
    let asks = announces('a').asking_for_us();
    check("P 2.1 nothing known", &asks, &nothing_known(), "held-git-data");
    check("P 2.1 replaces a held one", &asks, &hosted(&asks, Held), "held-git-data");
    check("P 2.1 replaces a served one", &asks, &hosted(&asks, Served), "accepted");
    check(
        "P 2.1 joins after being served as a maintainer",
        &asks,
        &kept(&asks, Served),
        "accepted",
    );
    let again = facts(AnnouncementFacts { data_present: true, ..Default::default() });
    check("D 3 data is here already", &asks, &again, "accepted");
    let lists_others = asks.tag(&["maintainers", &who('b').to_hex()]);
    check("D 2 whoever it lists", &lists_others, &hosted(&lists_others, Served), "accepted");
}

#[test]
fn an_older_version_changes_nothing() {
    let asks = announces('a').asking_for_us();
    for standing in [Served, Held] {
        let current = Some(Current { rank: newer(&asks), standing });
        check("P 2.1 trap 28", &asks, &Facts { current, ..nothing_known() }, "superseded");
    }
    let mut lower = asks.rank();
    lower.id = grasp_core::EventId::from_bytes([0x7f; 32]);
    let current = Some(Current { rank: lower, standing: Served });
    check(
        "N 1.2 same second, lower id",
        &asks,
        &Facts { current, ..nothing_known() },
        "same-second",
    );
    let itself = Some(Current { rank: asks.rank(), standing: Held });
    check("judged again", &asks, &Facts { current: itself, ..nothing_known() }, "held-git-data");
    let known = |standing| Facts { known: Some(standing), ..nothing_known() };
    check("P 11.3 already stored", &asks, &known(Served), "known");
    check("P 11.3 again while held", &asks, &known(Held), "held");
}

#[test]
fn it_must_name_us_in_both_places() {
    let npub = who('a').to_npub();
    let ours = format!("https://git.example/{npub}/acme.git");
    let case = |row: &str, clone: &str, relay: &str, expected: &str| {
        let event = announces('a').tag(&["clone", clone]).tag(&["relays", relay]);
        check(row, &event, &nothing_known(), expected);
    };
    case("P 2.1 both", &ours, "wss://git.example", "held-git-data");
    case(
        "P 2.1 any scheme, doubled slash",
        &format!("http://git.example//{npub}/acme.git/"),
        "ws://GIT.example./",
        "held-git-data",
    );
    case("P 2.1 only relays", "https://other.example/x.git", "wss://git.example", "not-listing-us");
    case("P 2.1 only clone", &ours, "wss://other.example", "not-listing-us");
    case("P 2.1 neither", "junk", "junk", "not-listing-us");
    case("N 2 substring", &ours, "wss://git.example.evil.example", "not-listing-us");
    case(
        "N 2 substring",
        &format!("https://evil.example/git.example/{npub}/acme.git"),
        "wss://git.example",
        "not-listing-us",
    );
    case("N 2 path", &ours, "wss://git.example/elsewhere", "not-listing-us");
    case("N 2 port", &ours, "wss://git.example:8443", "not-listing-us");
    let other = who('b').to_npub();
    case(
        "P 2.1 another's repository",
        &format!("https://git.example/{other}/acme.git"),
        "wss://git.example",
        "not-listing-us",
    );
    case(
        "P 2.1 another identifier",
        &format!("https://git.example/{npub}/acmf.git"),
        "wss://git.example",
        "not-listing-us",
    );
}

#[test]
fn below_a_base_path_both_urls_carry_it() {
    let service = Service::new(Authority::parse("git.example:7334").unwrap(), Vec::new(), "/grasp");
    let mounted = Rules { service, ..rules() };
    let npub = who('a').to_npub();
    for (clone, relay, expected) in [
        ("http://git.example:7334/grasp", "ws://git.example:7334/grasp/", "held-git-data"),
        ("http://git.example:7334", "ws://git.example:7334/grasp", "not-listing-us"),
        ("http://git.example:7334/grasp", "ws://git.example:7334", "not-listing-us"),
        ("http://git.example/grasp", "ws://git.example/grasp", "not-listing-us"),
    ] {
        let clone = format!("{clone}/{npub}/acme.git");
        let event = announces('a').tag(&["clone", &clone]).tag(&["relays", relay]);
        check_under("N 2 base path", &event, &nothing_known(), &mounted, expected);
    }
}

#[test]
fn several_clone_and_relays_tags_are_one() {
    let ours = format!("https://git.example/{}/acme.git", who('a').to_npub());
    let event = announces('a')
        .tag(&["clone", "https://x.example/r.git", "git@x.example:r.git"])
        .tag(&["clone", &ours, "https://x.example/r.git"])
        .tag(&["relays", "wss://x.example"])
        .tag(&["relays", "", "not a url", "wss://git.example"]);
    check("D 2 merged", &event, &nothing_known(), "held-git-data");
    let read = grasp_core::nip34::Announcement::parse(&event).unwrap();
    assert_eq!(
        read.clone,
        ["https://x.example/r.git", "git@x.example:r.git", &ours],
        "in order, once"
    );
}

#[test]
fn an_identifier_must_be_servable() {
    for bad in ["", ".", "..", "a/b", "a\\b", "a\0", &"x".repeat(252)] {
        let event = event(30617, 'a').tag(&["d", bad]);
        check("N 2 identifier", &event, &nothing_known(), "bad-identifier");
    }
    check("N 1.1 d is required", &event(30617, 'a'), &nothing_known(), "bad-identifier");
    let colon = event(30617, 'a').tag(&["d", "a:b"]).tag(&["d", "acme"]);
    let read = grasp_core::nip34::Announcement::parse(&colon).unwrap();
    assert_eq!(read.repo.identifier.as_str(), "a:b", "T 4 the first d wins");
}

#[test]
fn a_maintainer_need_not_name_us() {
    let plain = announces('b');
    check("P 2.1 invited by a served one", &plain, &invited("a: list=b"), "accepted");
    check("N 1.4 invited by roles", &plain, &invited("a: m=b"), "accepted");
    check("invited by a held one", &plain, &invited("a?: m=b"), "held-repository");
    check("P 2.1 recursively", &plain, &invited("a: m=c; c: m=b"), "accepted");
    check("N 1.3 a moderator is not", &plain, &invited("a: o=b"), "not-listing-us");
    check("N 1.4 no longer", &plain, &invited("a: m=b@1,2"), "not-listing-us");
    check("P 2.1 same name, other people", &plain, &invited("a:"), "not-listing-us");
    check("P 2.1 replaces their own", &plain, &kept(&plain, Served), "accepted");
    check("P 2.1 replaces their own held", &plain, &kept(&plain, Held), "held-repository");
}

#[test]
fn a_resignation_counts_where_it_can_have_an_effect() {
    let resigns = announces('b').tag(&["m", &who('b').to_hex(), "1", "2"]);
    check("N 1.4 step 3 not invited", &resigns, &invited("a: m=b"), "not-listing-us");
    check_under("P 2.2 declines", &resigns, &invited("a: m=b"), &listed_rules(), "accepted");
    let member = Facts { current: kept(&resigns, Served).current, ..invited("a: m=b") };
    check("N 1.3 self departure", &resigns, &member, "accepted");
}

#[test]
fn leaving_us_takes_effect_at_once() {
    let leaves = announces('a');
    for standing in [Served, Held] {
        let verdict = verdict(&leaves, &hosted(&leaves, standing), &rules(), Origin::Direct);
        let Verdict::Withdraw(Withdrawal { repo, remains: Remains::Aside(why) }) = &verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!((repo, why.code()), (&acme('a'), "not-listing-us"), "D 3 drops us");
        assert!(!verdict.answer().ok);
        assert!(verdict.answer().text.contains("no longer served"));
    }
    let remains = |text: &str| {
        let about = AnnouncementFacts { hosted: true, family: family(text), ..Default::default() };
        let facts = Facts { current: hosted(&leaves, Served).current, ..facts(about) };
        match verdict(&leaves, &facts, &rules(), Origin::Direct) {
            Verdict::Withdraw(Withdrawal { remains, .. }) => remains,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(remains("b: m=a"), Remains::Served, "P 2.1 still a maintainer elsewhere");
    assert!(matches!(remains("b?: m=a"), Remains::Held(Needs::Repository(_))));
    let current = Some(Current { rank: newer(&leaves), standing: Served });
    check(
        "only if it is newer",
        &leaves,
        &Facts { current, ..hosted(&leaves, Served) },
        "superseded",
    );
}

#[test]
fn an_older_version_cannot_undo_leaving() {
    let asks = announces('a').asking_for_us();
    let left = |rank| facts(AnnouncementFacts { withdrawn: Some(rank), ..Default::default() });
    check("D 3 replayed", &asks, &left(newer(&asks)), "superseded");
    check("D 3 re-announced", &asks, &left(older(&asks)), "held-git-data");
}

#[test]
fn lists_of_the_operator_apply_in_order() {
    let asks = announces('a').asking_for_us();
    let npub = who('a').to_npub();
    let patterns = [npub.clone(), format!("{npub}/acme"), "acme".to_owned()];
    let other = [who('b').to_npub(), format!("{npub}/other"), "other".to_owned()];
    let white = |text: &str| Rules { repository_whitelist: vec![text.parse().unwrap()], ..rules() };
    let black = |text: &str| Rules { repository_blacklist: vec![text.parse().unwrap()], ..rules() };
    for (own, other) in patterns.iter().zip(&other) {
        check_under(
            "P 2.1 blacklist",
            &asks,
            &nothing_known(),
            &black(own),
            "repository-blacklisted",
        );
        check_under("P 2.1 blacklist", &asks, &nothing_known(), &black(other), "held-git-data");
        check_under("P 2.1 whitelist", &asks, &nothing_known(), &white(own), "held-git-data");
        check_under("P 2.1 whitelist", &asks, &nothing_known(), &white(other), "not-whitelisted");
        let before = kept(&asks, Served);
        check_under("P 2.1 row 2, a later list", &asks, &before, &white(other), "not-whitelisted");
    }
    let plain = announces('a');
    check_under(
        "P 2.1 and must list us",
        &plain,
        &nothing_known(),
        &white("acme"),
        "not-listing-us",
    );
    let both = Rules { repository_blacklist: white(&npub).repository_whitelist, ..white("acme") };
    check_under(
        "P 2.1 black beats white",
        &asks,
        &nothing_known(),
        &both,
        "repository-blacklisted",
    );
    let author = Rules { event_blacklist: [who('a')].into(), ..both };
    check_under(
        "P 2.1 author beats repository",
        &asks,
        &nothing_known(),
        &author,
        "author-blacklisted",
    );
    check_under(
        "blacklisted though invited",
        &plain,
        &invited("b: m=a"),
        &black("acme"),
        "repository-blacklisted",
    );
    let chosen = white(&who('b').to_npub());
    check_under(
        "an invited maintainer of a chosen repository",
        &asks,
        &invited("b: m=a"),
        &chosen,
        "accepted",
    );
    let read = grasp_core::nip34::Announcement::parse(&asks).unwrap();
    assert!(rules().hosts(&read) && !chosen.hosts(&read), "served for membership, not hosted");
}

#[test]
fn patterns_say_what_is_wrong_with_them() {
    let npub = who('a').to_npub();
    for bad in [
        "",
        "a\\b",
        "acme/x",
        "npub1junk",
        &format!("{npub}/"),
        &format!("{npub}/a/b"),
        &who('a').to_hex(),
    ] {
        let why = bad.parse::<RepoPattern>().unwrap_err().to_string();
        assert!(why.contains("npub/identifier"), "{why}");
    }
    for good in [npub.clone(), format!("{npub}/acme"), "acme".to_owned()] {
        assert_eq!(good.parse::<RepoPattern>().unwrap().to_string(), good);
    }
}

#[test]
fn a_public_server_keeps_nothing_private() {
    let private = announces('a').asking_for_us().tag(&["private", "true"]);
    check("P 6.3", &private, &nothing_known(), "private");
    check("P 6.3 even if invited", &private, &invited("b: m=a"), "private");
    check("P 6.3 going private", &private, &hosted(&private, Served), "withdrawn");
    let answer = verdict(&private, &hosted(&private, Served), &rules(), Origin::Direct).answer();
    assert!(!answer.ok && answer.text.starts_with("restricted: "), "{}", answer.text);
    let public = announces('a').asking_for_us().tag(&["private", "false"]);
    check("P 6.3", &public, &nothing_known(), "held-git-data");
}

#[test]
fn what_gave_up_waiting_does_not_come_back_by_sync() {
    let asks = announces('a').asking_for_us();
    let gave_up = Facts { expired: true, ..nothing_known() };
    let by = |origin| verdict(&asks, &gave_up, &rules(), origin).code();
    assert_eq!(by(Origin::Sync), "expired-in-purgatory", "P 2.3 step 6");
    assert_eq!(by(Origin::Direct), "held-git-data", "D 4 a direct re-publish is a new hold");
}

#[test]
fn the_words_clients_know_stay_the_same() {
    let asks = announces('a').asking_for_us();
    let text = |facts: &Facts, rules: &Rules| {
        let Answer { ok, text, .. } = verdict(&asks, facts, rules, Origin::Direct).answer();
        (ok, text)
    };
    let known = |standing| Facts { known: Some(standing), ..nothing_known() };
    let current = Some(Current { rank: newer(&asks), standing: Served });
    let black = Rules { event_blacklist: [who('a')].into(), ..rules() };
    let say = |ok, text: &str| (ok, text.to_owned());
    assert_eq!(
        text(&nothing_known(), &rules()),
        say(true, "purgatory: won't be served until git data arrives")
    );
    assert_eq!(text(&known(Held), &rules()), say(true, "duplicate: in purgatory"));
    assert_eq!(text(&known(Served), &rules()), say(true, "duplicate: already have this event"));
    assert_eq!(
        text(&Facts { current, ..nothing_known() }, &rules()),
        say(true, "duplicate: superseded by a newer event")
    );
    let blocked = format!("blocked: Event author {} is blacklisted", who('a').to_npub());
    assert_eq!(text(&nothing_known(), &black), say(false, &blocked));
    assert_eq!(text(&hosted(&asks, Served), &rules()), say(true, ""));
    let refused = verdict(&announces('a'), &nothing_known(), &rules(), Origin::Direct).answer();
    assert!(
        refused
            .text
            .starts_with("invalid: announcement must list git.example in both clone and relays")
    );
}
