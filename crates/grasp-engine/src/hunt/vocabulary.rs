//! The two closed lists of the hunt: all that can happen to it, and all it may do to others.

use grasp_core::{CloneUrl, Domain, Identifier, Oid, PubKey, Time};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Repositories of one name whose people overlap: one entry in the queue (S-32). Named after the
/// least of the owners whose repository is here, who also stands for it where turns are taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId {
    pub owner: PubKey,
    pub identifier: Identifier,
}

impl fmt::Display for FamilyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner.to_npub(), self.identifier)
    }
}

/// One attempt at one URL; never used twice by one hunt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job(pub u64);

/// Where an event that waits came from, which says how soon its data is worth looking for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Brought {
    /// A user sent it; a push should follow.
    Directly,
    /// A relay did; its data is somewhere else already.
    BySync,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HuntInput {
    /// An event that lacks git data began to wait at `since`.
    Held { family: FamilyId, brought: Brought, since: Time },
    /// Something else about this family changed, such as where it may be found. Creates no entry.
    Changed { family: FamilyId },
    /// An event gave up waiting, now or in an earlier run, but its objects are still wanted (S-33).
    Wanted { family: FamilyId },
    /// Something that is served has lost objects, and nobody will push them again.
    Damaged { family: FamilyId },
    /// The answer to `Look`.
    Looked { family: FamilyId, lack: Lack },
    /// A running job would send one more request. Answered by `MayRequest`, when the domain may be
    /// asked again.
    WantsRequest { job: Job },
    /// So much has come in for this job since the last time; of that, so much of packs.
    Received { job: Job, bytes: u64, pack_bytes: u64 },
    /// A job is over; what it brought is released already.
    Ended { job: Job, end: JobEnd },
    /// A host says that it is a GRASP server (NIP-11).
    Grasp(Domain),
    /// How many git requests per minute a host says that one address may send (S-56); `None` if it says
    /// nothing about that.
    GitLimits { domain: Domain, requests_per_minute: Option<u32> },
    /// Somebody asks for this family by hand: it is looked at now, if anything is missing.
    Now { family: FamilyId },
    /// Somebody would look how a domain stands, or send one more request for that (`again`). Answered
    /// by `Checks`, at once.
    WantsCheck { ticket: u64, domain: Domain, again: bool },
    /// So much came for such a look since the last time.
    CheckReceived { domain: Domain, bytes: u64 },
    /// Such a look is over. `objected`: the domain asked for less, for so long if it said so.
    CheckEnded { domain: Domain, objected: Option<Option<Duration>> },
}

/// What a family lacks, and where that may be found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lack {
    /// Objects that held or wanted events name and we do not have. Empty: there is nothing to do.
    pub wants: BTreeSet<Oid>,
    /// Candidates in order of preference, GRASP servers first, each once.
    pub sources: Vec<Source>,
    /// Some event is held; without that, all of this is on the wanted-list.
    pub held: bool,
    /// Wants that strangers alone propose: pull requests, and states of repositories that are not
    /// served although another one of the family is.
    pub proposed: BTreeSet<Oid>,
    pub standing: FamilyStanding,
}

/// How far a family has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FamilyStanding {
    /// None of its repositories is served, and no fetch for its owner ever succeeded.
    #[default]
    UnknownOwner,
    /// The same, but another repository of its owner is served, or was fetched.
    KnownOwner,
    /// A repository of it is served.
    Served,
}

/// A place to look in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub url: CloneUrl,
    /// What it may be asked for; `None`: everything that is wanted. A pull request's own address is
    /// only asked for that pull request's commit.
    pub covers: Option<BTreeSet<Oid>>,
    /// Only pull requests name it.
    pub proposed: bool,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    pub outcome: Outcome,
    /// What is here now thanks to this job.
    pub found: BTreeSet<Oid>,
    /// What the server said it does not have.
    pub absent: BTreeSet<Oid>,
    /// Received since the last `Received`.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It answered as a git server does, with all, some or nothing of what was wanted.
    Answered,
    /// It has no such repository, or does not show it to us. For people, like the words of `Failed`.
    Lacks(String),
    /// 429, 503, or words to that effect.
    SlowDown { retry_after: Option<Duration> },
    /// The connection or the conversation failed. For people: class and host, never foreign text
    /// beyond 200 characters.
    Failed(String),
    /// What it sent may not be taken: too large, damaged, against the rules. It would send the same
    /// again, so it is left alone for long. For people, like the words of `Failed`.
    Unacceptable(String),
    /// This address may never be asked.
    Forbidden(String),
    /// It is this very server.
    Ourselves,
    /// Too many requests to the same address, under however many names.
    Crowded { until: Time },
    /// The byte budget of this job was used up.
    TooLarge,
    /// We ended it, as the hunt asked.
    Cancelled,
}

