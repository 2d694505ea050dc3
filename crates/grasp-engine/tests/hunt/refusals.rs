//! What a server sends in vain is not fetched again and again.

use crate::kit::*;
use grasp_engine::hunt::{Brought, HuntSettings, Outcome};

fn unacceptable() -> Outcome {
    Outcome::Unacceptable("bad.example: sent a damaged pack".to_owned())
}

fn net(outcome: Outcome) -> Net {
    let mut net = Net::new(HuntSettings::default());
    net.server("bad", &[]).manner = Manner::Ends(outcome);
    net.server("two", &[]);
    net
}

/// How often it was asked, in the hours since the beginning.
fn asked(net: &Net) -> Vec<u64> {
    net.asked().iter().filter(|it| it.1 == "bad").map(|it| it.0 / 3_600_000).collect()
}

#[test]
fn s37_what_may_not_be_taken_is_not_fetched_again_for_longer_and_longer() {
    for outcome in [unacceptable(), Outcome::TooLarge] {
        let mut net = net(outcome);
        net.misses("acme", &[1, 2], &["bad", "two"]);
        net.elapse(80 * HOUR);
        assert_eq!(asked(&net), [0, 1, 3, 7, 15, 31, 55, 79]);
        let two = net.asked().iter().filter(|it| it.1 == "two").count();
        assert!(two > 2_000, "others are asked as ever");
        assert!(!net.hunt.domains(net.now)[0].failing, "it is no failing domain");
    }
}

#[test]
fn s37_what_is_new_is_asked_for_all_the_same_and_alone() {
    let mut net = net(unacceptable());
    net.misses("acme", &[1], &["bad", "two"]);
    net.elapse(MINUTE);
    let server = net.servers.get_mut("bad").unwrap();
    (server.manner, server.has) = (Manner::Answers, oids(&[1, 2]));
    net.misses("acme", &[1, 2], &["bad", "two"]);
    net.elapse(SECOND);
    let bad: Vec<_> = net.fetches.iter().filter(|it| it.from == "bad").collect();
    assert_eq!((bad.len(), &bad[1].wants), (2, &oids(&[2])));
}

#[test]
fn s37_when_something_of_it_is_not_wanted_any_more_the_rest_may_go_well() {
    let mut net = net(unacceptable());
    net.misses("acme", &[1, 2], &["bad", "two"]);
    net.elapse(MINUTE);
    net.lacks("acme", &[2], &["bad", "two"]);
    net.held("acme", Brought::BySync);
    net.elapse(SECOND);
    let bad: Vec<_> = net.fetches.iter().filter(|it| it.from == "bad").collect();
    assert_eq!((bad.len(), &bad[1].wants), (2, &oids(&[2])));
    net.elapse(50 * MINUTE);
    assert_eq!(asked(&net).len(), 2);
    net.elapse(12 * MINUTE);
    assert_eq!(asked(&net).len(), 3, "and the hours begin anew");
}

#[test]
fn s37_another_family_may_have_better_luck_with_the_same_server() {
    let mut net = net(unacceptable());
    net.misses("acme", &[1], &["bad"]);
    net.elapse(SECOND);
    let server = net.servers.get_mut("bad").unwrap();
    (server.manner, server.has) = (Manner::Answers, oids(&[3]));
    net.misses("other", &[3], &["bad"]);
    net.elapse(SECOND);
    assert!(net.is_complete("other"));
    let view = net.view("acme").unwrap();
    assert_eq!(view.sources[0].said, "bad.example: sent a damaged pack");
}
