//! Turns raw bytes into what a stranger might send: mostly well-formed, often odd, sometimes
//! broken. Every choice is read from the bytes, so a fuzzer that changes bytes changes choices, and
//! the same bytes always say the same.

mod events;
mod filters;
mod messages;
mod spelling;
mod tape;

pub use events::event;
pub use filters::filter;
pub use messages::{message, valid_message};
pub use spelling::{broken, event_json, filter_json, json_string};
pub use tape::{Tape, tapes};
