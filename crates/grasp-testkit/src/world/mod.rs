//! Many engines, or one, in a made-up world: virtual time, a seeded network, relays that behave as
//! `Behaviour` says. Nothing here reads a clock or opens a socket.

pub mod bench;
pub mod names;
pub mod watch;

mod bench_looks;
mod clocks;
mod clockwork;
mod deeds;
mod faults;
mod ingest;
mod links;
mod node;
mod oracle;
mod people;
mod plan;
mod policy;
mod relay;
mod server;
mod shelf;
mod story;
mod wire;

pub use bench::{Asked, Bench, Compared, START, empty_page, full_page};
pub use clockwork::World;
pub use plan::Outcome;
