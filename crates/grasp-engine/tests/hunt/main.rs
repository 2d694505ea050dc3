//! The hunt's stories: one hunt, its shell and everybody's git servers played by scripts, time
//! driven. Every action also passes a watch that counts requests, slots, pauses and bytes by itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bounds;
mod bytes;
mod delays;
mod fairness;
mod finds;
mod kit;
mod limits;
mod queues;
mod requests;
mod retries;
mod scale;
mod simulation;
mod sources;
mod timelines;
mod watch;
