//! Threads the server cannot do without. One that panics takes the process with it: everything
//! acknowledged is on the disk, and a supervisor that restarts us helps more than a server that
//! looks alive and answers nothing.

use std::io;
use std::thread::{Builder, JoinHandle, panicking};

pub fn essential(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = AbortIfPanicking;
        work();
    })
}

struct AbortIfPanicking;

impl Drop for AbortIfPanicking {
    fn drop(&mut self) {
        if panicking() {
            // The panic itself has been printed by now.
            std::process::abort();
        }
    }
}
