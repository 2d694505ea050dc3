//! The questions clients ask most, over several connections, one at a time each.

use crate::events::World;
use crate::floors::echo::Exchange;
use crate::stats::Latencies;
use crate::wire::{Socket, connect_many, hear, hear_until, say};
use anyhow::{Context, Result, ensure};
use futures_util::SinkExt;
use grasp_core::EventId;
use grasp_testkit::Random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

const LIMIT: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    Id,
    Repository,
    Replies,
    AuthorKind,
    Newest,
}

impl Shape {
    pub(crate) const ALL: [Shape; 5] =
        [Shape::Id, Shape::Repository, Shape::Replies, Shape::AuthorKind, Shape::Newest];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Shape::Id => "by id",
            Shape::Repository => "#a",
            Shape::Replies => "#e",
            Shape::AuthorKind => "author+kind",
            Shape::Newest => "newest",
        }
    }

    pub(crate) fn filter(self, world: &World, issues: &[EventId], random: &mut Random) -> Value {
        match self {
            Shape::Id => json!({"ids": [random.pick(issues)], "limit": LIMIT}),
            Shape::Repository => json!({"#a": [random.pick(&world.repositories)], "limit": LIMIT}),
            Shape::Replies => json!({"#e": [random.pick(issues)], "limit": LIMIT}),
            Shape::AuthorKind => {
                let author = random.pick(&world.authors).key.to_hex();
                json!({"authors": [author], "kinds": [1621], "limit": LIMIT})
            }
            Shape::Newest => json!({"limit": LIMIT}),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) all: Latencies,
    pub(crate) by_shape: BTreeMap<Shape, Latencies>,
    /// What went over the wire, for the echo to repeat.
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) events: usize,
}

impl Answers {
    fn append(&mut self, more: Answers) {
        self.all.append(more.all);
        for (shape, latencies) in more.by_shape {
            self.by_shape.entry(shape).or_default().append(latencies);
        }
        self.exchanges.extend(more.exchanges);
        self.events += more.events;
    }
}

pub(crate) async fn ask_all(
    address: &str,
    world: &World,
    connections: usize,
    queries: usize,
) -> Result<Answers> {
    let issues = world.issue_ids();
    let mut asking = JoinSet::new();
    for (number, socket) in (1..).zip(connect_many(address, connections).await?) {
        let mut random = Random::seeded(number);
        let questions = (0..queries).map(|_| {
            let shape = *random.pick(&Shape::ALL);
            let filter = shape.filter(world, &issues, &mut random);
            (shape, Utf8Bytes::from(format!("[\"REQ\",\"q\",{filter}]")))
        });
        asking.spawn(ask(socket, questions.collect()));
    }
    let mut answers = Answers::default();
    while let Some(done) = asking.join_next().await {
        answers.append(done??);
    }
    ensure!(answers.events > 0, "no query found anything");
    Ok(answers)
}

async fn ask(mut socket: Socket, questions: Vec<(Shape, Utf8Bytes)>) -> Result<Answers> {
    let mut answers = Answers::default();
    for (shape, question) in questions {
        let request = question.len();
        let started = Instant::now();
        socket.feed(Message::Text(question)).await?;
        socket.flush().await?;
        let (answer, events) = hear_out(&mut socket).await?;
        let took = started.elapsed();
        answers.all.add(took);
        answers.by_shape.entry(shape).or_default().add(took);
        answers.exchanges.push(Exchange { request, answer });
        answers.events += events;
        // Goes out together with the next question.
        socket.feed(Message::Text(Utf8Bytes::from_static("[\"CLOSE\",\"q\"]"))).await?;
    }
    Ok(answers)
}

/// Bytes and events up to EOSE.
pub(crate) async fn hear_out(socket: &mut Socket) -> Result<(usize, usize)> {
    let (mut bytes, mut events) = (0, 0);
    loop {
        let text = hear(socket).await?;
        bytes += text.len();
        if text.starts_with("[\"EOSE\"") {
            return Ok((bytes, events));
        }
        ensure!(text.starts_with("[\"EVENT\""), "the server refused: {}", text.as_str());
        events += 1;
    }
}

/// How many events the server says it has.
pub(crate) async fn count(address: &str) -> Result<usize> {
    count_of(&mut crate::wire::connect(address).await?, "{}").await
}

/// How many of those that a filter finds.
pub(crate) async fn count_of(socket: &mut Socket, filter: &str) -> Result<usize> {
    say(socket, format!("[\"COUNT\",\"c\",{filter}]")).await?;
    let text = hear_until(socket, "[\"COUNT\"").await?;
    let answer: Value = serde_json::from_str(&text)?;
    let count = answer.get(2).and_then(|it| it.get("count")).and_then(Value::as_u64);
    Ok(usize::try_from(count.context("a COUNT without a count")?)?)
}
