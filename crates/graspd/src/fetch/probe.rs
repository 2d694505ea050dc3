//! Does a git server give out the objects of the refs it lists? It is asked for a few of them, or for
//! everything; what comes is read to its end, or to a bound, and thrown away. What stands in the way
//! without being about the objects proves nothing.

use super::Desk;
use super::listing::Visit;
use super::talk::{Stop, post};
use super::words::Speaks;
use crate::outbound::Ask;
use grasp_core::Oid;
use grasp_engine::hunt::Outcome;
use grasp_git::fetch::{
    Answer, Glance, Refusal, Sample, Step, request_v0, request_v2, sample_v2, wants_slowdown,
};
use grasp_git::{PackLimits, PackRefused};
use hyper::body::Bytes;
use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only the commits themselves, where the server can do that.
    Routine,
    /// Everything behind them, as a clone would.
    Thorough,
}

impl Depth {
    /// Objects that are named.
    pub fn tips_max(self) -> usize {
        match self {
            Self::Routine => 16,
            Self::Thorough => 2_000,
        }
    }

    fn bytes_max(self) -> u64 {
        match self {
            Self::Routine => 256 << 10,
            Self::Thorough => 64 << 20,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed {
    Given,
    /// It does not have, or not give out, what it lists.
    Lacking,
    /// It answers in a way that says nothing about its objects.
    Unclear,
    /// Its tips; of what is behind them nothing is known.
    Tips,
}

/// Whoever gave out this much of a sound pack in this time gives out the rest as well.
const PATIENCE: Duration = Duration::from_secs(50);
const SLOW_BYTES: u64 = 256 << 10;

/// One way to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Sample(Sample),
    Whole,
}

/// What came of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Came {
    /// A sound pack of so many objects.
    Pack(u32),
    /// As much of a pack as is looked at, and sound so far.
    Enough,
    Broken(PackRefused),
    Refused {
        why: Refusal,
        begun: bool,
        at_pack: bool,
    },
    /// No answer of git's.
    Words,
}

impl<D: Desk> Visit<'_, D> {
    /// These should be tips that it lists.
    pub async fn probe(&mut self, wants: &BTreeSet<Oid>, depth: Depth) -> Result<Probed, Outcome> {
        self.asked(wants, depth).await.map_err(|stop| stop.outcome(self.url))
    }

    async fn asked(&mut self, wants: &BTreeSet<Oid>, depth: Depth) -> Result<Probed, Stop> {
        let (memory, domain) = (&self.fetcher.memory, self.url.domain());
        let unfiltered = memory.lock().is_unfiltered(&domain);
        for way in ways(self.speaks, depth, unfiltered) {
            self.talk.allow(depth.bytes_max());
            let came = self.came(wants, *way, depth).await?;
            tracing::debug!(url = %self.url, ?way, ?came, "was asked for what it lists");
            if let Some(probed) = judge(&came, wants) {
                if let (Way::Sample(sample), Probed::Given) = (way, probed) {
                    memory.lock().filters(&domain, *sample == Sample::Bare);
                }
                return Ok(probed);
            }
        }
        Ok(Probed::Unclear)
    }