/// Why a fetch failed, as a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchFailure {
    NoRepository,
    Connection,
    Unacceptable,
    ForbiddenAddress,
    TooLarge,
    RateLimited,
}

impl FetchFailure {
    pub const ALL: [Self; 6] = [
        Self::NoRepository,
        Self::Connection,
        Self::Unacceptable,
        Self::ForbiddenAddress,
        Self::TooLarge,
        Self::RateLimited,
    ];

    /// For labels and keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRepository => "no_repository",
            Self::Connection => "connection",
            Self::Unacceptable => "unacceptable",
            Self::ForbiddenAddress => "forbidden_address",
            Self::TooLarge => "too_large",
            Self::RateLimited => "rate_limited",
        }
    }
}

impl Outcome {
    /// `None`: the server did what a git server does, or was not asked.
    pub fn failure(&self) -> Option<FetchFailure> {
        match self {
            Self::Lacks(_) => Some(FetchFailure::NoRepository),
            Self::Failed(_) => Some(FetchFailure::Connection),
            Self::Unacceptable(_) => Some(FetchFailure::Unacceptable),
            Self::Forbidden(_) => Some(FetchFailure::ForbiddenAddress),
            Self::TooLarge => Some(FetchFailure::TooLarge),
            Self::SlowDown { .. } => Some(FetchFailure::RateLimited),
            Self::Answered | Self::Ourselves | Self::Crowded { .. } | Self::Cancelled => None,
        }
    }
}

/// Do this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HuntAction {
    /// Say what this family lacks now. Answered by `Looked`, always.
    Look {
        family: FamilyId,
    },
    /// Fetch this from there; includes leave for one request. Answered by `Ended`, always.
    Fetch {
        job: Job,
        family: FamilyId,
        url: CloneUrl,
        wants: BTreeSet<Oid>,
        bytes_max: u64,
    },
    /// A job may send one more request.
    MayRequest {
        job: Job,
    },
    /// End this job; `Ended` follows all the same.
    Cancel {
        job: Job,
    },
    /// The answer to `WantsCheck`: now, or not before then.
    Checks {
        ticket: u64,
        not_before: Option<Time>,
    },
    Tell(HuntNews),
}

/// For operators; the shell chooses words and level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HuntNews {
    /// One attempt begins.
    Attempt { family: FamilyId, wants: usize, sources: usize },
    /// Nothing is missing any more, after so long.
    Complete { family: FamilyId, missing_for: Duration },
    /// Not this time.
    Incomplete { family: FamilyId, wants: usize, attempts: u32, next: Time },
    /// A domain asked for less.
    SlowedDown { domain: Domain, until: Time },
    /// The queue is full; this family has to wait for its next event.
    TooMany { family: FamilyId },
    /// A family entered the queue; it is looked at for the first time after `delay`.
    Queued { family: FamilyId, delay: Duration },
    /// A fetch brought nothing because of what the server is or said.
    FetchFailed { url: CloneUrl, failure: FetchFailure, why: String },
}

/// A family in the queue, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HuntView {
    pub family: FamilyId,
    pub attempts: u32,
    pub next: Option<Time>,
    pub running: Vec<CloneUrl>,
    /// Domains whose turn it waits for.
    pub waits_for: Vec<Domain>,
    /// As much is fetched as may be at a time, and its owner's turn has not come.
    pub waits_for_room: bool,
    pub wants: usize,
    pub held: bool,
    /// What each source last said, for people.
    pub sources: Vec<SourceView>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceView {
    pub url: CloneUrl,
    pub asked: Option<Time>,
    pub said: String,
    pub found: usize,
    pub absent: usize,
}
