//! The one door. Every event, from a client or elsewhere, walks the same way: cheap checks,
//! verification on a lane of its own, then gather, judge and apply inside one durable transaction
//! shared with its neighbours; after that its subscribers are told, and then its sender.

mod about;
mod admit;
mod affected;
mod blacklist;
mod claiming;
mod claims;
mod copies;
mod fetch_step;
mod found;
mod gather;
mod held_room;
mod helping;
mod holds;
mod import;
mod inventory;
mod lacks;
mod land;
mod lanes;
mod paused;
mod plan;
mod preview;
pub mod refused;
mod removal;
mod roles;
mod room;
mod same_second;
mod second_chance;
mod serving;
mod settle;
mod signed;
mod sweep;
mod uploads;
mod views;
mod waiting;
mod wanted;
mod writer;

pub use about::{About, Hosted, about, followed_state};
pub use admit::{Admission, Bounds};
pub use blacklist::withdraw_blacklisted;
pub use found::{Fetched, Mended, Taken};
pub use held_room::{HeldFigures, held_figures};
pub use import::import;
pub use inventory::{inventory, unknown};
pub use lacks::{
    Errand, Lacking, Needy, Purpose, Question, Waits, families_around, families_of, lacking,
};
pub use land::{Copied, Delivery, Outcome};
pub use lanes::{Asker, Ingest, Jotting, Offer};
pub use plan::Copying;
pub use preview::{
    Need, Preview, PushQuestion, Round, compare, may_upload, others_in_need, preview,
};
pub use roles::RoleCache;
pub use same_second::SameSecondStates;
pub use second_chance::{SecondChance, Sizes};
pub use settle::{Checkpoint, Step};
pub use signed::{Signatures, Signed, signed};
pub use uploads::UploadLimits;
pub use views::{Hosting, hosted};
pub use waiting::{Hall, Mark, Rest, Waiting};
pub use wanted::WantedLimits;
pub use writer::Writer;

#[cfg(test)]
mod clock_tests;
#[cfg(test)]
pub(crate) mod crash_tests;
#[cfg(test)]
mod held_room_tests;
#[cfg(test)]
mod refused_tests;
#[cfg(test)]
mod second_chance_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
#[cfg(test)]
mod wanted_tests;
