//! The truth about this server, for people and machines: what it has, what it lacks and why. Read
//! from the store, the repositories and a look at the running machines; nothing is asked of others.

pub mod shapes;
pub mod text;

pub use shapes::*;
