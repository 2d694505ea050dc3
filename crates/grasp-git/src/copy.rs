//! Objects from one repository (or quarantine) into another owner's quarantine, packed by git and
//! taken in like a push: one way in, one set of checks. Which objects are wanted is decided elsewhere.

use crate::gate::{PackLimits, PackRefused};
use crate::process::{Git, Running};
use crate::quarantine::{Quarantine, ReceiveError, Received};
use crate::reach::revisions;
use grasp_core::Oid;
use std::collections::BTreeSet;
use std::path::Path;
use tokio::io::AsyncWriteExt;

/// Takes over everything `wants` reach. `has` is what the destination has already; both must be in
/// `from`.
pub async fn copy(
    git: &Git,
    from: &Path,
    into: &Quarantine,
    wants: &BTreeSet<Oid>,
    has: &BTreeSet<Oid>,
    limits: &PackLimits,
) -> Result<Received, ReceiveError> {
    let Running { mut stdin, mut stdout, exit } = git.pack_objects(from)?;
    let ask = async move {
        // If git does not listen any more, its exit says why.
        let _ = stdin.write_all(revisions(wants, has).as_bytes()).await;
    };
    let ((), received) = tokio::join!(ask, into.receive(git, limits, &mut stdout));
    match received {
        Ok(received) => {
            exit.finish().await?;
            Ok(received)
        }
        // A pack that breaks off is the packer's fault, and it has ended.
        Err(why @ ReceiveError::Refused(PackRefused::Truncated { .. })) => {
            match exit.finish().await {
                Err(failed) => Err(failed.into()),
                Ok(()) => Err(why),
            }
        }
        Err(why) => Err(why),
    }
}
