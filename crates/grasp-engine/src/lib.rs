//! What to ask of which relay, and when. The engine hears what happened, says what to do and when
//! it wants to be woken; it touches no socket, no disk and no clock, and the same inputs always
//! give the same actions. Invariant: new subscriptions come from `wanted - pending - confirmed`.
#![warn(clippy::indexing_slicing, clippy::expect_used, clippy::iter_over_hash_type)]

mod answers;
mod brake;
mod checking;
mod clock;
mod comparing;
mod confirming;
mod dial;
mod engine;
mod groups;
mod health;
mod history;
pub mod hunt;
mod links;
mod live;
mod pace;
mod pages;
mod planning;
mod question;
mod reading;
pub mod reception;
mod record;
mod refusal;
mod relay;
mod session;
mod settings;
mod talk;
mod timers;
mod turns;
mod verifying;
mod view;
pub mod vocabulary;
mod wanted;

pub use engine::Engine;
pub use health::Health;
pub use reception::{Intake, Patience, Reception, Report};
pub use record::{Account, Learned, Record};
pub use refusal::Refusal;
pub use settings::Settings;
pub use view::{RelayView, Totals, Wait};
pub use vocabulary::*;
