//! What an operator can ask and do from the command line. It talks to the running server through its
//! control socket, or reads the data of one that does not run, and says which of the two it did.

pub mod client;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod failure;
mod find;
pub mod look;
pub mod place;
pub mod print;
pub mod progress;
mod show;
pub mod source;
mod sync_now;
pub mod terminal;

use std::future::Future;

/// Commands do one thing at a time, and need no more threads than that.
pub(crate) fn on_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A name that is still being looked up keeps nobody from leaving.
    runtime.shutdown_background();
    done
}
