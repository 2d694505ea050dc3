//! The engine's stories: one engine on a bench, its relays played by hand, time driven. Each file is
//! a section of the sync paper; every action also passes the bench's watch over limits and pace.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod stories {
    mod addresses;
    mod budgets;
    mod clock;
    mod complete;
    mod daily;
    mod dialling;
    mod ends;
    mod fairness;
    mod filters;
    mod health;
    mod history;
    mod kit;
    mod lifecycle;
    mod live;
    mod missed;
    mod negentropy;
    mod pace;
    mod pages;
    mod probing;
    mod promises;
    mod reception;
    mod reconnect;
    mod record;
    mod refusals;
    mod refused;
    mod repack;
    mod reports;
    mod traps;
    mod traps_later;
    mod verdicts;
    mod wanted;
}
