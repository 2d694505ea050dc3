//! The way out. Every connection to a place that a stranger named is made here and nowhere else:
//! vetted by name, resolved once, vetted by address, and made to that very address.
//! Invariant: no packet leaves for an address that the rule of the dial does not permit.

pub mod address;
mod answer;
mod dial;
mod guard;
mod http;
mod nonce;
mod pace;
mod places;
mod probe;
mod resolve;
mod retry_after;
mod starts;
mod stream;

pub use answer::Response;
pub use dial::{DialError, DialLimits, Dialer, Dialled};
pub use guard::{Forbidden, Protocol, Rule, Target, vet, vet_url};
pub use http::{Ask, CallError, CallLimits, Caller, Connection};
pub use nonce::Instance;
pub use pace::Silence;
pub use places::{Place, Places};
pub use resolve::{Lookup, Resolve, System};
pub use retry_after::date as http_date;
pub use starts::{SharedStarts, StartKind, StartLimits, Starts, Until};
pub use stream::Stream;
