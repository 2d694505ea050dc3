//! One look at one address: are its refs as signed, and does it give out their objects? Asks with leave
//! of the hunt, through the same guarded way out, and writes one row.

use super::checks::{Guide, ask};
use super::ends::Leave;
use super::refs::{ListedRefs, RefOrigin, Refs, compare};
use super::rounds::{Care, Check, Finding};
use super::row::{Look, Peer, Seen, Why};
use super::{of, tell};
use crate::clock::{Clock, ClockReading};
use crate::fetch::{Depth, Desk, Part, Probed, Visit};
use crate::hunt::HuntWatch;
use crate::ingest::{Signed, signed};
use crate::node::Node;
use crate::report::{Giving, Verdict};
use grasp_core::{Domain, Oid, Time};
use grasp_engine::hunt::Outcome;
use grasp_git::Quarantine;
use grasp_store::Transaction;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug)]
pub(super) enum Done {
    /// What was found, and until when its place wants to be left alone.
    Looked(Finding, Option<Time>),
    PutOff(Time),
    /// It is not served, or not named, any more.
    Gone,
}

/// One list, or one small pack, may take so long, however slowly the server talks.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// And all its objects so long.
const THOROUGH_MAX: Duration = Duration::from_secs(300);
/// How long a server is left alone that asked for less and did not say for how long.
const PAUSE: Duration = Duration::from_secs(60);
/// However long it says.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// How long a look waits for leave to go on, and how often it asks.
const LEAVE_MAX: Duration = Duration::from_secs(20);
const LEAVE_MIN: Duration = Duration::from_millis(100);
/// For a look that got no leave to go on.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What should be there, and what was known of its objects.
struct Expected {
    signed: Signed,
    objects: Giving,
}

/// With the bytes that came in.
pub(super) async fn look(node: &Node, guide: &Guide, check: &Check, care: Care) -> (Done, u64) {
    match expected(node, check).await {
        None => return (Done::Gone, 0),
        // Nobody signed anything yet; when somebody does, it is looked at.
        Some(Expected { signed: Signed { in_force: None, .. }, .. }) => {
            return (Done::Looked(Finding::Equal, None), 0);
        }
        Some(_) => {}
    }
    let domain = check.url.domain();
    if let Err(until) = guide.hunt.may_check(&domain, false).await {
        return (Done::PutOff(until), 0);
    }
    let mut leave = Leave::new(&guide.hunt, domain.clone());
    let mut desk = Hand { hunt: &guide.hunt, clock: &node.clock, domain, bytes: 0 };
    let mut visit = guide.fetcher.visit(&check.url, guide.rule, &mut desk);
    let listed = timeout(LOOK_MAX, visit.list()).await.unwrap_or_else(|_| Err(slow()));
    // Read after they were asked: what was signed meanwhile they can hardly have.
    let expected = expected(node, check).await;
    let probed = match (&expected, &listed) {
        (Some(it), Ok(theirs)) => probe(&mut visit, it, theirs, care, node.clock.now()).await,
        _ => None,
    };
    drop(visit);
    leave.objected = objection(listed.as_ref().err()).or(objection(failure(probed.as_ref())));
    drop(leave);
    let done = match expected {
        None => Done::Gone,
        Some(expected) => conclude(node, check, &expected, listed, probed).await,
    };
    (done, desk.bytes)
}

/// Asks for the objects of what is as signed, if anything is.
async fn probe(
    visit: &mut Visit<'_, Hand<'_>>,
    expected: &Expected,
    theirs: &Refs,
    care: Care,
    now: Time,
) -> Option<Result<Probed, Outcome>> {
    let depth = match (expected.objects, care) {
        (_, Care::Doubtful) | (Giving::Lacking, _) => Depth::Thorough,
        (Giving::Given | Giving::Unknown, _) => Depth::Routine,
    };
    let tips = tips(expected.signed.in_force.as_ref()?, theirs, depth.tips_max(), now);
    if tips.is_empty() {
        return None;
    }
    // Everything would have to be asked for, and that not as often as somebody signs something.
    if (expected.objects, care) == (Giving::Lacking, Care::Usual) {
        return Some(Ok(Probed::Unclear));
    }
    let long = if depth == Depth::Thorough { THOROUGH_MAX } else { LOOK_MAX };
    let probed = timeout(long, visit.probe(&tips, depth)).await.unwrap_or_else(|_| Err(slow()));
    let again = match (&probed, depth) {
        // Whoever cannot be asked for everything may still give out what is asked for every day.
        (Ok(Probed::Unclear) | Err(Outcome::Failed(_)), Depth::Thorough) => {
            let few = tips.iter().take(Depth::Routine.tips_max()).copied().collect();
            timeout(LOOK_MAX, visit.probe(&few, Depth::Routine)).await.ok()
        }
        _ => None,
    };
    match again {
        Some(Ok(Probed::Given)) => Some(Ok(Probed::Tips)),
        _ => Some(probed),
    }
}

