//! What strangers can make the hunt remember has limits.

use crate::kit::*;
use grasp_engine::hunt::{Brought, HuntInput, HuntNews, HuntSettings, Outcome};
use std::time::Duration;

#[test]
fn families_beyond_the_limit_are_told_and_not_followed() {
    let mut net = Net::new(HuntSettings { families_max: 2, ..HuntSettings::default() });
    net.server("one", &[0]);
    for n in 0..3 {
        net.misses(&format!("repo{n}"), &[n], &["one"]);
    }
    let many = HuntNews::TooMany { family: family("repo2") };
    assert_eq!(net.told(|news| *news == many), 1);
    assert_eq!(net.hunt.totals().families, 2);
    net.says(HuntInput::Wanted { family: family("repo3") });
    net.says(HuntInput::Damaged { family: family("repo4") });
    assert_eq!(net.told(|news| matches!(news, HuntNews::TooMany { .. })), 3);
    assert_eq!(net.hunt.totals().refused, 3, "so whoever told of them can tell again");
    net.elapse(SECOND);
    assert!(net.is_complete("repo0"));
    net.held("repo2", Brought::BySync);
    assert!(net.view("repo2").is_some(), "there is room again");
}

#[test]
fn domains_without_a_past_are_forgotten_the_oldest_first_and_others_never() {
    let settings = HuntSettings { domains_max: 3, ..HuntSettings::default() };
    let mut net = Net::new(settings);
    for name in ["a", "b", "c", "d", "e"] {
        net.server(name, &[]).latency = Duration::ZERO;
    }
    net.servers.get_mut("a").unwrap().manner = slow_down(Some(HOUR));
    for (n, name) in ["a", "b", "c"].iter().enumerate() {
        net.misses(&format!("repo{name}"), &[n as u64], &[name]);
        net.elapse(SECOND);
        net.families.clear();
    }
    let known = |net: &Net| -> Vec<String> {
        net.hunt.domains(net.now).iter().map(|it| name_of(&it.domain)).collect()
    };
    assert_eq!(known(&net), ["a", "b", "c"]);
    net.misses("late", &[9], &["d"]);
    net.elapse(SECOND);
    assert_eq!(known(&net), ["a", "b", "c"], "all three were asked within the last minute");
    assert_eq!(net.fetches.len(), 3);
    net.elapse(2 * MINUTE);
    assert_eq!(known(&net), ["a", "c", "d"], "the first is paused, the second is forgotten");
}

#[test]
fn nothing_stays_behind_when_all_is_found() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).manner = Manner::Ends(Outcome::Failed("x".repeat(10_000)));
    let all: Vec<u64> = (0..50).collect();
    net.server("two", &all);
    for n in 0..50 {
        net.misses(&format!("repo{n}"), &[n], &["one", "two"]);
    }
    net.elapse(HOUR);
    assert!((0..50).all(|n| net.is_complete(&format!("repo{n}"))));
    assert_eq!(net.hunt.next_deadline(), None);
    let domains = net.hunt.domains(net.now);
    assert!(domains.iter().all(|it| it.queued == 0 && it.in_flight == 0));
    assert!(domains.iter().all(|it| it.starts_in_window == 0 && it.paused_until.is_none()));
    assert_eq!((net.hunt.totals().families, net.hunt.totals().running), (0, 0));
}
