//! Why a pack was not taken, in words about the server that sent it: what it sent may be at fault, or
//! the way it came, or this server. Only the first says something about what was asked for.

use super::talk::Stop;
use grasp_git::fetch::{Answer, Refusal, wants_slowdown};
use grasp_git::{PackLimits, PackRefused, ReceiveError};

pub(super) enum Unusable {
    /// It would be no better another time.
    Unfit(String),
    Stop(Stop),
}

/// `left_bytes` is all that may still come from this server. What is our own fault is in the log as
/// well.
pub(super) fn judge(error: &ReceiveError, limits: &PackLimits, left_bytes: u64) -> Unusable {
    use PackRefused::{Bytes, Deltas, Inflates, Object, Objects, Truncated};
    let failed = |why: &str| Unusable::Stop(Stop::Failed(why.to_owned()));
    let unfit = |why: &str| Unusable::Unfit(why.to_owned());
    match error {
        ReceiveError::Refused(Bytes { .. }) if limits.bytes_max == left_bytes => {
            Unusable::Stop(Stop::TooLarge)
        }
        ReceiveError::Refused(Bytes { max }) => {
            unfit(&format!("its pack is larger than {max} bytes"))
        }
        ReceiveError::Refused(Objects { max, .. }) => {
            unfit(&format!("its pack has more than {max} objects"))
        }
        ReceiveError::Refused(Object { max, .. }) => {
            unfit(&format!("its pack has an object of more than {max} bytes"))
        }
        ReceiveError::Refused(Inflates { .. } | Deltas { .. }) | ReceiveError::Costly(_) => {
            unfit("its pack takes too much to unpack")
        }
        ReceiveError::Refused(Truncated { .. }) => failed("its pack ends too early"),
        ReceiveError::Incomplete(_) => unfit("its pack lacks objects that it refers to"),
        ReceiveError::Submodule(_) => unfit("its pack has submodules that may do harm"),
        ReceiveError::Refused(_) | ReceiveError::Invalid(_) | ReceiveError::GitLeft => {
            unfit("its pack is damaged")
        }
        ReceiveError::Late { .. } => failed("its pack took too long"),
        ReceiveError::NoRoom(why) => failed(&why.to_string()),
        ReceiveError::DiskFull => failed("the disk of this server is full"),
        ReceiveError::Upload(_) | ReceiveError::Git(_) | ReceiveError::Io(_) => {
            tracing::warn!(%error, "a fetched pack could not be stored");
            failed("this server could not store it")
        }
    }
}

/// Does this say that a server does not give out what it has as it should? That it lacks something new
/// does not: mirrors lag.
pub(super) fn is_doubtful(refusal: &Refusal, answer: &Answer) -> bool {
    match refusal {
        Refusal::Said(words) => answer.is_at_pack() && !wants_slowdown(words),
        Refusal::Malformed(_) => answer.is_at_pack(),
        Refusal::Truncated => answer.has_begun(),
        Refusal::Shallow => true,
        _ => false,
    }
}

/// The same of a pack that was not taken.
pub(super) fn is_broken(error: &ReceiveError) -> bool {
    use PackRefused::{Damaged, NotAPack, Trailing, Truncated};
    matches!(
        error,
        ReceiveError::Refused(Truncated { .. } | Damaged { .. } | NotAPack | Trailing)
            | ReceiveError::Incomplete(_)
            | ReceiveError::Invalid(_)
    )
}
