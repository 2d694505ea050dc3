//! Looking for git data: what is missing, where it may be, when to ask, and whom next. The hunt
//! hears what happened, says what to do and when it wants to be woken; it touches no socket, no disk
//! and no clock. Invariant: no request leaves without a permit of its domain.

mod absent;
mod alarm;
mod asking;
mod attempt;
mod budget;
mod candidate;
mod checking;
mod entry;
mod jobs;
mod machine;
mod neighbour;
mod neighbours;
mod pack_pace;
mod patience;
mod places;
mod proposals;
mod queue;
mod serving;
mod settings;
mod slot_class;
mod slots;
mod turns;
mod view;
mod vocabulary;

pub use checking::check_bytes;
pub use machine::Hunt;
pub use settings::HuntSettings;
pub use slot_class::SlotClass;
pub use view::{DomainView, FullSlots, HuntTotals};
pub use vocabulary::*;
