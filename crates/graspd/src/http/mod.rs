//! One port: sockets in, routed requests, answers out.

pub mod accept;
pub mod address;
pub mod api;
mod api_request;
pub mod git;
pub mod idle;
pub mod live;
pub mod pages;
pub mod relay;
pub mod respond;
pub mod route;
pub mod unstuck;
