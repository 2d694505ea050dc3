//! NIP-34 events, parsed once into typed values. A parser here never fails on what it can skip: a
//! stranger's malformed entry grants nothing and breaks nothing.

pub mod announcement;
pub mod roles;
pub mod state;
pub mod thread;

pub use announcement::Announcement;
pub use roles::Roles;
pub use state::State;
pub use thread::{PullRequest, References};

use crate::event::Event;

/// All values of all tags of this name: writers disagree whether that is one tag or many. Kept as
/// text for people to read; whoever follows one parses it first.
fn urls(event: &Event, name: &str) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    let values = event.tags.iter().filter(|tag| tag.name() == name).flat_map(|tag| tag.values());
    let usable =
        values.map(str::trim).filter(|url| !url.is_empty() && !url.contains(char::is_control));
    usable.filter(|url| seen.insert(*url)).map(str::to_owned).collect()
}
