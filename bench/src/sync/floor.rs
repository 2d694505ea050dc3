//! The same repositories, relays and roots in ordered maps, and nothing decided about any of them.

use super::crowd::{Crowd, Town};
use crate::heap::held_mb;
use crate::process::own_time;
use crate::stats::{millis, number, rate};
use anyhow::Result;
use grasp_core::{EventId, RelayUrl, RepoId};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct Maps {
    repositories: BTreeMap<RepoId, Vec<RelayUrl>>,
    roots: BTreeMap<EventId, (u32, u64)>,
    /// Who is asked for what.
    relays: BTreeMap<RelayUrl, Vec<u32>>,
}

pub(super) fn figures(crowd: Crowd) -> Result<Value> {
    let town = Town::of(crowd)?;
    let before = held_mb();
    let mut maps = Maps::default();
    for number in 0..crowd.repositories {
        maps.repositories.insert(town.repo(number)?, town.relays_of(number, 0));
    }
    for root in 0..crowd.roots {
        let repository = crowd.repository_of(root);
        maps.roots.insert(Town::root_id(root), (u32::try_from(repository)?, root as u64));
        for relay in town.relays_of(repository, 0) {
            maps.relays.entry(relay).or_default().push(u32::try_from(root)?);
        }
    }
    let state = held_mb() - before;
    let (inserts, fresh) = (10_000, crowd.roots);
    let ids: Vec<EventId> = (0..inserts).map(|n| Town::root_id(fresh + n)).collect();
    let started = own_time();
    for id in ids {
        maps.roots.insert(id, (0, 0));
    }
    let took = own_time() - started;
    std::hint::black_box(&maps);
    Ok(json!({
        "state_mb": state,
        "insert_us": millis(took) * 1e3 / number(inserts),
        "inserts_per_s": rate(inserts, took),
    }))
}
