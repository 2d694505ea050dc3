//! The engine alone, without a socket or a disk, in a process of its own whose memory is its own.
//! Relays answer at once and nobody waits for a clock; times are processor time.

use super::Run;
use super::crowd::{Crowd, Town};
use super::floor;
use super::talk::Talk;
use crate::heap::held_mb;
use crate::process::{anonymous_mb, own_time};
use crate::report::Row;
use crate::stats::{Latencies, millis, number};
use anyhow::{Context, Result, ensure};
use grasp_core::Time;
use grasp_engine::Input;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::process::Command;

#[derive(Debug, Clone, Copy)]
pub(crate) enum EnginePart {
    Engine,
    /// The same things in maps, and nothing decided about them.
    Floor,
}

/// New roots planned one by one.
const PLANS: usize = 500;
/// Seconds of load, and what the world says in each besides its answers.
const SECONDS: u64 = 10;
const TOLD_PER_SECOND: usize = 5_000;
/// One in so many is an announcement's new version.
const ANNOUNCED_ONE_IN: usize = 10;
/// On the engine's clock.
const SETTLE_MAX: Duration = Duration::from_secs(3_600);

impl EnginePart {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "alone" => Some(Self::Engine),
            "floor" => Some(Self::Floor),
            _ => None,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Engine => "alone",
            Self::Floor => "floor",
        }
    }

    /// What the process that was started for it says.
    pub(crate) fn figures(self, crowd: &Crowd) -> Result<Value> {
        match self {
            Self::Engine => figures(*crowd),
            Self::Floor => floor::figures(*crowd),
        }
    }

    async fn started(self, crowd: &Crowd) -> Result<Value> {
        let mut process = Command::new(std::env::current_exe()?);
        process.args(["engine", self.word()]).args(crowd.words()).kill_on_drop(true);
        let output = process.output().await?;
        let complaints = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the engine alone: {complaints}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let Crowd { repositories, roots, relays, links, .. } = run.plan.crowd;
    eprintln!("the engine alone: {repositories} repositories, {roots} roots, {relays} relays");
    let ours = EnginePart::Engine.started(&run.plan.crowd).await?;
    let floor = EnginePart::Floor.started(&run.plan.crowd).await?;
    let (ours, floor) = (|name: &str| figure(&ours, name), |name: &str| figure(&floor, name));
    let report = &mut run.report;
    report.add(
        Row::new("engine, memory of its process", ours("process_mb")?, "MB")
            .beside("maps of the same", floor("state_mb")?)
            .below(512.0),
    );
    let insert_us = floor("insert_us")?;
    for (name, what) in [("plan", "one new root"), ("large_plan", "one in the largest repository")]
    {
        let percentile = |p: &str| ours(&format!("{name}_{p}_us"));
        report.add(
            Row::new(format!("engine, {what}, p50"), percentile("p50")?, "us")
                .beside("map insert", insert_us),
        );
        report.add(
            Row::new(format!("engine, {what}, p99"), percentile("p99")?, "us")
                .beside("map insert", insert_us)
                .below(1_000.0),
        );
        report.note(format!("engine, {what}: the longest took {:.0} us", percentile("max")?));
    }
    report.add(
        Row::new("engine, inputs", ours("inputs_per_s")?, "/s")
            .beside("map inserts", floor("inserts_per_s")?)
            .at_least(5_000.0),
    );
    report.note(format!(
        "engine: {links} links confirmed after {:.0} inputs and {:.1} s of work; told {TOLD_PER_SECOND} things \
         in a second, it worked for {:.0} ms of the busiest one",
        ours("setup_inputs")?,
        ours("setup_s")?,
        ours("busiest_ms")?
    ));

    let seed = EnginePart::Engine.started(&run.plan.seed_crowd).await?;
    let floor = EnginePart::Floor.started(&run.plan.seed_crowd).await?;
    let Crowd { repositories, roots, relays, .. } = run.plan.seed_crowd;
    run.report.add(
        Row::new(
            format!("engine, state of {repositories} repositories, {roots} roots, {relays} relays"),
            figure(&seed, "state_mb")?,
            "MB",
        )
        .beside("maps of the same", figure(&floor, "state_mb")?)
        .below(10.0),
    );
    run.report.note(format!(
        "the process that kept this state had {:.1} MB of its own",
        figure(&seed, "process_mb")?
    ));
    Ok(())
}

fn figure(of: &Value, name: &str) -> Result<f64> {
    of.get(name).and_then(Value::as_f64).with_context(|| format!("no {name} in {of}"))
}

