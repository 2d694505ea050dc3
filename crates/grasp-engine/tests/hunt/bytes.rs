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
fn a_domain_that_used_up_its_day_waits_for_the_next_mebibyte() {
    let mut net = Net::new(HuntSettings {
        fetch_bytes_max: 20 * MIB,
        domain_bytes_per_day_max: 24 * MIB,
        ..HuntSettings::default()
    });
    net.server("one", &[]).bytes = 100 * MIB;
    net.server("two", &[]);
    for n in 0..4 {
        net.misses(&format!("repo{n}"), &[n], &["one", "two"]);
    }
    net.elapse_to(19_000);
    let one = |net: &Net| net.fetches.iter().filter(|it| it.from == "one").count();
    assert_eq!(one(&net), 2, "twenty and then four");
    assert_eq!(net.hunt.domains(net.now)[0].bytes_left / MIB, 0);
    assert_eq!(net.fetches.iter().filter(|it| it.from == "two").count(), 4, "others go on");
    net.elapse(HOUR);
    assert_eq!(one(&net), 3, "one mebibyte an hour is one try an hour");
    assert!(net.fetches.iter().filter(|it| it.from == "one").nth(2).unwrap().bytes_max >= MIB);
}

#[test]
fn the_days_bytes_are_shared_by_all_domains() {
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
    let total: u64 = net.fetches.iter().map(|it| it.bytes_max).sum();
    assert!(total <= 50 * MIB, "{} MiB", total / MIB);
    assert!(net.fetches.len() > 15, "and it goes on slowly: {}", net.fetches.len());
}