/// What is at the same place with both; others in every look, if they are too many.
fn tips(signed: &Refs, theirs: &Refs, count_max: usize, now: Time) -> BTreeSet<Oid> {
    let same = signed.iter().filter(|(name, oid)| theirs.get(*name) == Some(*oid));
    let all: BTreeSet<Oid> = same.map(|(_, oid)| *oid).collect();
    let len = u64::try_from(all.len()).unwrap_or(u64::MAX).max(1);
    let skip = usize::try_from(now.0 % len).unwrap_or(0);
    let count = all.len().min(count_max);
    all.iter().cycle().skip(skip).take(count).copied().collect()
}

async fn conclude(
    node: &Node,
    check: &Check,
    expected: &Expected,
    listed: Result<Refs, Outcome>,
    probed: Option<Result<Probed, Outcome>>,
) -> Done {
    let ClockReading { now, wall } = node.clock.read();
    let Expected { signed, objects } = expected;
    let seen = match (&listed, &signed.in_force) {
        (Ok(theirs), Some(in_force)) => {
            let listed = ListedRefs { refs: theirs, origin: check_origin(check) };
            let mut counts = compare(in_force, signed.waiting.as_ref(), &signed.earlier, listed);
            counts.objects = giving(probed.as_ref(), *objects);
            Seen::Refs(counts)
        }
        (Ok(_), None) | (Err(Outcome::Ourselves), _) => {
            return Done::Looked(Finding::Equal, None);
        }
        (Err(Outcome::Crowded { until }), _) => return Done::PutOff(*until),
        (Err(Outcome::Cancelled), _) => return Done::PutOff(now.plus(AGAIN_AFTER)),
        (Err(outcome), _) => Seen::Nothing(why(outcome, wall)),
    };
    let failed = listed.as_ref().err().or(failure(probed.as_ref()));
    let pause = failed.and_then(|outcome| pause(outcome, now));
    let found = finding(seen.verdict(), probed.as_ref());
    node.metrics.ledger.checked("refs", seen.verdict());
    write(node, check, Look::new(seen, wall)).await;
    Done::Looked(found, pause)
}

fn check_origin(check: &Check) -> RefOrigin {
    if check.url.has_grasp_form() { RefOrigin::SignedState } else { RefOrigin::Pushed }
}

/// What is known of the objects now. That they were not given out stays true until they are.
fn giving(probed: Option<&Result<Probed, Outcome>>, before: Giving) -> Giving {
    match probed {
        None => Giving::Unknown,
        Some(Ok(Probed::Given)) => Giving::Given,
        Some(Ok(Probed::Lacking)) => Giving::Lacking,
        Some(Ok(Probed::Tips)) => Giving::Unknown,
        // It was not asked.
        Some(Err(Outcome::Cancelled | Outcome::Crowded { .. })) => before,
        Some(Ok(Probed::Unclear) | Err(_)) if before == Giving::Lacking => Giving::Lacking,
        Some(Ok(Probed::Unclear) | Err(_)) => Giving::Unknown,
    }
}

fn finding(verdict: Verdict, probed: Option<&Result<Probed, Outcome>>) -> Finding {
    match (verdict, probed) {
        (Verdict::WeLack | Verdict::TheyLack, _) => Finding::Differs,
        (Verdict::Unverifiable | Verdict::Checking, _) | (Verdict::Equal, Some(Err(_))) => {
            Finding::Nothing
        }
        (Verdict::Equal, _) => Finding::Equal,
    }
}

fn failure(probed: Option<&Result<Probed, Outcome>>) -> Option<&Outcome> {
    probed.and_then(|probed| probed.as_ref().err())
}

fn slow() -> Outcome {
    Outcome::Failed("it took too long".to_owned())
}

/// It asked for less, for so long if it said so.
fn objection(outcome: Option<&Outcome>) -> Option<Option<Duration>> {
    match outcome {
        Some(Outcome::SlowDown { retry_after }) => Some(*retry_after),
        _ => None,
    }
}

/// Until when a place wants to be left alone.
fn pause(outcome: &Outcome, now: Time) -> Option<Time> {
    match outcome {
        Outcome::SlowDown { retry_after } => {
            Some(now.plus(retry_after.unwrap_or(PAUSE).min(PAUSE_MAX)))
        }
        Outcome::Crowded { until } => Some(*until),
        _ => None,
    }
}

