//! What a push asks for, and whether a signed state leads there. Nothing is allowed unless a rule
//! here says so; the same function answers before the pack is read and again under the lock.

use crate::event::Rank;
use crate::id::{EventId, Oid, RefName};
use crate::nip34::State;
use std::collections::{BTreeMap, BTreeSet};
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

impl Command {
    /// The branch or tag it names, if it names one.
    fn governed(&self) -> Option<&RefName> {
        match &self.target {
            Some(Target::Governed(name)) => Some(name),
            _ => None,
        }
    }
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
    /// States that were refused lately because one of the same second has a lower id.
    pub lost: Vec<Candidate>,
    /// Objects named by these states that are here. Those that the push itself names may be left out.
    pub present: BTreeSet<Oid>,
}

impl Scene {
    /// Every state that a push may be compared with.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.held.iter().chain(&self.governing).chain(&self.lost)
    }
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
        grant.state = Some(leading_to(&RefMoves::new(commands, &after, scene))?);
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
        let denial =
            if current.is_some() { Denial::ProposalDeleted } else { Denial::NoSuchProposal(id) };
        return Err(denial);
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

/// A push that moves branches or tags.
struct RefMoves<'a> {
    /// Branches and tags that it wants elsewhere, or gone.
    updated: BTreeSet<&'a RefName>,
    /// Objects that it brings unless they are here.
    named: BTreeSet<Oid>,
    /// Branches and tags as the push alone would leave them.
    after: &'a BTreeMap<RefName, Oid>,
    scene: &'a Scene,
}

impl<'a> RefMoves<'a> {
    fn new(commands: &'a [Command], after: &'a BTreeMap<RefName, Oid>, scene: &'a Scene) -> Self {
        let changes = || commands.iter().filter(|command| command.old != command.new);
        Self {
            updated: changes().filter_map(Command::governed).collect(),
            named: changes().filter_map(|command| command.new).collect(),
            after,
            scene,
        }
    }

    fn fits(&self, it: &Candidate) -> bool {
        it.state.satisfiable && self.obstacle(it).is_none()
    }

    /// The first ref that keeps this push from completing a state: one that the push moves somewhere
    /// else, or one whose object is neither here nor named by the push. The server aligns all others.
    fn obstacle(&self, it: &Candidate) -> Option<Difference> {
        let is_here = |oid: &Oid| self.scene.present.contains(oid) || self.named.contains(oid);
        Difference::all(self.after, &it.state.refs).find(|differs| {
            self.updated.contains(&differs.name) || !differs.signed.as_ref().is_none_or(is_here)
        })
    }
}

/// The preferred state that this push completes. What rules now may only be repeated, to repair a
/// repository that lost something; older ones that wait may not take it back.
fn leading_to(push: &RefMoves<'_>) -> Result<EventId, Denial> {
    let scene = push.scene;
    let governing = scene.governing.as_ref();
    let newer = |it: &&Candidate| governing.is_none_or(|governing| it.rank.beats(&governing.rank));
    let open = || scene.held.iter().filter(newer).chain(governing);
    let prefer = |best: &'_ Candidate, it: &'_ Candidate| it.rank.beats(&best.rank);
    let fitting = open().filter(|it| push.fits(it));
    let best = fitting.reduce(|best, it| if prefer(best, it) { it } else { best });
    if let Some(best) = best {
        return Ok(best.id);
    }
    if let Some(denial) = same_second(push) {
        return Err(denial);
    }
    let outdated = scene.held.iter().any(|it| push.fits(it));
    let newest = open().reduce(|best, it| if prefer(best, it) { it } else { best });
    Err(match (newest, governing) {
        (_, Some(governing)) if outdated => Denial::Outdated { by: governing.id },
        (Some(newest), Some(governing)) if newest.id == governing.id => {
            Denial::NothingWaits { differs: push.obstacle(newest) }
        }
        (Some(newest), _) => Denial::Differs { state: newest.id, differs: push.obstacle(newest) },
        (None, _) => Denial::NoState,
    })
}

/// Was a state signed that this push completes, in the same second as one in force that beats it?
fn same_second(push: &RefMoves<'_>) -> Option<Denial> {
    let scene = push.scene;
    let says_this = |it: &&Candidate| push.obstacle(it).is_none();
    let beats = |it: &Candidate, lost: &Candidate| {
        it.rank.created_at == lost.rank.created_at && it.rank.beats(&lost.rank)
    };
    let governing = scene.governing.as_ref();
    // What waits lost against the state in force; what was refused, against its author's other one.
    let waiting = scene
        .held
        .iter()
        .filter(says_this)
        .find_map(|lost| governing.filter(|by| beats(by, lost)).map(|by| (lost.id, by.id)));
    let refused = scene.lost.iter().filter(says_this).find_map(|lost| {
        let by_author = |it: &&Candidate| it.state.author == lost.state.author;
        let mut in_force = scene.held.iter().chain(governing).filter(by_author);
        in_force.find(|by| beats(by, lost)).map(|by| (lost.id, by.id))
    });
    waiting.or(refused).map(|(lost, by)| Denial::SameSecond { lost, by })
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
        Self::all(pushed, signed).next()
    }

    /// By name.
    fn all<'a>(
        pushed: &'a BTreeMap<RefName, Oid>,
        signed: &'a BTreeMap<RefName, Oid>,
    ) -> impl Iterator<Item = Self> + 'a {
        let names: BTreeSet<&RefName> = pushed.keys().chain(signed.keys()).collect();
        let differing = names.into_iter().filter(|name| pushed.get(*name) != signed.get(*name));
        differing.map(|name| Self {
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
    #[error("another state of the same second is in force")]
    SameSecond { lost: EventId, by: EventId },
    #[error("the ref has moved since you fetched")]
    Stale(RefName),
    #[error("refs/nostr cannot be deleted by a push")]
    ProposalDeleted,
    #[error("there is no such ref to delete")]
    NoSuchProposal(EventId),
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
                format!(
                    "the state in force says something else ({differs}), and no newer one \
                         waits: {sign}"
                )
            }
            Self::Differs { state, differs } => {
                let differs = differs.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
                format!("the state {state} says something else{differs}. To change that, {sign}")
            }
            Self::Outdated { by } => format!(
                "the state you push for is older than {by}, which rules now: fetch, merge and sign \
                 a new state"
            ),
            Self::SameSecond { lost, by } => format!(
                "the state {lost} is of the same second as {by}, and of those the lower id is in \
                 force: sign the state again a second later, publish it, then push again"
            ),
            Self::Stale(name) => {
                format!("{name} is no longer where you saw it: fetch first, then push again")
            }
            Self::ProposalDeleted => "a pull request's commits go when its event is deleted: \
                 publish a deletion (kind 5) of the event"
                .to_owned(),
            Self::NoSuchProposal(id) => {
                format!("{} is not here, so there is nothing to delete", Target::Proposal(*id))
            }
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