    async fn came(&mut self, wants: &BTreeSet<Oid>, way: Way, depth: Depth) -> Result<Came, Stop> {
        let (ask, mut answer) = question(wants, way, self.speaks);
        let mut response = match self.talk.ask(&ask).await? {
            Ok(response) => response,
            Err(_) => return Ok(Came::Words),
        };
        let mut glance = Glance::new(&limits(depth));
        let mut enough = pin!(tokio::time::sleep(PATIENCE));
        loop {
            let piece = tokio::select! {
                piece = self.talk.piece(&mut response) => piece,
                // Somebody slow who gives out what he has.
                () = &mut enough, if answer.pack_bytes() >= SLOW_BYTES => return Ok(Came::Enough),
            };
            let piece = match piece {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(Stop::TooLarge) if answer.pack_bytes() > depth.bytes_max() / 2 => {
                    return Ok(Came::Enough);
                }
                Err(Stop::TooLarge) => return Ok(Came::Words),
                Err(stop) => return Err(stop),
            };
            let fed = Fed { piece, answer, glance };
            // Inflating takes time, so it happens off the network threads.
            let (read, fed) =
                spawn_blocking(move || fed.read()).await.map_err(|it| crashed(&it))?;
            Fed { answer, glance, .. } = fed;
            match read {
                Read::More => {}
                Read::End => break,
                Read::Came(came) => return Ok(came),
                Read::Refused(why) => return refused(why, &answer),
            }
        }
        match answer.finish() {
            Ok(()) => Ok(glance.finish().map_or_else(Came::Broken, Came::Pack)),
            Err(why) => refused(why, &answer),
        }
    }
}

fn crashed(error: &tokio::task::JoinError) -> Stop {
    Stop::Failed(format!("its pack could not be looked at: {error}"))
}

/// What a pack may cost that nobody keeps.
fn limits(depth: Depth) -> PackLimits {
    PackLimits {
        inflated_base_bytes: 8 << 20,
        object_bytes_max: 32 << 20,
        ..PackLimits::push(depth.bytes_max())
    }
}

fn ways(speaks: Speaks, depth: Depth, unfiltered: bool) -> &'static [Way] {
    const BARE: Way = Way::Sample(Sample::Bare);
    const FILES: Way = Way::Sample(Sample::Files);
    match (speaks, depth) {
        (_, Depth::Thorough) => &[Way::Whole],
        // Only a whole clone can be asked for, which nobody should have to prepare every day.
        (Speaks::V0(_), Depth::Routine) => &[],
        (Speaks::V2, Depth::Routine) if unfiltered => &[FILES],
        (Speaks::V2, Depth::Routine) => &[BARE, FILES],
    }
}

fn question(wants: &BTreeSet<Oid>, way: Way, speaks: Speaks) -> (Ask, Answer) {
    match (way, speaks) {
        (Way::Sample(sample), _) => (post(true, sample_v2(wants, sample)), Answer::sample_v2()),
        (Way::Whole, Speaks::V2) => (post(true, request_v2(wants, &[])), Answer::v2()),
        (Way::Whole, Speaks::V0(caps)) => {
            (post(false, request_v0(wants, &[], &caps)), Answer::v0(&caps))
        }
    }
}

/// A piece, and those who look at it.
struct Fed {
    piece: Bytes,
    answer: Answer,
    glance: Glance,
}

enum Read {
    More,
    End,
    Came(Came),
    Refused(Refusal),
}

impl Fed {
    fn read(mut self) -> (Read, Self) {
        let piece = std::mem::take(&mut self.piece);
        let mut rest = piece.as_ref();
        let read = loop {
            match self.answer.push(rest) {
                Ok(Step::Pack { bytes, rest: behind }) => {
                    rest = behind;
                    match self.glance.feed(bytes) {
                        Ok(()) => {}
                        Err(PackRefused::Bytes { .. }) => break Read::Came(Came::Enough),
                        Err(why) => break Read::Came(Came::Broken(why)),
                    }
                }
                Ok(Step::More) => break Read::More,
                Ok(Step::End) => break Read::End,
                Err(why) => break Read::Refused(why),
            }
        };
        (read, self)
    }
}

fn refused(why: Refusal, answer: &Answer) -> Result<Came, Stop> {
    match &why {
        Refusal::Said(words) if wants_slowdown(words) => Err(Stop::SlowDown),
        _ => Ok(Came::Refused { why, begun: answer.has_begun(), at_pack: answer.is_at_pack() }),
    }
}