/// What should be there; `None` if this address is not looked at any more.
async fn expected(node: &Node, check: &Check) -> Option<Expected> {
    let (rules, repo) = (Arc::clone(&node.rules), check.repo.clone());
    let peer = Peer::Git(check.url.clone());
    let found = ask(node, move |store| {
        let Some(signed) = signed(store, &rules, &repo)? else { return Ok(None) };
        let objects = match of(&*store.read()?, &peer, &repo)?.map(|look| look.seen) {
            Some(Seen::Refs(counts)) => counts.objects,
            _ => Giving::Unknown,
        };
        Ok(Some(Expected { signed, objects }))
    });
    let found = found.await??;
    let named = tell::clones(&node.service, &found.signed.announcement, &check.repo);
    named.contains(&check.url).then_some(found)
}

/// In wall time, for the record.
fn why(outcome: &Outcome, now: Time) -> Why {
    match outcome {
        Outcome::Lacks(_) => Why::NotFound,
        Outcome::SlowDown { .. } => Why::RateLimited { until: pause(outcome, now).unwrap_or(now) },
        Outcome::Forbidden(_) => Why::Forbidden,
        Outcome::TooLarge => Why::TooLarge,
        Outcome::Failed(_) => Why::Unreachable { since: now },
        _ => Why::Unclear,
    }
}

async fn write(node: &Node, check: &Check, look: Look) {
    let (peer, repo) = (Peer::Git(check.url.clone()), check.repo.clone());
    let jotting = move |txn: &mut dyn Transaction| super::set(txn, &peer, &repo, look.clone());
    node.ingest.jot(Box::new(jotting)).await;
}

/// Asks for leave for every further request.
struct Hand<'a> {
    hunt: &'a HuntWatch,
    clock: &'a Clock,
    domain: Domain,
    bytes: u64,
}

impl Desk for Hand<'_> {
    /// What has begun waits a little for its next request, or it would have been in vain.
    async fn may_request(&mut self) -> bool {
        let asking = async {
            while let Err(until) = self.hunt.may_check(&self.domain, true).await {
                tokio::time::sleep(until.since(self.clock.now()).max(LEAVE_MIN)).await;
            }
        };
        timeout(LEAVE_MAX, asking).await.is_ok()
    }

    fn received(&mut self, bytes: u64, _: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.hunt.received(self.domain.clone(), bytes);
    }

    async fn brought(&mut self, _: &Part, _: Quarantine, _: BTreeSet<Oid>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_700_000_000);

    fn refs(list: &[(&str, u8)]) -> Refs {
        let parsed = |(name, byte): &(&str, u8)| {
            (format!("refs/heads/{name}").parse().unwrap(), Oid::from_bytes([*byte; 20]))
        };
        list.iter().map(parsed).collect()
    }

    #[test]
    fn s43_only_what_is_listed_as_signed_is_asked_for_and_every_tip_has_its_turn() {
        let signed = refs(&[("a", 1), ("b", 2), ("c", 3), ("d", 3), ("e", 5)]);
        let theirs = refs(&[("a", 1), ("b", 9), ("c", 3), ("d", 3), ("e", 5), ("f", 6)]);
        let of = |byte| Oid::from_bytes([byte; 20]);
        assert_eq!(tips(&signed, &theirs, 16, NOW), [of(1), of(3), of(5)].into());
        assert_eq!(tips(&signed, &refs(&[("a", 7)]), 16, NOW), BTreeSet::new());
        let each: BTreeSet<Oid> = (0..3)
            .flat_map(|n| {
                let found = tips(&signed, &theirs, 1, Time(NOW.0 + n));
                assert_eq!(found.len(), 1);
                found
            })
            .collect();
        assert_eq!(each.len(), 3);
    }

    #[test]
    fn s43_what_says_nothing_about_objects_changes_no_verdict() {
        let failed = || Err(slow());
        for (probed, before, after) in [
            (Some(Ok(Probed::Given)), Giving::Lacking, Giving::Given),
            (Some(Ok(Probed::Lacking)), Giving::Given, Giving::Lacking),
            (Some(Ok(Probed::Unclear)), Giving::Given, Giving::Unknown),
            (Some(Ok(Probed::Unclear)), Giving::Lacking, Giving::Lacking),
            (Some(failed()), Giving::Given, Giving::Unknown),
            (Some(failed()), Giving::Lacking, Giving::Lacking),
            (Some(Ok(Probed::Tips)), Giving::Lacking, Giving::Unknown),
            (Some(Err(Outcome::Cancelled)), Giving::Given, Giving::Given),
            (None, Giving::Lacking, Giving::Unknown),
        ] {
            assert_eq!(giving(probed.as_ref(), before), after, "{probed:?}");
        }
        assert_eq!(finding(Verdict::Equal, Some(&failed())), Finding::Nothing, "tried again");
        assert_eq!(finding(Verdict::Equal, Some(&Ok(Probed::Unclear))), Finding::Equal);
        assert_eq!(finding(Verdict::TheyLack, Some(&Ok(Probed::Lacking))), Finding::Differs);
    }
}
