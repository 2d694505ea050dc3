//! A pack on its way from somebody's server into quarantine, like a push. Nothing of it counts before
//! all of it is here and checked; what fails leaves nothing behind.

use super::course::Heard;
use super::talk::{Arriving, Stop, Talk, heard};
use super::{Desk, Fetcher, Part};
use grasp_core::Oid;
use grasp_git::fetch::{Refusal, Step};
use grasp_git::{Objects, PackLimits, PackRefused, Quarantine, ReceiveError, copy};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

/// A pack in quarantine, and what of all that is wanted is in it.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) quarantine: Quarantine,
    pub(super) found: BTreeSet<Oid>,
    /// Nothing at all was sent.
    pub(super) is_empty: bool,
}

/// Between the network and git.
const PIPE_BYTES: usize = 256 << 10;
/// A healthy fetch may take as long as it needs; its own silence ends it, not this.
const DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);

impl Fetcher {
    /// Takes the pack in, unless the server says before it begins that there is none.
    pub(super) async fn receive<D: Desk>(
        &self,
        talk: &mut Talk<'_, D>,
        mut from: Arriving,
        part: &Part,
        wants: &BTreeSet<Oid>,
    ) -> Result<Result<Parcel, Heard>, Stop> {
        let quarantine = self.quarantine(part).await?;
        let left_bytes = talk.left_bytes();
        let limits = PackLimits {
            bytes_max: part.limits.bytes_max.min(left_bytes),
            deadline: DEADLINE,
            ..part.limits.clone()
        };
        let (mut pack, to) = duplex(PIPE_BYTES);
        let reading = async {
            let read = quarantine.receive(&self.git, &limits, &mut pack).await;
            // Whoever still writes has to notice that nobody reads.
            drop(pack);
            read
        };
        let (told, received) = tokio::join!(pump(talk, &mut from, to), reading);
        match told {
            Err(Ended::Stop(stop)) => return Err(stop),
            Err(Ended::Refused(refusal)) if from.answer().pack_bytes() == 0 => {
                return heard(refusal).map(Err);
            }
            Err(Ended::Refused(refusal)) => return Err(Stop::Failed(refusal.to_string())),
            // Why they do not read any more, they say themselves.
            Ok(()) | Err(Ended::Unread) => {}
        }
        let received = received.map_err(|error| stop(&error, &limits, left_bytes))?;
        let found = look(quarantine.path(), wants).await?;
        Ok(Ok(Parcel { quarantine, found, is_empty: received.objects == 0 }))
    }

    /// Only what is wanted of a pack that may hold much else.
    pub(super) async fn select(&self, all: Parcel, part: &Part) -> Result<Parcel, Stop> {
        let quarantine = self.quarantine(part).await?;
        let haves = match part.whole {
            true => BTreeSet::new(),
            false => look(all.quarantine.path(), &part.haves.iter().copied().collect()).await?,
        };
        let limits = PackLimits { deadline: DEADLINE, ..part.limits.clone() };
        let copied =
            copy(&self.git, all.quarantine.path(), &quarantine, &all.found, &haves, &limits).await;
        copied.map_err(|error| stop(&error, &limits, u64::MAX))?;
        let found = look(quarantine.path(), &all.found).await?;
        Ok(Parcel { quarantine, found, is_empty: false })
    }

    /// Behind objects that are here there is nothing new.
    pub(super) async fn has_all(&self, part: &Part, tips: &BTreeSet<Oid>) -> Result<bool, Stop> {
        let dir = self.layout.repository(&part.to);
        if part.whole || !dir.is_dir() {
            return Ok(false);
        }
        Ok(look(&dir, tips).await?.len() == tips.len())
    }

    async fn quarantine(&self, part: &Part) -> Result<Quarantine, Stop> {
        let (layout, to, whole) = (self.layout.clone(), part.to.clone(), part.whole);
        let open = move || match whole {
            true => Quarantine::apart(&layout),
            false => Quarantine::open(&layout, &to),
        };
        let opened = tokio::task::spawn_blocking(open).await;
        opened.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| {
            tracing::warn!(repo = %part.to, %error, "no quarantine for a fetch");
            Stop::Failed("this server could not store it".to_owned())
        })
    }
}

enum Ended {
    Stop(Stop),
    Refused(Refusal),
    /// Nobody takes the pack any more.
    Unread,
}

/// The pack out of the answer, to its very end: also behind the pack a server may say that it failed.
async fn pump<D: Desk>(
    talk: &mut Talk<'_, D>,
    from: &mut Arriving,
    mut to: DuplexStream,
) -> Result<(), Ended> {
    while let Some(piece) = talk.next(from).await.map_err(Ended::Stop)? {
        let mut rest: &[u8] = &piece;
        while let Step::Pack { bytes, rest: behind } =
            from.answer().push(rest).map_err(Ended::Refused)?
        {
            to.write_all(bytes).await.map_err(|_| Ended::Unread)?;
            rest = behind;
        }
    }
    from.answer().finish().map_err(Ended::Refused)
}

async fn look(dir: &Path, wants: &BTreeSet<Oid>) -> Result<BTreeSet<Oid>, Stop> {
    let (dir, wants) = (dir.to_owned(), wants.clone());
    let look = move || {
        let objects = Objects::open(&dir)?;
        Ok(wants.into_iter().filter(|oid| objects.contains(oid)).collect())
    };
    let looked = tokio::task::spawn_blocking(look).await;
    looked.map_err(io::Error::other).and_then(|looked| looked.map_err(unreadable)).map_err(
        |error| {
            tracing::warn!(%error, "cannot look for what was fetched");
            Stop::Failed("this server could not read what it has".to_owned())
        },
    )
}

fn unreadable(error: grasp_git::ObjectsError) -> io::Error {
    io::Error::other(error)
}

/// In words about the server that sent it. What is our own fault is in the log as well.
fn stop(error: &ReceiveError, limits: &PackLimits, left_bytes: u64) -> Stop {
    use PackRefused::{Bytes, Deltas, Inflates, Object, Objects, Truncated};
    let why = match error {
        ReceiveError::Refused(Bytes { .. }) if limits.bytes_max == left_bytes => {
            return Stop::TooLarge;
        }
        ReceiveError::Refused(Bytes { max }) => format!("its pack is larger than {max} bytes"),
        ReceiveError::Refused(Objects { max, .. }) => {
            format!("its pack has more than {max} objects")
        }
        ReceiveError::Refused(Object { max, .. }) => {
            format!("its pack has an object of more than {max} bytes")
        }
        ReceiveError::Refused(Inflates { .. } | Deltas { .. }) | ReceiveError::Costly(_) => {
            "its pack takes too much to unpack".to_owned()
        }
        ReceiveError::Refused(Truncated { .. }) => "its pack ends too early".to_owned(),
        ReceiveError::Incomplete(_) => "its pack lacks objects that it refers to".to_owned(),
        ReceiveError::Submodule(_) => "its pack has submodules that may do harm".to_owned(),
        ReceiveError::Refused(_) | ReceiveError::Invalid(_) | ReceiveError::GitLeft => {
            "its pack is damaged".to_owned()
        }
        ReceiveError::Late { .. } => "its pack took too long".to_owned(),
        ReceiveError::DiskFull => "the disk of this server is full".to_owned(),
        ReceiveError::Upload(_) | ReceiveError::Git(_) | ReceiveError::Io(_) => {
            tracing::warn!(%error, "a fetched pack could not be stored");
            "this server could not store it".to_owned()
        }
    };
    Stop::Failed(why)
}
