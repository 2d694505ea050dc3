//! The workloads, one per file. Each drives a running server and returns what it saw.

pub(crate) mod fanout;
pub(crate) mod idle;
pub(crate) mod ingest;
pub(crate) mod negentropy;
pub(crate) mod query;
