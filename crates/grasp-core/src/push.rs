//! What a push asks for, and whether a signed state leads there. Nothing is allowed unless a rule
//! here says so; the same function answers before the pack is read and again under the lock.

use crate::event::Rank;
use crate::id::{EventId, Oid, RefName};
use crate::nip34::State;
use std::collections::BTreeMap;
use std::fmt;

/// A place in a repository that a push may name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A branch or tag: governed by signed states.
    Governed(RefName),
    /// `refs/nostr/<event id>`: governed by the pull request of that id.
    Proposal(EventId),
}

impl Target {
    pub const PROPOSALS: &str = "refs/nostr/";

    pub fn parse(name: &str) -> Option<Self> {
        match name.strip_prefix(Self::PROPOSALS) {
            Some(id) => id.parse().ok().map(Self::Proposal),
            None => name.parse().ok().map(Self::Governed),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Governed(name) => name.fmt(f),
            Self::Proposal(id) => write!(f, "{}{id}", Self::PROPOSALS),
        }
    }
}

/// One line of a push. `None` is git's all-zero id: there was nothing, or nothing shall remain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// As the client wrote it: UTF-8 without control characters, good only for answering.
    pub name: Box<str>,
    /// `None` if no push may go there.
    pub target: Option<Target>,
    pub old: Option<Oid>,
    pub new: Option<Oid>,
}

/// A state that could lead the repository somewhere.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub id: EventId,
    pub rank: Rank,
    pub state: State,
}

/// What is known here under an id that a push names below `refs/nostr/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proposal {
    /// A pull request aimed at this repository, with the commit it proposes.
    Here(Option<Oid>),
    /// A pull request for other repositories only.
    Elsewhere,
    NoPullRequest,
}

/// The repository at the moment of the decision.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    pub refs: BTreeMap<RefName, Oid>,
    pub proposals: BTreeMap<EventId, Oid>,
    /// Waiting states by people with a say in this view; satisfiable ones only.
    pub held: Vec<Candidate>,
    /// The served state that rules now.
    pub governing: Option<Candidate>,
    /// Those of the pushed proposals whose event is here, served or held.
    pub known: BTreeMap<EventId, Proposal>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Everything asked for is already so.
    Unchanged,
    Allow(Grant),
    Deny(Denial),
}

/// What a push may do, and by whose word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// The state the branches and tags equal afterwards.
    pub state: Option<EventId>,
    /// Tips of pull requests that are here.
    pub claimed: BTreeMap<EventId, Oid>,
    /// Tips nobody has signed for yet; kept apart until the event comes.
    pub unclaimed: BTreeMap<EventId, Oid>,
}

/// The one decision about a push.
pub fn authorise(commands: &[Command], scene: &Scene) -> Decision {
    match decide(commands, scene) {
        Ok(grant) if grant == Grant::default() => Decision::Unchanged,
        Ok(grant) => Decision::Allow(grant),
        Err(denial) => Decision::Deny(denial),
    }
}

fn decide(commands: &[Command], scene: &Scene) -> Result<Grant, Denial> {
    let mut grant = Grant::default();
    let mut after = scene.refs.clone();
    for command in commands {
        match &command.target {
            None => return Err(Denial::ForeignRef(command.name.clone())),
            Some(Target::Governed(name)) => change(&mut after, name, command)?,
            Some(Target::Proposal(id)) => propose(&mut grant, *id, command, scene)?,
        }
    }
    let moves = after != scene.refs;
    // What nobody signed for is kept apart, and a pack cannot be divided.
    if !grant.unclaimed.is_empty() && (moves || !grant.claimed.is_empty()) {
        return Err(Denial::Mixed);
    }
    if moves {
        grant.state = Some(leading_to(&after, scene)?);
    }
    Ok(grant)
}

/// Applies one branch or tag command. One that is already so succeeds whatever it believed before:
/// the server may have moved the ref itself since the client looked.
fn change(
    after: &mut BTreeMap<RefName, Oid>,
    name: &RefName,
    command: &Command,
) -> Result<(), Denial> {
    let current = after.get(name).copied();
    if command.new == current || command.old == command.new {
        return Ok(());
    }
    if command.old != current {
        return Err(Denial::Stale(name.clone()));
    }
    match command.new {
        Some(oid) => after.insert(name.clone(), oid),
        None => after.remove(name),
    };
    Ok(())
}

fn propose(grant: &mut Grant, id: EventId, command: &Command, scene: &Scene) -> Result<(), Denial> {
    let current = scene.proposals.get(&id).copied();
    let Some(tip) = command.new else {
        return if current.is_none() { Ok(()) } else { Err(Denial::ProposalDeleted) };
    };
    if current == Some(tip) {
        return Ok(());
    }
    match scene.known.get(&id) {
        Some(Proposal::Here(Some(expected))) if *expected == tip => {
            grant.claimed.insert(id, tip);
        }
        Some(Proposal::Here(expected)) => return Err(Denial::WrongTip { id, expected: *expected }),
        Some(Proposal::Elsewhere) => return Err(Denial::OtherRepository(id)),
        Some(Proposal::NoPullRequest) => return Err(Denial::NoPullRequest(id)),
        None => {
            grant.unclaimed.insert(id, tip);
        }
    }
    Ok(())
}

