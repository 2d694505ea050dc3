//! From a name to addresses: one question, and one bad address in the answer spoils all of it.
//! Invariant: what comes out of here was permitted, address by address.

use crate::outbound::dial::DialError;
use crate::outbound::guard::Target;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// An answer that is on its way.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Whoever knows where names lead.
pub trait Resolve: Send + Sync {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Lookup<'a>;
}

/// The machine's own resolver.
#[derive(Debug, Clone)]
pub struct System(Arc<Semaphore>);

/// The system cannot be told to stop looking, so names that never answer keep a thread each for a
/// while. There are enough for honest names, and others than these for files and git.
const LOOKUPS_MAX: usize = 128;

impl Default for System {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS_MAX)))
    }
}

impl Resolve for System {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Lookup<'a> {
        Box::pin(async move {
            let permit = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
            let place = (host.to_owned(), port);
            let lookup = tokio::task::spawn_blocking(move || {
                let _until_it_ends = permit;
                place.to_socket_addrs().map(Iterator::collect)
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

/// Where to connect for this target: never empty, in the resolver's order, all permitted.
pub(super) async fn addresses(
    resolver: &dyn Resolve,
    target: &Target,
    time_max: Duration,
    addresses_max: usize,
) -> Result<Vec<SocketAddr>, DialError> {
    if let Some(address) = target.literal_address() {
        // Vetted with the URL; asked again, because this is what will be connected to.
        return permitted(target, vec![address], addresses_max);
    }
    let host = target.host.to_string();
    match timeout(time_max, resolver.lookup(&host, target.port)).await {
        Ok(Ok(found)) if !found.is_empty() => permitted(target, found, addresses_max),
        Ok(_) => Err(DialError::Failed(format!("the name {host} cannot be resolved"))),
        Err(_) => Err(DialError::Failed(format!("nobody answered in time where {host} is"))),
    }
}

fn permitted(
    target: &Target,
    mut found: Vec<SocketAddr>,
    addresses_max: usize,
) -> Result<Vec<SocketAddr>, DialError> {
    // Whoever answers with public and private addresses hopes that we try them in turn.
    if !found.iter().all(|address| target.permits(address.ip())) {
        let why = format!("{} leads to an address that is not on the public internet", target.host);
        return Err(DialError::Forbidden(why));
    }
    found.iter_mut().for_each(|address| address.set_port(target.port));
    found.truncate(addresses_max);
    Ok(found)
}
