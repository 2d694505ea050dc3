//! Repositories on disk, git's wire formats, and the git processes that do the pack work. Only typed
//! names reach a path, an argument or git's input. Who may do what is decided elsewhere.

pub mod advertise;
pub mod commands;
mod copy;
mod disk_reserve;
mod disk_use;
mod durable;
pub mod fetch;
mod gate;
mod gitconfig;
mod gitmodules;
mod health;
mod land;
mod layout;
mod objects;
pub mod pktline;
mod process;
mod quarantine;
mod reach;
pub mod refs;
pub mod report;
mod share;
mod tidy;
pub mod upload;

pub use advertise::{Protocol, Service};
pub use commands::{BadPush, HeadLimits, HeadReader, PushCaps, PushHead, Step};
pub use refs::{Entry, RefTable, RefsError};

pub use copy::copy;
pub use disk_reserve::{DiskReserve, MeasureFree, NoRoom, Reservation};
pub use disk_use::used_bytes;
pub use gate::{Gate, PackLimits, PackRefused, Seen};
pub use gitmodules::BadSubmodule;
pub use health::{damaged_packs, is_sound, set_packs_aside};
pub use land::{discard, ensure_repository, land, sweep_incoming};
pub use layout::{Layout, LayoutError};
pub use objects::{ObjectKind, Objects, ObjectsError, RefEntries, RootFile, Unread};
pub use process::{Exit, Git, GitError, GitLimits, Running, Version, end_leftovers};
pub use quarantine::{Quarantine, ReceiveError, Received};
pub use reach::{reachable, reachable_count};
pub use share::SharePlan;
pub use tidy::{Tidied, new_packs, packs, remove_maintenance_leftovers, tidy};
