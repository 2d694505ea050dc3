//! The conversation of one fetch: every request with leave, every byte counted. It knows HTTP, and
//! what git puts into it; what is asked, and why, is decided in `course.rs`.

use super::Desk;
use super::words::{Heard, Speaks};
use crate::outbound::{Ask, CallError, Caller, Connection, Response, Rule};
use bytes::Bytes;
use grasp_core::{CloneUrl, Oid};
use grasp_engine::hunt::Outcome;
use grasp_git::fetch::{
    ADVERT_TYPE, AdvertReader, Answer, INFO_REFS, REQUEST_TYPE, RESULT_TYPE, RefsReader, Refusal,
    UPLOAD_PACK, commits_v2, is_type, ls_refs_v2, request_v0, request_v2, wants_slowdown,
};
use hyper::StatusCode;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Why a fetch goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    Call(CallError),
    /// Without the host's name.
    Failed(String),
    /// There is no such repository, or it is not for us. Without the host's name.
    Lacks(String),
    SlowDown,
    TooLarge,
    Cancelled,
}

impl From<CallError> for Stop {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl Stop {
    pub(super) fn outcome(self, url: &CloneUrl) -> Outcome {
        match self {
            Self::Call(CallError::Forbidden(why)) => Outcome::Forbidden(why),
            Self::Call(CallError::Ourselves) => Outcome::Ourselves,
            Self::Call(CallError::Crowded { until }) => Outcome::Crowded { until },
            Self::Call(CallError::SlowDown { retry_after }) => Outcome::SlowDown { retry_after },
            Self::Call(CallError::Stale(why) | CallError::Failed(why)) => Outcome::Failed(why),
            Self::Failed(why) => Outcome::Failed(named(url, &why)),
            Self::Lacks(why) => Outcome::Lacks(named(url, &why)),
            Self::SlowDown => Outcome::SlowDown { retry_after: None },
            Self::TooLarge => Outcome::TooLarge,
            Self::Cancelled => Outcome::Cancelled,
        }
    }
}

/// Words about a server, with its name.
pub(super) fn named(url: &CloneUrl, why: &str) -> String {
    format!("{}: {why}", url.host_and_port())
}

pub(super) struct Talk<'a, D> {
    caller: &'a Caller,
    url: &'a CloneUrl,
    rule: Rule,
    pub(super) desk: &'a mut D,
    connection: Option<Connection>,
    /// The first request is permitted already.
    begun: bool,
    answered: bool,
    left_bytes: u64,
    untold_bytes: u64,
    untold_pack_bytes: u64,
    /// Of all packs.
    pack_bytes: u64,
    told: Instant,
}

/// An answer that begins like one to a fetch.
pub(super) struct Arriving {
    response: Response,
    answer: Answer,
}

/// How often somebody is told how much came.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Of an answer that is of no use, this much is looked at for a request to slow down.
const PAGE_BYTES_MAX: usize = 4 << 10;
/// Where states and proposals keep what they name.
const PREFIXES: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/nostr/"];

impl<'a, D: Desk> Talk<'a, D> {
    pub(super) fn new(
        caller: &'a Caller,
        (url, rule): (&'a CloneUrl, Rule),
        bytes_max: u64,
        desk: &'a mut D,
    ) -> Self {
        Self {
            caller,
            url,
            rule,
            desk,
            connection: None,
            begun: false,
            answered: false,
            left_bytes: bytes_max,
            untold_bytes: 0,
            untold_pack_bytes: 0,
            pack_bytes: 0,
            told: Instant::now(),
        }
    }

    pub(super) fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// What came of packs so far.
    pub(super) fn pack_bytes(&self) -> u64 {
        self.pack_bytes
    }

    /// The next request goes on a connection of its own.
    pub(super) fn hang_up(&mut self) {
        self.connection = None;
    }

    /// For what follows, no more than this; what is left of that comes back to `widen`.
    pub(super) fn narrow(&mut self, bytes_max: u64) -> u64 {
        let kept = self.left_bytes.saturating_sub(bytes_max);
        self.left_bytes -= kept;
        kept
    }

    pub(super) fn widen(&mut self, kept: u64) {
        self.left_bytes = self.left_bytes.saturating_add(kept);
    }

    /// From here on so much may come, whatever came before.
    pub(super) fn allow(&mut self, bytes_max: u64) {
        self.left_bytes = bytes_max;
    }

    /// What came in since somebody was told.
    pub(super) fn untold_bytes(&self) -> u64 {
        self.untold_bytes
    }

    pub(super) async fn advert(&mut self) -> Result<Heard, Stop> {
        let ask = Ask { path: INFO_REFS, accept: ADVERT_TYPE, v2: true, body: None };
        let mut response = match self.ask(&ask).await? {
            Ok(response) => response,
            Err(why) => return Ok(Heard::Unclear(why)),
        };
        let mut reader = AdvertReader::new();
        while let Some(piece) = self.piece(&mut response).await? {
            if let Err(refusal) = reader.push(&piece) {
                return heard(refusal);
            }
        }
        reader.finish().map_or_else(heard, |advert| Ok(Heard::Advert(advert)))
    }

    pub(super) async fn refs(&mut self) -> Result<Heard, Stop> {
        let mut response = match self.ask(&post(true, ls_refs_v2(&PREFIXES))).await? {
            Ok(response) => response,
            Err(why) => return Ok(Heard::Unclear(why)),
        };
        let mut reader = RefsReader::new();
        while let Some(piece) = self.piece(&mut response).await? {
            if let Err(refusal) = reader.push(&piece) {
                return heard(refusal);
            }
        }
        reader.finish().map_or_else(heard, |refs| Ok(Heard::Refs(refs)))
    }

    /// An error that is heard is not the end of the conversation.
    pub(super) async fn objects(
        &mut self,
        wants: &BTreeSet<Oid>,
        haves: &[Oid],
        speaks: Speaks,
    ) -> Result<Result<Arriving, Heard>, Stop> {
        let (ask, answer) = match speaks {
            Speaks::V2 => (post(true, request_v2(wants, haves)), Answer::v2()),
            Speaks::V0(caps) => (post(false, request_v0(wants, haves, &caps)), Answer::v0(&caps)),
        };
        let asked = self.ask(&ask).await?;
        Ok(asked.map(|response| Arriving { response, answer }).map_err(Heard::Unclear))
    }

    /// The commits behind `wants` and nothing that is in them.
    pub(super) async fn commits(
        &mut self,
        wants: &BTreeSet<Oid>,
        haves: &[Oid],
    ) -> Result<Result<Arriving, Heard>, Stop> {
        let asked = self.ask(&post(true, commits_v2(wants, haves))).await?;
        let arriving = |response| Arriving { response, answer: Answer::v2() };
        Ok(asked.map(arriving).map_err(Heard::Unclear))
    }

    /// The next bytes of an arriving answer; `None` at its end. They are no progress before
    /// `note_pack` says that they belong to a pack.
    pub(super) async fn next(&mut self, from: &mut Arriving) -> Result<Option<Bytes>, Stop> {
        let Some(piece) = from.response.piece_without_progress().await? else { return Ok(None) };
        self.count(piece).map(Some)
    }

    /// So many of the last bytes belong to the pack. What else a server sends meanwhile, such as words
    /// about its progress, buys it no time.
    pub(super) fn note_pack(&mut self, from: &mut Arriving, bytes: usize) {
        from.response.progress(bytes);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.untold_pack_bytes = self.untold_pack_bytes.saturating_add(bytes);
        self.pack_bytes = self.pack_bytes.saturating_add(bytes);
        self.tell();
    }

    /// One request, with leave. What cannot be of use is told in words.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Result<Result<Response, String>, Stop> {
        let response = match self.request(ask).await {
            Err(Stop::Call(CallError::Stale(_))) => self.request(ask).await?,
            asked => asked?,
        };
        let is_first = !std::mem::replace(&mut self.answered, true);
        let expected = if ask.body.is_some() { RESULT_TYPE } else { ADVERT_TYPE };
        if response.status == StatusCode::OK && is_type(response.content_type(), expected) {
            return Ok(Ok(response));
        }
        let is_closed = is_first && response.is_closed_to_us();
        let why = self.useless(response).await?;
        if is_closed { Err(Stop::Lacks(why)) } else { Ok(Err(why)) }
    }

