//! Random worlds full of strangers' servers that are silent, slow, broken or rude: whoever comes with
//! one good server of its own finds what it lacks within half a minute, whenever it comes.

use crate::kit::*;
use grasp_engine::hunt::{Brought, HuntSettings, Outcome};
use grasp_testkit::Random;
use std::time::Duration;

const SEEDS: u64 = 40;
/// With a quarter of all slots for each, that leaves some.
const STRANGERS_MAX: u64 = 3;

#[test]
fn s34_no_three_strangers_keep_a_good_server_waiting_for_half_a_minute() {
    for seed in 1..=SEEDS {
        let mut random = Random::seeded(seed);
        let mut net = Net::seeded(HuntSettings::default(), seed);
        for stranger in 0..1 + random.below(STRANGERS_MAX) {
            crowds_in(&mut net, &mut random, stranger);
        }
        for guest in 0..5 {
            net.elapse(Duration::from_secs(random.below(1_800)));
            let (server, name) = (format!("good{guest}"), format!("guest{guest}/acme"));
            let number = 1 + guest;
            net.server(&server, &[number]).latency = Duration::from_millis(random.below(3_000));
            net.misses(&name, &[number], &[&server]);
            let at = net.at_ms();
            net.elapse(30 * SECOND);
            assert!(net.is_complete(&name), "seed {seed}: {name} came at {at} ms");
        }
    }
}

/// Up to 500 domains of one owner, some to a family, all of one kind or of all kinds.
fn crowds_in(net: &mut Net, random: &mut Random, stranger: u64) {
    let kind = random.below(7);
    let families = 1 + random.below(250);
    for n in 0..families {
        let servers: Vec<String> =
            (0..1 + random.below(2)).map(|it| format!("x{stranger}-{n}-{it}")).collect();
        for server in &servers {
            let kind = if kind == 6 { random.below(6) } else { kind };
            net.server(server, &[]).manner = match kind {
                0 | 1 => Manner::Stalls,
                2 => Manner::Drips(1 + random.below(1_000), SECOND),
                3 => fails(),
                4 => slow_down(Some(HOUR)),
                _ => Manner::Ends(Outcome::Unacceptable("damaged".to_owned())),
            };
        }
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        let name = format!("stranger{stranger}/r{n}");
        net.lacks(&name, &[stranger * 100_000 + 1_000 + n], &servers);
        net.held(&name, Brought::BySync);
    }
}
