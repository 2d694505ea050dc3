//! The server: tasks, sockets, clock, environment and command line around the pure crates.

pub mod cli;
pub mod clock;
pub mod config;
pub mod datadir;
pub mod errand;
pub mod events;
pub mod feed;
pub mod fetch;
pub mod host;
pub mod http;
pub mod hub;
pub mod hunt;
pub mod ingest;
pub mod keeper;
pub mod landing;
pub mod metrics;
pub mod node;
pub mod outbound;
pub mod outbox;
pub mod peers;
pub mod readers;
pub mod report;
pub mod repos;
pub mod serve;
pub mod sync;
pub mod threads;
