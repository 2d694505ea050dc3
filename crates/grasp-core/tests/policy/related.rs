//! P 2.0, 2.4 and 2.5 with N 1.6 and N 2 'Admission': everything that is not about the repository
//! itself.

use crate::world::*;
use grasp_core::event::Event;
use grasp_core::maintainers::Standing::{self, Held, Served};
use grasp_core::nip34::{PullRequest, References};
use grasp_core::policy::*;
use grasp_core::{Timestamp, terms};

#[test]
fn an_event_belongs_here_by_what_it_hangs_on() {
    for kind in [1, 7, 1111, 1617, 1621, 1622, 1624, 1630, 1631, 1632, 1633, 1985, 3, 30023, 9841] {
        let event = event(kind, 'b');
        check("P 2.5 served", &event, &anchored(Some(Served)), "accepted");
        check("N decisions: held with it", &event, &anchored(Some(Held)), "held-anchor");
        check("P 2.5 orphan", &event, &anchored(None), "unrelated");
    }
    let words = verdict(&event(1621, 'b'), &anchored(None), &rules(), Origin::Direct).answer();
    let text = "restricted: event must reference an accepted repository or accepted event";
    assert_eq!((words.ok, words.text.as_str()), (false, text));
}

#[test]
fn references_are_exact() {
    let id = "ab".repeat(32);
    let repo = coordinate('a');
    let odd = format!("30617:{}:a:b:", who('a').to_hex());
    let check = |row: &str, tag: &[&str], ids: usize, coordinates: &[&str]| {
        let found = References::of(&event(1, 'b').tag(tag));
        let texts: Vec<String> = found.coordinates.iter().map(ToString::to_string).collect();
        assert_eq!(
            (found.ids.len(), texts.as_slice()),
            (ids, coordinates.map_owned().as_slice()),
            "{row}"
        );
    };
    for name in ["a", "A", "q"] {
        check("P 2.5 by address", &[name, &repo, "wss://hint"], 0, &[&repo]);
        check("trap 26 colons in the identifier", &[name, &odd], 0, &[&odd]);
    }
    for name in ["e", "E", "q"] {
        check("P 2.5 by id", &[name, &id, "wss://hint", "root"], 1, &[]);
        check("P 2.5 lower-case hex only", &[name, &id.to_uppercase()], 0, &[]);
        check("P 2.5 whole ids only", &[name, &id[..62]], 0, &[]);
    }
    check("P 2.5 a p tag never qualifies", &["p", &id], 0, &[]);
    check("an id in an a tag", &["a", &id], 0, &[]);
    check("an address in an e tag", &["e", &repo], 0, &[]);
    check("no such address", &["a", &format!("1:{}:x", who('a').to_hex())], 0, &[]);
    let list = format!("10317:{}", who('a').to_hex());
    check("trap 46 with a trailing colon", &["a", &format!("{list}:")], 0, &[&format!("{list}:")]);
    check("trap 46 without it", &["a", &list], 0, &[]);
    check("trap 46 with more", &["a", &format!("{list}:x")], 0, &[]);
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn only_so_many_references_are_looked_at() {
    let many = (0u32..2_000).fold(event(1, 'b'), |event, n| {
        let id = format!("{n:064x}");
        event.tag(&["e", &id]).tag(&["e", &id]).tag(&["a", &format!("{}{n}", coordinate('a'))])
    });
    let found = References::of(&many);
    assert_eq!(found.len(), References::LEN_MAX, "T 4");
    assert_eq!((found.ids.len(), found.coordinates.len()), (32, 32), "doubles are not counted");
}

#[test]
fn what_points_at_an_event_finds_it() {
    let list = event(10317, 'b');
    let mut issue = event(1621, 'a').tag(&["q", &format!("10317:{}:", who('b').to_hex())]);
    let points = |from: &Event, to: &Event| {
        let terms = terms::terms(from);
        let wanted = terms::pointing_at(&to.id, to.coordinate().as_ref());
        wanted.iter().any(|term| terms.contains(term))
    };
    assert!(points(&issue, &list), "P 2.5 forward reference by address, trap 46");
    issue.tags.clear();
    assert!(!points(&issue, &list));
    for name in ["e", "E", "q"] {
        assert!(points(&issue.clone().tag(&[name, &list.id.to_hex()]), &list), "P 2.5 by id");
    }
}

#[test]
fn listers_are_found_by_whom_they_actively_list() {
    let hex = |name| who(name).to_hex();
    let event = announces('a')
        .tag(&["m", &hex('b')])
        .tag(&["m", &hex('c'), "1", "2"])
        .tag(&["o", &hex('d')])
        .tag(&["M", &hex('a')]);
    let terms = terms::terms(&event);
    let lists = |name| terms.contains(&terms::Term::lists(&who(name), "acme"));
    assert_eq!(['a', 'b', 'c', 'd'].map(lists), [false, true, false, false]);
    let state = Event { kind: grasp_core::Kind::STATE, ..event };
    assert!(!terms::terms(&state).contains(&terms::Term::lists(&who('b'), "acme")));
}

fn pull_request(anchor: Option<Standing>, tip_present: bool) -> Facts {
    Facts::new(About::PullRequest(PullRequestFacts { anchor, tip_present }))
}

#[test]
fn a_pull_request_waits_for_its_tip() {
    for kind in [1618, 1619] {
        let pr = event(kind, 'b').tag(&["a", &coordinate('a')]).tag(&["c", OID]);
        check("P 2.4 tip missing", &pr, &pull_request(Some(Served), false), "held-git-data");
        check("P 2.4 tip here", &pr, &pull_request(Some(Served), true), "accepted");
        check(
            "D 2 aimed at a held repository",
            &pr,
            &pull_request(Some(Held), false),
            "held-anchor",
        );
        check("D 2 even with the tip here", &pr, &pull_request(Some(Held), true), "held-anchor");
        check("P 2.4 unrelated", &pr, &pull_request(None, true), "unrelated");
        let no_tip = event(kind, 'b').tag(&["a", &coordinate('a')]);
        check("N 1.6 no c", &no_tip, &pull_request(Some(Served), false), "no-tip");
        check(
            "N 1.6 empty c",
            &no_tip.clone().tag(&["c"]),
            &pull_request(Some(Served), false),
            "no-tip",
        );
        for odd in [&"1".repeat(64), "x", &"0".repeat(40)] {
            let odd = no_tip.clone().tag(&["c", odd]);
            check("P 2.4 odd c", &odd, &pull_request(Some(Served), false), "held-unsatisfiable");
            check("P 2.4 odd c, unrelated", &odd, &pull_request(None, false), "unrelated");
        }
        let own = Event { pubkey: who('z'), ..pr.clone() };
        check("N 2 the server's own get no bypass", &own, &pull_request(None, true), "unrelated");
        let gave_up = Facts { expired: true, ..pull_request(Some(Served), false) };
        let verdict = verdict(&pr, &gave_up, &rules(), Origin::Sync);
        assert_eq!(verdict.code(), "expired-in-purgatory", "P 2.4 from sync");
    }
}

#[test]
fn a_pull_request_is_aimed_at_repositories() {
    let pr = event(1618, 'b')
        .tag(&["a", &coordinate('a')])
        .tag(&["a", &coordinate('a')])
        .tag(&["a", &format!("30618:{}:acme", who('a').to_hex())])
        .tag(&["a", &format!("30617:{}:a/b", who('a').to_hex())])
        .tag(&["a", &coordinate('c'), "wss://hint"])
        .tag(&["clone", "https://x.example/r.git", "https://y.example/r.git"])
        .tag(&["c", OID]);
    let pr = PullRequest::parse(&pr).unwrap();
    assert_eq!(pr.targets, [acme('a'), acme('c')]);
    assert_eq!(pr.tip, Some(oid()));
    assert_eq!(pr.clone.len(), 2);
}

#[test]
fn lists_of_servers_are_welcome_up_to_a_number() {
    let list = event(10317, 'b');
    let stored = |stored| Facts::new(About::GraspList(GraspListFacts { stored }));
    check("N 2 always", &list, &stored(0), "accepted");
    check("D 2 within the number", &list, &stored(1), "accepted");
    check("D 2 beyond it", &list, &stored(2), "grasp-lists-full");
    let current = Some(Current { rank: older(&list), standing: Served });
    check("replacing one's own", &list, &Facts { current, ..stored(2) }, "accepted");
}

#[test]
fn profiles_are_kept_of_those_who_take_part() {
    let about =
        |anchor, takes_part| Facts::new(About::Profile(ProfileFacts { anchor, takes_part }));
    for kind in [0, 10002] {
        let profile = event(kind, 'b');
        check("N 2 participant", &profile, &about(None, Some(Served)), "accepted");
        check("N 2 stranger", &profile, &about(None, None), "stranger");
        check("participant of something held", &profile, &about(None, Some(Held)), "held-anchor");
        check("P 2.5 referenced", &profile, &about(Some(Served), None), "accepted");
        let own = event(kind, 'z');
        check("N 2 the server's own identity", &own, &about(None, None), "accepted");
    }
}

#[test]
fn the_server_may_say_what_has_no_rule_of_its_own() {
    check("N 2 owner-signed", &event(9841, 'z'), &anchored(None), "accepted");
    let unannounced = Facts::new(About::State(StateFacts::default()));
    check("N 2 no bypass for states", &states('z'), &unannounced, "no-announcement");
    let unknown = Facts::new(About::Announcement(AnnouncementFacts::default()));
    check("N 2 no bypass for announcements", &announces('z'), &unknown, "not-listing-us");
}

#[test]
fn passing_events_are_shown_and_never_wait() {
    let passing = event(29846, 'b');
    check("N 2 from a client", &passing, &anchored(Some(Served)), "passed-on");
    check("cannot wait", &passing, &anchored(Some(Held)), "unrelated");
    check("orphan", &passing, &anchored(None), "unrelated");
    let synced = verdict(&passing, &anchored(Some(Served)), &rules(), Origin::Sync);
    assert_eq!(synced.code(), "ephemeral-sync", "N 2 refused from sync");
}

#[test]
fn what_a_glance_refuses_needs_no_signature_check() {
    let glance = |event: &Event, origin| {
        precheck(event, &rules(), NOW, origin).err().map_or("fine", |reason| reason.code())
    };
    let at = |secs| event(1, 'b').at(secs);
    assert_eq!(glance(&at(NOW.0 + 900), Origin::Direct), "fine", "T 4 15 minutes");
    assert_eq!(glance(&at(NOW.0 + 901), Origin::Direct), "future", "T 4, N decisions");
    assert_eq!(glance(&at(u64::MAX), Origin::Sync), "future");
    assert_eq!(glance(&at(0), Origin::Direct), "fine");
    let expires = |at: &str| event(1, 'b').tag(&["expiration", at]);
    assert_eq!(glance(&expires("1000000"), Origin::Direct), "expired", "P 11.3");
    assert_eq!(glance(&expires("1000001"), Origin::Direct), "fine");
    assert_eq!(glance(&expires("soon"), Origin::Direct), "fine");
    assert_eq!(glance(&event(22242, 'b'), Origin::Direct), "auth-kind");
    assert_eq!(glance(&event(20001, 'b'), Origin::Sync), "ephemeral-sync", "N 2");
    assert_eq!(glance(&event(20001, 'b'), Origin::Direct), "fine");
    let protected = event(1, 'b').tag(&["-"]);
    assert_eq!(glance(&protected, Origin::Sync), "protected", "trap 44");
    assert_eq!(glance(&protected, Origin::Direct), "fine", "the session asks for AUTH");
    let black = Rules { event_blacklist: [who('b')].into(), ..rules() };
    let why = precheck(&event(1, 'b'), &black, Timestamp(0), Origin::Direct).unwrap_err();
    assert_eq!(why.code(), "author-blacklisted", "P 2.0 first of all");
}

#[test]
fn facts_about_something_else_open_no_door() {
    check("fail closed", &states('a'), &anchored(Some(Served)), "wrong-facts");
    check(
        "fail closed",
        &event(1, 'z'),
        &Facts::new(About::Vanish { author_known: true }),
        "wrong-facts",
    );
}
