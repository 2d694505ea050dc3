//! One client's conversation with a relay (NIPs 1, 11, 42, 45, 67, 70, 77). Text goes in, actions
//! and frames come out; sockets, storage and the clock belong to the server around it.
#![warn(clippy::indexing_slicing, clippy::expect_used, clippy::iter_over_hash_type)]

pub mod bucket;
pub mod budgets;
pub mod client;
pub mod info;
pub mod limits;
pub mod message;
pub mod neg;
pub mod reply;
pub mod session;
pub mod subid;
pub mod subscriptions;

pub use bucket::{Rate, TokenBucket};
pub use budgets::{Allowance, Budgets, Crowd, IpKey, Loopback, Refused, Unlimited};
pub use client::{RelayMessage, Unreadable};
pub use limits::Limits;
pub use message::{Addressee, ClientMessage, Malformed};
pub use neg::{IdSet, Initiator, Reconciler};
pub use session::{Action, Session};
pub use subid::SubId;
pub use subscriptions::{ConnId, Subscriptions};