    async fn request(&mut self, ask: &Ask) -> Result<Response, Stop> {
        if std::mem::replace(&mut self.begun, true) && !self.desk.may_request().await {
            return Err(Stop::Cancelled);
        }
        if self.connection.is_none() {
            self.connection = Some(self.caller.open(self.url, self.rule).await?);
        }
        match &mut self.connection {
            Some(connection) => Ok(connection.request(ask).await?),
            None => Err(Stop::Cancelled),
        }
    }

    /// Why an answer is no answer. Servers that want to be left alone say so in many ways.
    async fn useless(&mut self, mut response: Response) -> Result<String, Stop> {
        let mut page = Vec::new();
        while page.len() < PAGE_BYTES_MAX
            && let Ok(Some(piece)) = self.piece(&mut response).await
        {
            page.extend_from_slice(&piece);
        }
        let is_page = response.status == StatusCode::OK;
        if !is_page && wants_slowdown(&String::from_utf8_lossy(&page)) {
            return Err(Stop::SlowDown);
        }
        Ok(match is_page {
            true => Refusal::NotGit.to_string(),
            false => response.refusal(),
        })
    }

    pub(super) async fn piece(&mut self, response: &mut Response) -> Result<Option<Bytes>, Stop> {
        let Some(piece) = response.piece().await? else { return Ok(None) };
        let piece = self.count(piece)?;
        self.tell();
        Ok(Some(piece))
    }

    fn count(&mut self, piece: Bytes) -> Result<Bytes, Stop> {
        let bytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.untold_bytes = self.untold_bytes.saturating_add(bytes);
        let left = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left.unwrap_or(0);
        if left.is_some() { Ok(piece) } else { Err(Stop::TooLarge) }
    }

    fn tell(&mut self) {
        if self.told.elapsed() >= TELL_EVERY {
            let pack_bytes = std::mem::take(&mut self.untold_pack_bytes);
            self.desk.received(std::mem::take(&mut self.untold_bytes), pack_bytes);
            self.told = Instant::now();
        }
    }
}

impl Arriving {
    pub(super) fn answer(&mut self) -> &mut Answer {
        &mut self.answer
    }
}

pub(super) fn post(v2: bool, body: Vec<u8>) -> Ask {
    let body = Some((REQUEST_TYPE, Bytes::from(body)));
    Ask { path: UPLOAD_PACK, accept: RESULT_TYPE, v2, body }
}

/// What a refusal means as long as nothing of a pack came.
pub(super) fn heard(refusal: Refusal) -> Result<Heard, Stop> {
    match refusal {
        Refusal::NotOurRef(oid) => Ok(Heard::Lacks(oid)),
        Refusal::Said(words) if wants_slowdown(&words) => Err(Stop::SlowDown),
        Refusal::Said(_) => Ok(Heard::Refuses(refusal.to_string())),
        Refusal::NotGit | Refusal::Truncated | Refusal::Malformed(_) => {
            Ok(Heard::Unclear(refusal.to_string()))
        }
        _ => Err(Stop::Failed(refusal.to_string())),
    }
}