fn figures(crowd: Crowd) -> Result<Value> {
    let town = Town::of(crowd)?;
    let pid = std::process::id();
    let before = held_mb();
    let started = own_time();
    let mut talk = Talk::new(crowd.links);
    let mut serial = told(&mut talk, &town)?;
    settle(&mut talk, crowd.links)?;
    let (setup, setup_inputs) = (own_time() - started, talk.inputs);
    let (process, state) = (anonymous_mb(pid)?, held_mb() - before);

    let mut roots = crowd.roots;
    let mut plans = |talk: &mut Talk, repository: &dyn Fn(usize) -> usize| {
        let mut latencies = Latencies::default();
        for n in 0..PLANS {
            (roots, serial) = (roots + 1, serial + 1);
            latencies.add(planned(talk, town.root(roots, repository(n), serial)?)?);
        }
        Ok::<_, anyhow::Error>(latencies)
    };
    let anywhere = plans(&mut talk, &|n| (n * 7_919) % crowd.repositories)?;
    let largest = plans(&mut talk, &|_| 0)?;
    let (inputs, worked, busiest) = sustained(&mut talk, &town, roots, serial)?;
    Ok(json!({
        "process_mb": process,
        "state_mb": state,
        "setup_s": setup.as_secs_f64(),
        "setup_inputs": setup_inputs,
        "plan_p50_us": anywhere.p50_ms() * 1e3,
        "plan_p99_us": anywhere.p99_ms() * 1e3,
        "plan_max_us": millis(anywhere.percentile(100)) * 1e3,
        "large_plan_p50_us": largest.p50_ms() * 1e3,
        "large_plan_p99_us": largest.p99_ms() * 1e3,
        "large_plan_max_us": millis(largest.percentile(100)) * 1e3,
        "inputs_per_s": number(inputs) / worked.as_secs_f64(),
        "busiest_ms": millis(busiest),
    }))
}

/// Tells the engine all there is, as the feed does at a start; returns the last serial.
fn told(talk: &mut Talk, town: &Town) -> Result<u64> {
    let mut serial = 0;
    for number in 0..town.crowd.repositories {
        serial += 1;
        talk.tell(town.announced(number, 0, serial)?);
    }
    for root in 0..town.crowd.roots {
        serial += 1;
        talk.tell(town.root(root, town.crowd.repository_of(root), serial)?);
    }
    talk.tell(Input::Replayed);
    talk.answer_all();
    Ok(serial)
}

fn settle(talk: &mut Talk, links: usize) -> Result<()> {
    let end = talk.now.plus(SETTLE_MAX);
    while !talk.is_settled(links) {
        ensure!(talk.now < end, "not confirmed in time: {:?}", talk.engine.totals());
        let next = talk.now.plus(Duration::from_secs(10));
        talk.elapse_until(next);
    }
    Ok(())
}

/// The engine's own time for one new root: from hearing of it to the last action that follows
/// when its window closes. What happens meanwhile, and the answers, are not counted.
fn planned(talk: &mut Talk, root: Input) -> Result<Duration> {
    let closes = talk.now.plus(grasp_engine::Settings::default().window);
    let started = own_time();
    talk.tell(root);
    let heard = own_time() - started;
    talk.elapse_until(Time(closes.0 - 1));
    talk.now = closes;
    let mut actions = Vec::new();
    let started = own_time();
    talk.engine.handle_deadline(closes);
    while let Some(action) = talk.engine.poll_action() {
        actions.push(action);
    }
    let took = heard + (own_time() - started);
    ensure!(!actions.is_empty(), "a new root leads to nothing");
    actions.into_iter().for_each(|action| talk.answer(action));
    talk.answer_all();
    Ok(took)
}

/// Seconds in which much happens: the inputs, the time they took, and that of the busiest second.
fn sustained(
    talk: &mut Talk,
    town: &Town,
    mut root: usize,
    mut serial: u64,
) -> Result<(usize, Duration, Duration)> {
    let before = talk.inputs;
    let (mut worked, mut busiest) = (Duration::ZERO, Duration::ZERO);
    for second in 0..SECONDS {
        let mut inputs = Vec::with_capacity(TOLD_PER_SECOND);
        for n in 0..TOLD_PER_SECOND {
            serial += 1;
            root += 1;
            let repository = (root * 31) % town.crowd.repositories;
            inputs.push(match n % ANNOUNCED_ONE_IN {
                0 => town.announced(repository, second, serial)?,
                _ => town.root(root, repository, serial)?,
            });
        }
        let end = talk.now.plus(Duration::from_secs(1));
        let started = own_time();
        for input in inputs {
            talk.tell(input);
            talk.answer_all();
        }
        talk.elapse_until(end);
        let took = own_time() - started;
        worked += took;
        busiest = busiest.max(took);
    }
    Ok((talk.inputs - before, worked, busiest))
}