/// `None`: that was not about the objects; perhaps it understands another question.
fn judge(came: &Came, wants: &BTreeSet<Oid>) -> Option<Probed> {
    use PackRefused::{Damaged, NotAPack, Trailing, Truncated};
    match came {
        // What is asked for by name comes, whatever is left out of what is behind it.
        Came::Pack(objects) if usize::try_from(*objects).is_ok_and(|it| it < wants.len()) => {
            Some(Probed::Lacking)
        }
        Came::Pack(_) | Came::Enough => Some(Probed::Given),
        Came::Broken(NotAPack | Damaged { .. } | Truncated { .. } | Trailing) => {
            Some(Probed::Lacking)
        }
        Came::Broken(_) | Came::Words => None,
        Came::Refused { why, begun, at_pack } => match why {
            Refusal::NotOurRef(oid) => wants.contains(oid).then_some(Probed::Lacking),
            // Git itself says so where it comes upon a hole.
            Refusal::Said(_) | Refusal::Malformed(_) => at_pack.then_some(Probed::Lacking),
            // Who does not understand a question may end without a word.
            Refusal::Truncated => begun.then_some(Probed::Lacking),
            Refusal::Shallow => Some(Probed::Lacking),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_git::fetch::V0Caps;

    const BARE: Way = Way::Sample(Sample::Bare);
    const FILES: Way = Way::Sample(Sample::Files);

    fn oid(byte: u8) -> Oid {
        Oid::from_bytes([byte; 20])
    }

    fn refused(why: Refusal, begun: bool, at_pack: bool) -> Came {
        Came::Refused { why, begun, at_pack }
    }

    #[test]
    fn s43_only_what_is_about_the_objects_says_that_they_are_not_given_out() {
        use Probed::{Given, Lacking};
        let said = || Refusal::Said("sorry".to_owned());
        let damaged = PackRefused::Damaged { offset: 3, what: "bad" };
        for (came, way, probed) in [
            (Came::Pack(2), BARE, Some(Given)),
            (Came::Pack(90), Way::Whole, Some(Given)),
            (Came::Pack(1), BARE, Some(Lacking)),
            (Came::Pack(0), Way::Whole, Some(Lacking)),
            (Came::Enough, FILES, Some(Given)),
            (Came::Broken(damaged), BARE, Some(Lacking)),
            (Came::Broken(PackRefused::Truncated { bytes: 9 }), BARE, Some(Lacking)),
            (Came::Broken(PackRefused::Inflates { max: 9 }), BARE, None),
            (Came::Words, Way::Whole, None),
            (refused(Refusal::NotOurRef(oid(1)), true, false), BARE, Some(Lacking)),
            (refused(Refusal::NotOurRef(oid(9)), true, false), BARE, None),
            (refused(said(), true, false), BARE, None),
            (refused(said(), true, true), BARE, Some(Lacking)),
            (refused(Refusal::Truncated, false, false), BARE, None),
            (refused(Refusal::Truncated, false, false), Way::Whole, None),
            (refused(Refusal::Truncated, true, false), FILES, Some(Lacking)),
            (refused(Refusal::Shallow, true, false), Way::Whole, Some(Lacking)),
            (refused(Refusal::NotGit, false, false), BARE, None),
            (refused(Refusal::PackElsewhere, true, false), Way::Whole, None),
        ] {
            assert_eq!(judge(&came, &[oid(1), oid(2)].into()), probed, "{came:?} {way:?}");
        }
    }

    #[test]
    fn s43_little_is_asked_for_unless_there_is_doubt() {
        let old = Speaks::V0(V0Caps::default());
        assert_eq!(ways(Speaks::V2, Depth::Routine, false), [BARE, FILES]);
        assert_eq!(ways(Speaks::V2, Depth::Routine, true), [FILES]);
        assert_eq!(ways(Speaks::V2, Depth::Thorough, false), [Way::Whole]);
        assert_eq!(ways(old, Depth::Routine, false), []);
        assert_eq!(ways(old, Depth::Thorough, false), [Way::Whole]);
    }
}