/// The preferred state that says exactly this. What rules now may only be repeated, to repair a
/// repository that lost something; older ones that wait may not take it back.
fn leading_to(after: &BTreeMap<RefName, Oid>, scene: &Scene) -> Result<EventId, Denial> {
    let governing = scene.governing.as_ref();
    let newer = |it: &&Candidate| governing.is_none_or(|governing| it.rank.beats(&governing.rank));
    let open = || scene.held.iter().filter(newer).chain(governing);
    let fits = |it: &&Candidate| it.state.satisfiable && it.state.refs == *after;
    let prefer = |best: &'_ Candidate, it: &'_ Candidate| it.rank.beats(&best.rank);
    let best = open().filter(fits).reduce(|best, it| if prefer(best, it) { it } else { best });
    if let Some(best) = best {
        return Ok(best.id);
    }
    let outdated = scene.held.iter().any(|it| fits(&it));
    let newest = open().reduce(|best, it| if prefer(best, it) { it } else { best });
    Err(match (newest, governing) {
        (Some(newest), _) if outdated => Denial::Outdated { by: newest.id },
        (Some(newest), Some(governing)) if newest.id == governing.id => {
            Denial::NothingWaits { differs: Difference::between(after, &newest.state.refs) }
        }
        (Some(newest), _) => Denial::Differs {
            state: newest.id,
            differs: Difference::between(after, &newest.state.refs),
        },
        (None, _) => Denial::NoState,
    })
}

/// The first ref on which a push and a state disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub name: RefName,
    pub pushed: Option<Oid>,
    pub signed: Option<Oid>,
}

impl Difference {
    pub fn between(
        pushed: &BTreeMap<RefName, Oid>,
        signed: &BTreeMap<RefName, Oid>,
    ) -> Option<Self> {
        let names = pushed.keys().chain(signed.keys());
        let differing = names.filter(|name| pushed.get(*name) != signed.get(*name));
        differing.min().map(|name| Self {
            name: name.clone(),
            pushed: pushed.get(name).copied(),
            signed: signed.get(name).copied(),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |oid: &Option<Oid>| oid.map_or("absent".to_owned(), |oid| format!("at {oid}"));
        let (pushed, signed) = (place(&self.pushed), place(&self.signed));
        write!(f, "{} would be {pushed}, but the state says it is {signed}", self.name)
    }
}

/// Why a push is refused. The display is the short reason git shows beside each ref.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    #[error("only refs/heads, refs/tags and refs/nostr/<event id> can be pushed")]
    ForeignRef(Box<str>),
    #[error("no state event is waiting for this push")]
    NoState,
    #[error("no state event is waiting for this push")]
    NothingWaits { differs: Option<Difference> },
    #[error("the push does not match the signed state")]
    Differs { state: EventId, differs: Option<Difference> },
    #[error("a newer state already governs this repository")]
    Outdated { by: EventId },
    #[error("the ref has moved since you fetched")]
    Stale(RefName),
    #[error("refs/nostr cannot be deleted by a push")]
    ProposalDeleted,
    #[error("the pull request names another commit")]
    WrongTip { id: EventId, expected: Option<Oid> },
    #[error("the pull request is for another repository")]
    OtherRepository(EventId),
    #[error("the event of that id is no pull request")]
    NoPullRequest(EventId),
    #[error("unpublished pull requests are pushed on their own")]
    Mixed,
}

impl Denial {
    /// One sentence for a person: what happened and what to do.
    pub fn advice(&self) -> String {
        let sign = "publish a state event (kind 30618) by a maintainer that lists exactly the \
                    branches and tags as they will be after the push, then push again";
        match self {
            Self::ForeignRef(name) => format!(
                "{name} is not a place this server accepts pushes to: use refs/heads/, refs/tags/ \
                 or refs/nostr/<64 lower-case hex characters>"
            ),
            Self::NoState => format!("nobody has signed where this push leads: {sign}"),
            Self::NothingWaits { differs: None } => format!("no newer state waits: {sign}"),
            Self::NothingWaits { differs: Some(differs) } => {
                format!("the only state known here is the one already served ({differs}): {sign}")
            }
            Self::Differs { state, differs } => {
                let differs = differs.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
                format!("the state {state} says something else{differs}. To change that, {sign}")
            }
            Self::Outdated { by } => format!(
                "the state you push for is older than {by}, which rules now: fetch, merge and sign \
                 a new state"
            ),
            Self::Stale(name) => {
                format!("{name} is no longer where you saw it: fetch first, then push again")
            }
            Self::ProposalDeleted => "a pull request's commits go when its event is deleted: \
                 publish a deletion (kind 5) of the event"
                .to_owned(),
            Self::WrongTip { id, expected: Some(tip) } => {
                format!(
                    "the pull request {id} proposes {tip}: push that commit, or publish an update"
                )
            }
            Self::WrongTip { id, expected: None } => {
                format!("the pull request {id} names no commit git could have: publish a new one")
            }
            Self::OtherRepository(id) => format!(
                "the pull request {id} does not name this repository in an `a` tag: push to the \
                 repository it names"
            ),
            Self::NoPullRequest(id) => format!(
                "the event {id} is neither a pull request (kind 1618) nor an update (kind 1619)"
            ),
            Self::Mixed => "push refs/nostr/<event id> in a push of its own, or publish its event \
                 first"
                .to_owned(),
        }
    }
}
