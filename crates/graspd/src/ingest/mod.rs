//! The one door. Every event, from a client or elsewhere, walks the same way: cheap checks,
//! verification on a lane of its own, then gather, judge and apply inside one durable transaction
//! shared with its neighbours; after that its subscribers are told, and then its sender.

mod admit;
mod blacklist;
mod gather;
mod lanes;
mod roles;
mod writer;

pub use admit::{Admission, Bounds, import_one};
pub use blacklist::withdraw_blacklisted;
pub use lanes::{Asker, Ingest, Offer};
pub use writer::Writer;

#[cfg(test)]
mod tests;
