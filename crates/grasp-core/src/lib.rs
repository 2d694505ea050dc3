//! Types and rules. Everything here is a plain function over plain values: no I/O, no async, no
//! clock. What comes from a stranger is parsed once into a typed value and is never text again.

pub mod clone_url;
pub mod event;
pub mod filter;
pub mod held_share;
pub mod hold;
pub mod id;
pub mod json;
pub mod kind;
pub mod maintainers;
pub mod nip09;
pub mod nip34;
pub mod policy;
pub mod proposal_share;
pub mod push;
pub mod relay_url;
pub mod service;
pub mod size;
pub mod sorted_list;
pub mod terms;
pub mod time;
pub mod unfit;

pub use clone_url::{CloneUrl, Domain};
pub use event::{Event, Tag, VerifiedEvent};
pub use filter::Filter;
pub use id::{Coordinate, EventId, Identifier, Oid, PubKey, RefName, RepoId};
pub use kind::Kind;
pub use relay_url::RelayUrl;
pub use service::Service;
pub use size::human_bytes;
pub use sorted_list::SortedList;
pub use time::{Time, Timestamp, WallOffset};
