//! One port: sockets in, routed requests, answers out.

pub mod accept;
pub mod address;
pub mod api;
pub mod git;
pub mod live;
pub mod pages;
pub mod relay;
pub mod respond;
pub mod route;
pub mod unstuck;
