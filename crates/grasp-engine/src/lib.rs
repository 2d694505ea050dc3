//! What to ask of which relay, and when. The engine hears what happened, says what to do and when
//! it wants to be woken; it touches no socket, no disk and no clock, and the same inputs always
//! give the same actions. Invariant: new subscriptions come from `wanted - pending - confirmed`.
#![warn(clippy::indexing_slicing, clippy::expect_used, clippy::iter_over_hash_type)]

mod answers;
mod brake;
mod chance;
mod checking;
mod clock;
mod comparing;
mod complete;
mod confirming;
mod daily;
mod dial;
mod engine;
mod fallback;
mod figures;
mod groups;
mod health;
mod history;
pub mod hunt;
mod links;
mod live;
mod neg_memory;
mod neg_windows;
mod no_room;
mod pace;
mod pages;
mod planning;
mod probing;
mod question;
mod reading;
pub mod reception;
mod record;
mod refusal;
mod refused_budget;
mod relay;
mod relay_addresses;
mod relay_hosts;
mod session;
mod settings;
mod talk;
mod timers;
mod trouble;
mod turns;
mod verifying;
mod view;
pub mod vocabulary;
mod wanted;

pub use complete::{
    COMPLETE_DAYS_MAX, CompleteDays, CompleteFigures, CompleteTally, MirrorLook, MirrorVerdict,
    complete_figures,
};
pub use daily::DailyResult;
pub use engine::Engine;
pub use figures::SyncFigures;
pub use health::Health;
pub use neg_memory::NegMemory;
pub use reception::{Intake, Patience, Reception, Report};
pub use record::{Account, Learned, Record};
pub use refusal::{Refusal, end_of_neg_err};
pub use refused_budget::RefusedBudget;
pub use relay_hosts::{NotFollowed, RELAYS_PER_HOST_MAX};
pub use settings::Settings;
pub use trouble::RelayTrouble;
pub use view::{BatchView, RelayView, Totals, Wait};
pub use vocabulary::*;
