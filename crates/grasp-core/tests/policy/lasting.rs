//! Which refusals may be remembered (D 2, S-29).

use crate::world::*;
use grasp_core::EventId;
use grasp_core::event::Event;
use grasp_core::maintainers::Standing;
use grasp_core::policy::{
    About, AnnouncementFacts, Current, DeletionFacts, Erased, Facts, GraspListFacts, Origin,
    PullRequestFacts, RefusalClass, Rules, StateFacts, Verdict,
};
use grasp_core::service::{Authority, Service};

fn class(event: &Event, facts: &Facts, rules: &Rules) -> (RefusalClass, &'static str) {
    match verdict(event, facts, rules, Origin::Sync) {
        Verdict::Reject(reason) => (reason.class(), reason.code()),
        other => panic!("{other:?}"),
    }
}

fn announced() -> Facts {
    Facts::new(About::Announcement(AnnouncementFacts::default()))
}

#[test]
fn s29_what_can_never_be_welcome_is_refused_for_good() {
    let unrelated = anchored(None);
    let deleted = Erased { id: true, ..Erased::default() };
    let vanished = Erased { vanished_until: Some(NOW), ..Erased::default() };
    let foreign = [(EventId::from_bytes([1; 32]), who('b'))].into();
    let foreign = DeletionFacts { author_known: true, targets: foreign };
    let id = "01".repeat(32);
    let mut rules = rules();
    rules.repository_blacklist = vec!["acme".parse().unwrap()];
    rules.event_blacklist = [who('x')].into();
    for (event, facts, code) in [
        (event(30_617, 'a'), announced(), "bad-identifier"),
        (event(1_618, 'a'), Facts::new(About::PullRequest(PullRequestFacts::default())), "no-tip"),
        (event(5, 'a'), Facts::new(About::Deletion(DeletionFacts::default())), "no-target"),
        (event(5, 'a').tag(&["e", &id]), Facts::new(About::Deletion(foreign)), "foreign-target"),
        (event(1, 'a').tag(&["expiration", "5"]), unrelated.clone(), "expired"),
        (event(1, 'a').tag(&["-"]), unrelated.clone(), "protected"),
        (event(22_242, 'a'), unrelated.clone(), "auth-kind"),
        (event(1, 'x'), unrelated.clone(), "author-blacklisted"),
        (announces('a').asking_for_us(), announced(), "repository-blacklisted"),
        (event(30_617, 'a').tag(&["d", "b"]).tag(&["private", "true"]), announced(), "private"),
        (event(1, 'a'), Facts { erased: deleted, ..unrelated.clone() }, "deleted"),
        (event(1, 'a'), Facts { erased: vanished, ..unrelated }, "vanished"),
    ] {
        assert_eq!(class(&event, &facts, &rules), (RefusalClass::Forever, code));
    }
}

#[test]
fn s29_what_only_lacks_something_may_be_welcome_later() {
    let mut chosen = rules();
    chosen.repository_whitelist = vec!["tool".parse().unwrap()];
    let state = |announced| {
        let about = StateFacts { announced, ..StateFacts::default() };
        Facts::new(About::State(about))
    };
    let pull = event(1_618, 'a').tag(&["c", OID]);
    for (event, facts, code) in [
        (announces('a'), announced(), "not-listing-us"),
        (announces('a').asking_for_us(), announced(), "not-whitelisted"),
        (states('a'), state(false), "no-announcement"),
        (states('a'), state(true), "not-authorised"),
        (pull, Facts::new(About::PullRequest(PullRequestFacts::default())), "unrelated"),
        (event(1, 'a'), anchored(None), "unrelated"),
    ] {
        assert_eq!(class(&event, &facts, &chosen), (RefusalClass::UntilKnown, code));
    }
}

#[test]
fn s29_what_passes_is_never_remembered() {
    let rules = rules();
    let ahead = event(1, 'a').at(NOW.0 + 100_000);
    let old = announces('a').asking_for_us();
    let current = Some(Current { rank: newer(&old), standing: Standing::Served });
    let full = Facts::new(About::GraspList(GraspListFacts { stored: 100 }));
    let here = Some(Standing::Served);
    for (event, facts, code, expected) in [
        (ahead, anchored(here), "future", RefusalClass::Passing),
        (old, Facts { current, ..announced() }, "superseded", RefusalClass::Known),
        (event(10_317, 'a'), full, "grasp-lists-full", RefusalClass::NoRoom),
        (event(1, 'a'), Facts { known: here, ..anchored(here) }, "known", RefusalClass::Known),
        (event(20_001, 'a'), anchored(here), "ephemeral-sync", RefusalClass::Passing),
        (event(1, 'a'), announced(), "wrong-facts", RefusalClass::Fault),
    ] {
        assert_eq!(class(&event, &facts, &rules), (expected, code));
    }
}

#[test]
fn every_rule_shows_in_the_fingerprint() {
    let same = rules().fingerprint();
    assert_eq!(rules().fingerprint(), same);
    let change = |edit: fn(&mut Rules)| {
        let mut rules = rules();
        edit(&mut rules);
        rules.fingerprint()
    };
    let edits: [fn(&mut Rules); 8] = [
        |it| it.service = Service::new(Authority::parse("other.example").unwrap(), vec![], ""),
        |it| it.maintainer_rule = listed_rules().maintainer_rule,
        |it| it.repository_whitelist = vec!["acme".parse().unwrap()],
        |it| it.repository_blacklist = vec!["acme".parse().unwrap()],
        |it| it.event_blacklist = [who('x')].into(),
        |it| it.respect_deletions = false,
        |it| it.relay_key = who('y'),
        |it| it.created_at_ahead_secs_max = 1,
    ];
    for edit in edits {
        assert_ne!(change(edit), same);
    }
}
