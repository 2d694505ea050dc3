//! How many bytes are fetched: by one job, from one domain and over all, in a day.

use crate::kit::*;
use grasp_engine::hunt::HuntSettings;

const MIB: u64 = 1 << 20;

#[test]
fn a_fetch_may_take_what_is_left_and_no_more() {
    let mut net = Net::new(HuntSettings {
        fetch_bytes_max: 10 * MIB,
        domain_bytes_per_day_max: 24 * MIB,
        ..HuntSettings::default()
    });
    net.server("one", &[]).latency = 10 * SECOND;
    for n in 0..4 {
        net.misses(&format!("repo{n}"), &[n], &["one"]);
    }
    net.elapse_to(1_000);
    let allowed: Vec<u64> = net.fetches.iter().map(|it| it.bytes_max / MIB).collect();
    assert_eq!(allowed, [10, 10, 4], "what runs has it reserved");
    net.elapse_to(10_500);
    assert_eq!(net.fetches.len(), 4, "what was reserved and not taken is there again");
}

#[test]
fn a_domain_that_used_up_its_day_is_not_asked_for_crumbs() {
    let mut net = Net::new(HuntSettings {
        fetch_bytes_max: 20 * MIB,
        domain_bytes_per_day_max: 48 * MIB,
        ..HuntSettings::default()
    });
    net.server("one", &[]).bytes = 100 * MIB;
    net.server("two", &[]);
    for n in 0..4 {
        net.misses(&format!("repo{n}"), &[n], &["one", "two"]);
    }
    let one = |net: &Net| net.fetches.iter().filter(|it| it.from == "one").count();
    net.elapse_to(19_000);
    assert_eq!(one(&net), 3, "twenty, twenty and then eight");
    assert_eq!(net.hunt.domains(net.now)[0].bytes_left, 0);
    assert_eq!(net.fetches.iter().filter(|it| it.from == "two").count(), 4, "others go on");
    net.elapse(24 * HOUR);
    assert_eq!(one(&net), 3, "nothing of that day is left");
    net.elapse(HOUR + 5 * MINUTE);
    assert_eq!(one(&net), 6, "the next day");
}

#[test]
fn the_days_bytes_are_shared_by_all_domains_and_no_day_has_more() {
    let mut net = Net::new(HuntSettings {
        fetch_bytes_max: 20 * MIB,
        bytes_per_day_max: 24 * MIB,
        ..HuntSettings::default()
    });
    for n in 0..4 {
        let server = format!("server{n}");
        net.server(&server, &[]).bytes = 100 * MIB;
        net.misses(&format!("repo{n}"), &[n], &[&server]);
    }
    net.elapse_to(10_000);
    assert_eq!(net.fetches.len(), 2);
    assert!(net.hunt.next_deadline().unwrap().0 > net.now);
    net.elapse(24 * HOUR);
    assert_eq!(net.fetches.len(), 2);
    net.elapse(7 * 24 * HOUR);
    let total: u64 = net.fetches.iter().map(|it| it.bytes_max).sum();
    assert!((7 * 24 * MIB..=8 * 24 * MIB).contains(&total), "{} MiB in a week", total / MIB);
    let server = |n: usize| net.fetches.iter().filter(|it| it.from == format!("server{n}")).count();
    assert!((0..4).all(|n| server(n) >= 2), "and each has its turn");
}

#[test]
fn a_fetch_begins_only_when_something_can_come_of_it() {
    let settings = HuntSettings {
        fetch_bytes_max: 20 * MIB,
        domain_bytes_per_day_max: 160 * MIB,
        ..HuntSettings::default()
    };
    for (takes, more) in [(15, true), (16, false)] {
        let mut net = Net::new(settings.clone());
        for (name, bytes) in [("early", 135 + takes), ("late", 1)] {
            net.server("one", &[]).bytes = bytes * MIB / 10;
            for n in 0..if name == "early" { 10 } else { 1 } {
                net.misses(&format!("{name}{n}"), &[n], &["one"]);
            }
            net.elapse(SECOND);
        }
        assert_eq!(net.fetches.len() == 11, more, "{} of 160 MiB are used up", 135 + takes);
    }
}

#[test]
fn s51_a_source_sends_so_much_for_one_repository_in_a_day() {
    let settings = HuntSettings { fetch_bytes_max: 10 * MIB, ..HuntSettings::default() };
    let mut net = Net::new(settings);
    net.server("one", &[]).bytes = 6 * MIB;
    net.misses("acme", &[1], &["one"]);
    net.elapse(HOUR);
    let allowed = |net: &Net| -> Vec<u64> {
        net.fetches.iter().filter(|it| it.from == "one").map(|it| it.bytes_max / MIB).collect()
    };
    assert_eq!(allowed(&net), [10, 4], "what is left of the day, and then nothing");
    net.misses("other", &[2], &["one"]);
    net.elapse(MINUTE);
    assert_eq!(allowed(&net), [10, 4, 10, 4], "another repository has its own");
    net.elapse(23 * HOUR);
    assert_eq!(allowed(&net).len(), 4);
    net.elapse(3 * HOUR);
    assert_eq!(allowed(&net).get(4), Some(&10), "the next day");
}
