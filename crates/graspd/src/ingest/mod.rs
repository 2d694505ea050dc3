//! The one door. Every event, from a client or elsewhere, walks the same way: cheap checks,
//! verification on a lane of its own, then gather, judge and apply inside one durable transaction
//! shared with its neighbours; after that its subscribers are told, and then its sender.

mod about;
mod admit;
mod affected;
mod blacklist;
mod copies;
mod found;
mod gather;
mod helping;
mod holds;
mod import;
mod inventory;
mod lacks;
mod land;
mod lanes;
mod plan;
mod preview;
pub mod refused;
mod removal;
mod roles;
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
pub use import::import;
pub use inventory::{inventory, unknown};
pub use lacks::{
    Errand, Lacking, Needy, Purpose, Question, Waits, families_around, families_of, lacking,
};
pub use land::{Copied, Delivery, Outcome};
pub use lanes::{Asker, Ingest, Jotting, Offer};
pub use plan::Copying;
pub use preview::{Preview, Round, compare, may_upload, others_in_need, preview};
pub use roles::RoleCache;
pub use second_chance::{SecondChance, Sizes};
pub use settle::{Checkpoint, Step};
pub use signed::{Signatures, Signed, signed};
pub use uploads::UploadLimits;
pub use views::{Hosting, hosted};
pub use waiting::{Hall, Mark, Rest, Waiting};
pub use wanted::WantedLimits;
pub use writer::Writer;

#[cfg(test)]
pub(crate) mod crash_tests;
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
