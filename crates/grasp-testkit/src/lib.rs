//! People, events, servers and clients for tests and benchmarks: nouns with verbs, no tests of
//! their own. Everything waits for facts; the caps on waiting only make a broken test fail.

mod author;
mod client;
mod random;
mod server;

pub use author::{Author, Draft};
pub use client::{Client, Reply};
pub use random::Random;
pub use server::Server;
