//! Configuration: textual values with their layer ([`RawConfig`]) become the program's own shape
//! ([`Config`]) once, at the start. Nothing here reads the environment, the disk or a clock; what
//! was read is handed in. Every complaint is collected, so one start tells all that is wrong.

mod build;
mod complaint;
mod docs;
mod dotenv;
mod git;
mod hunt;
mod limits;
mod names;
mod owner;
mod print;
mod quantity;
mod raw;
mod reader;
pub mod setting;
mod sync;
pub mod table;
mod value;

pub use build::{Backend, Config, ForwardingHeader, HoldingConfig, MetricsConfig, PolicyConfig};
pub use complaint::{Complaint, Layer};
pub use docs::markdown;
pub use git::{GitLimits, UnclaimedLimits};
pub use hunt::HuntConfig;
pub use limits::{
    ConnectionLimits, HttpLimits, IpBudgets, NegentropyLimits, RelayLimits, StoreLimits,
};
pub(crate) use names::edits;
pub use owner::{BadOwnerKey, OwnerSecret, configured_owner_key};
pub use print::print;
pub use raw::{RawConfig, RawValue, Sources};
pub use setting::Setting;
pub use sync::SyncConfig;
pub use table::SETTINGS;
