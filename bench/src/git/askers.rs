//! Other people, who ask the relay about events while somebody pushes.

use crate::events::World;
use crate::stats::Latencies;
use crate::wire::{Socket, connect_many, say};
use crate::work::query::{Shape, hear_out};
use anyhow::Result;
use grasp_testkit::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

#[derive(Debug)]
pub(crate) struct Askers {
    is_over: Arc<AtomicBool>,
    asking: JoinSet<Result<Latencies>>,
}

impl Askers {
    /// Each asks on a connection of its own, with a pause after every answer.
    pub(crate) async fn begin(
        address: &str,
        world: &Arc<World>,
        count: usize,
        pause: Duration,
    ) -> Result<Self> {
        let mut askers = Self { is_over: Arc::default(), asking: JoinSet::new() };
        for (seed, socket) in (1..).zip(connect_many(address, count).await?) {
            let (world, is_over) = (Arc::clone(world), Arc::clone(&askers.is_over));
            askers.asking.spawn(ask(socket, world, Random::seeded(seed), pause, is_over));
        }
        Ok(askers)
    }

    pub(crate) async fn end(mut self) -> Result<Latencies> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Latencies::default();
        while let Some(latencies) = self.asking.join_next().await {
            all.append(latencies??);
        }
        Ok(all)
    }
}

async fn ask(
    mut socket: Socket,
    world: Arc<World>,
    mut random: Random,
    pause: Duration,
    is_over: Arc<AtomicBool>,
) -> Result<Latencies> {
    let issues = world.issue_ids();
    let mut latencies = Latencies::default();
    while !is_over.load(Ordering::Relaxed) {
        let shape = *random.pick(&Shape::ALL);
        let filter = shape.filter(&world, &issues, &mut random);
        let started = Instant::now();
        say(&mut socket, format!("[\"REQ\",\"q\",{filter}]")).await?;
        hear_out(&mut socket).await?;
        latencies.add(started.elapsed());
        say(&mut socket, "[\"CLOSE\",\"q\"]").await?;
        tokio::time::sleep(pause).await;
    }
    Ok(latencies)
}
