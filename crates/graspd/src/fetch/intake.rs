//! A pack on its way from somebody's server into quarantine, like a push. Nothing of it counts before
//! all of it is here and checked; what fails leaves nothing behind, and what nobody asked for stays
//! out.

use super::refusal::{Unusable, is_broken, is_doubtful, judge};
use super::talk::{Arriving, Stop, Talk, heard};
use super::words::Heard;
use super::{Desk, Fetcher, Part};
use grasp_core::Oid;
use grasp_git::fetch::{Refusal, Step};
use grasp_git::{ObjectKind, Objects, PackLimits, Quarantine, copy, reachable_count};
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
    /// Wanted as commits, and something else.
    pub(super) misfits: BTreeSet<Oid>,
    /// How many were sent.
    pub(super) objects: u32,
}

/// What came of asking for objects: a pack in quarantine, or something else.
pub(super) type Got = Result<Result<Parcel, Heard>, Stop>;

/// Between the network and git.
const PIPE_BYTES: usize = 256 << 10;
/// A healthy fetch may take as long as it needs; its own silence ends it, not this.
const DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);

impl Fetcher {
    /// Takes the pack in, unless the server says before it begins that there is none.
    pub(super) async fn receive<D: Desk>(
        &self,
        talk: &mut Talk<'_, D>,
        from: Arriving,
        part: &Part,
        wants: &BTreeSet<Oid>,
    ) -> Got {
        let quarantine = self.quarantine(part).await?;
        self.receive_into(quarantine, talk, from, part, wants).await
    }

    /// The same, into this quarantine.
    pub(super) async fn receive_into<D: Desk>(
        &self,
        quarantine: Quarantine,
        talk: &mut Talk<'_, D>,
        mut from: Arriving,
        part: &Part,
        wants: &BTreeSet<Oid>,
    ) -> Got {
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
        let (told, received) = tokio::join!(self.pump(talk, &mut from, to), reading);
        let doubtful = match (&told, &received) {
            (Err(Ended::Refused(refusal)), _) => is_doubtful(refusal, from.answer()),
            (Ok(()) | Err(Ended::Unread), Err(error)) => is_broken(error),
            _ => false,
        };
        if doubtful {
            talk.desk.doubts(part);
        }
        match told {
            Err(Ended::Stop(stop)) => return Err(stop),
            Err(Ended::Refused(refusal)) if from.answer().pack_bytes() == 0 => {
                return heard(refusal).map(Err);
            }
            Err(Ended::Refused(refusal)) => return Err(Stop::Failed(refusal.to_string())),
            // Why they do not read any more, they say themselves.
            Ok(()) | Err(Ended::Unread) => {}
        }
        let received = match received {
            Ok(received) => received,
            Err(error) => return unusable(judge(&error, &limits, left_bytes)),
        };
        let seen = look(quarantine.path(), wants, &part.commits).await?;
        let Seen { fits: found, misfits } = seen;
        Ok(Ok(Parcel { quarantine, found, misfits, objects: received.objects }))
    }

    /// The pack out of the answer, to its very end: also behind the pack a server may say that it
    /// failed.
    async fn pump<D: Desk>(
        &self,
        talk: &mut Talk<'_, D>,
        from: &mut Arriving,
        mut to: DuplexStream,
    ) -> Result<(), Ended> {
        while let Some(piece) = talk.next(from).await.map_err(Ended::Stop)? {
            let mut rest: &[u8] = &piece;
            let mut pack_bytes = 0;
            while let Step::Pack { bytes, rest: behind } =
                from.answer().push(rest).map_err(Ended::Refused)?
            {
                to.write_all(bytes).await.map_err(|_| Ended::Unread)?;
                pack_bytes += bytes.len();
                rest = behind;
            }
            talk.note_pack(from, pack_bytes);
        }
        from.answer().finish().map_err(Ended::Refused)
    }

    /// The parcel as it is, if nobody put anything else into it.
    pub(super) async fn unmixed(&self, parcel: Parcel, part: &Part) -> Got {
        let haves = self.haves_here(&parcel, part).await?;
        let counted = reachable_count(&self.git, &parcel.quarantine, &parcel.found, &haves).await;
        let count = counted.map_err(|error| {
            tracing::warn!(repo = %part.to, %error, "cannot look through what was fetched");
            Stop::Failed(UNREADABLE.to_owned())
        })?;
        match count < u64::from(parcel.objects) {
            true => self.select(parcel, part).await,
            false => Ok(Ok(parcel)),
        }
    }

    /// Only what is wanted of a pack that may hold much else.
    pub(super) async fn select(&self, all: Parcel, part: &Part) -> Got {
        let quarantine = self.quarantine(part).await?;
        let haves = self.haves_here(&all, part).await?;
        let limits = PackLimits { deadline: DEADLINE, ..part.limits.clone() };
        let copied =
            copy(&self.git, all.quarantine.path(), &quarantine, &all.found, &haves, &limits).await;
        let objects = match copied {
            Ok(received) => received.objects,
            Err(error) => return unusable(judge(&error, &limits, u64::MAX)),
        };
        let found = look(quarantine.path(), &all.found, &part.commits).await?.fits;
        Ok(Ok(Parcel { quarantine, found, misfits: all.misfits, objects }))
    }

    async fn haves_here(&self, parcel: &Parcel, part: &Part) -> Result<BTreeSet<Oid>, Stop> {
        let haves = part.haves_to_tell().iter().copied().collect();
        Ok(look(parcel.quarantine.path(), &haves, &BTreeSet::new()).await?.fits)
    }

    /// Behind objects that are here there is nothing new.
    pub(super) async fn has_all(&self, part: &Part, tips: &BTreeSet<Oid>) -> Result<bool, Stop> {
        let dir = self.layout.repository(&part.to);
        if part.whole || !dir.is_dir() {
            return Ok(false);
        }
        Ok(look(&dir, tips, &BTreeSet::new()).await?.fits.len() == tips.len())
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

fn unusable(why: Unusable) -> Got {
    match why {
        Unusable::Unfit(why) => Ok(Err(Heard::Unfit(why))),
        Unusable::Stop(stop) => Err(stop),
    }
}

const UNREADABLE: &str = "this server could not read what it has";

#[derive(Debug, Default)]
struct Seen {
    fits: BTreeSet<Oid>,
    misfits: BTreeSet<Oid>,
}

async fn look(dir: &Path, wants: &BTreeSet<Oid>, commits: &BTreeSet<Oid>) -> Result<Seen, Stop> {
    let (dir, commits, wants) = (dir.to_owned(), wants & commits, wants.clone());
    let look = move || {
        let objects = Objects::open(&dir).map_err(io::Error::other)?;
        let mut seen = Seen::default();
        for oid in wants {
            match (commits.contains(&oid), objects.contains(&oid)) {
                (_, false) => false,
                (false, true) => seen.fits.insert(oid),
                (true, true) if objects.kind(&oid) == Some(ObjectKind::Commit) => {
                    seen.fits.insert(oid)
                }
                (true, true) => seen.misfits.insert(oid),
            };
        }
        Ok(seen)
    };
    let looked = tokio::task::spawn_blocking(look).await;
    looked.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| {
        tracing::warn!(%error, "cannot look for what was fetched");
        Stop::Failed(UNREADABLE.to_owned())
    })
}
