//! The hunt's stories: one hunt, its shell and everybody's git servers played by scripts, time
//! driven. Every action also passes a watch that counts requests, slots, pauses and bytes by itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod attacks;
mod bounds;
mod bytes;
mod checks;
mod delays;
mod during;
mod fairness;
mod finds;
mod kit;
mod limits;
mod queues;
mod refusals;
mod requests;
mod retries;
mod scale;
mod shares;
mod simulation;
mod slow;
mod sources;
mod strangers;
mod timelines;
mod watch;
