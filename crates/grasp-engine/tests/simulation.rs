//! Random worlds: servers with real engines on a simulated network, with crashes, partitions and
//! relays that misbehave. After quiet every server has what it should, and no limit was exceeded on
//! the way. A seed that fails is lived through again by
//! `GRASP_SEED=<seed> cargo test -p grasp-engine --test simulation one_seed -- --ignored --nocapture`,
//! with `GRASP_TRACE=<lines>` for a longer story and `GRASP_CLOCKS=1` for a world whose clocks are set.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the number of worlds comes from the command line")]

use grasp_testkit::world::{Outcome, World};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn a_hundred_random_worlds_end_complete() {
    lives_through(World::new, 1, 100);
}

#[test]
fn sixty_worlds_whose_clocks_are_set_by_random_amounts_end_complete() {
    lives_through(World::stepping_clocks, 1, 60);
}

#[test]
fn s45_thirty_worlds_whose_relays_hide_events_end_complete_once_that_was_found_out() {
    let ended = lives_through(World::hiding, 1, 30);
    let found = |outcome: &&Outcome| outcome.seen.contains_key("found to hide events");
    assert!(ended.iter().filter(found).count() >= 5, "hiding is found out in too few worlds");
}

/// `scripts/simulate clocks [count]`
#[test]
#[ignore = "takes minutes"]
fn a_thousand_worlds_whose_clocks_are_set() {
    let count = number("GRASP_WORLDS").unwrap_or(1_000);
    lives_through(World::stepping_clocks, number("GRASP_SEED").unwrap_or(1_000), count);
}

/// `scripts/simulate [count]`
#[test]
#[ignore = "takes minutes"]
fn a_thousand_random_worlds() {
    let count = number("GRASP_WORLDS").unwrap_or(1_000);
    lives_through(World::new, number("GRASP_SEED").unwrap_or(1_000), count);
}

#[test]
#[ignore = "needs GRASP_SEED"]
fn one_seed() {
    let seed = number("GRASP_SEED").expect("GRASP_SEED is a number");
    let world = match number("GRASP_CLOCKS") {
        Some(_) => World::stepping_clocks,
        None => World::new,
    };
    match world(seed).run(seed) {
        Ok(outcome) if number("GRASP_TRACE").is_none() => println!("{outcome:?}"),
        _ => tell(world, seed),
    }
}

/// A question that had waited since before the clock was set back began in the future.
#[test]
fn worlds_whose_clocks_are_set_that_failed_once_pass() {
    for seed in [1_053, 1_303, 1_492] {
        World::stepping_clocks(seed).run(seed).unwrap_or_else(|why| panic!("seed {seed}: {why:?}"));
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 1..=3 {
        let first = World::stepping_clocks(seed).run(seed);
        assert_eq!(World::stepping_clocks(seed).run(seed), first, "seed {seed}");
    }
}

/// On all processors; the first seed that fails is told in full.
fn lives_through(world: fn(u64) -> World, first: u64, count: u64) -> Vec<Outcome> {
    let next = AtomicU64::new(first);
    let (ended, failed) = (Mutex::new(vec![]), Mutex::new(vec![]));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    match world(seed).run(seed) {
                        Ok(outcome) => ended.lock().unwrap().push(outcome),
                        Err(why) => failed.lock().unwrap().push((seed, why)),
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    for (seed, why) in &failed {
        println!("seed {seed}: {}", why.first().map_or("", String::as_str));
    }
    let ended = ended.into_inner().unwrap();
    sums_up(&ended);
    if let Some((seed, _)) = failed.first() {
        println!("{} of {count} worlds failed", failed.len());
        tell(world, *seed);
        panic!("seed {seed} fails only sometimes");
    }
    ended
}

fn sums_up(ended: &[Outcome]) {
    let steps: u64 = ended.iter().map(|outcome| outcome.steps).sum();
    let events: usize = ended.iter().map(|outcome| outcome.events).sum();
    if number("GRASP_SLOW").is_some() {
        for slow in ended.iter().filter(|it| it.complete_after > Duration::from_secs(7200)) {
            println!("slow {} {:?} {:?}", slow.seed, slow.complete_after, slow.last);
        }
    }
    let slowest = ended.iter().max_by_key(|outcome| outcome.complete_after);
    let mut seen = BTreeMap::new();
    for (what, count) in ended.iter().flat_map(|outcome| &outcome.seen) {
        let (total, worlds) = seen.entry(*what).or_insert((0, 0));
        *total += count;
        *worlds += 1;
    }
    println!("{} worlds, {events} events, {steps} steps; slowest: {slowest:?}", ended.len());
    for (what, (total, worlds)) in seen {
        println!("  {what}: {total} times in {worlds} worlds");
    }
}

/// Lives through a seed again, noting what happens.
fn tell(world: fn(u64) -> World, seed: u64) {
    let lines = number("GRASP_TRACE").and_then(|lines| lines.try_into().ok()).unwrap_or(300);
    let mut world = world(seed).traced(lines);
    let result = world.run(seed);
    for line in world.trace() {
        println!("{line}");
    }
    let Err(why) = result else { return };
    for complaint in why.iter().take(20) {
        println!("=> {complaint}");
    }
    panic!(
        "seed {seed}: {}\nGRASP_SEED={seed} cargo test -p grasp-engine --test simulation one_seed \
         -- --ignored --nocapture",
        why.first().map_or("", String::as_str)
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
