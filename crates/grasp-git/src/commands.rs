//! What a push asks for: the list of commands before its pack, read as it arrives. Knows the grammar
//! and no permissions. Exactly git's plain form passes; whatever else git would understand is refused,
//! so no command can reach a ref without having been seen here.

use crate::pktline::{self, BadPacket, LENGTH_LEN, Packet};
use grasp_core::push::{Command, Target};
use grasp_core::{Oid, id};
use std::collections::BTreeSet;

/// The longest ref name read at all, in bytes. Names that may be pushed are far shorter; others are
/// only read to be named in the refusal.
const NAME_BYTES_MAX: usize = 4_096;
const OID_HEX_LEN: usize = 40;
/// A list of nothing but proposals, which anybody may send.
const PROPOSALS_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The whole list, packet lengths included.
    pub bytes_max: usize,
    pub commands_max: usize,
    /// How many of the commands may aim below `refs/nostr/`.
    pub proposals_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { bytes_max: 4 * 1024 * 1024, commands_max: 50_000, proposals_max: 8 }
    }
}

/// A whole command list. No commands at all is a client probing whether it may push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushHead {
    pub commands: Vec<Command>,
    pub wants: PushCaps,
}

/// How the client wishes to be answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushCaps {
    pub report_status: bool,
    pub report_status_v2: bool,
    pub side_band_64k: bool,
    pub atomic: bool,
    pub quiet: bool,
}

/// Why a command list was refused; the sentence is shown to whoever pushed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPush {
    #[error(transparent)]
    Packet(#[from] BadPacket),
    #[error("the command list contains a separator packet, which pushes do not have")]
    Separator,
    #[error(
        "pushes from a shallow clone are not taken; run `git fetch --unshallow` and push again"
    )]
    Shallow,
    #[error("signed pushes are not taken; push again with --no-signed")]
    Certificate,
    #[error("push options are not taken; push again without -o")]
    PushOptions,
    #[error("only SHA-1 repositories are hosted here; this push uses another object format")]
    ObjectFormat,
    #[error(
        "command {number} is not `<old id> <new id> <ref>` with two ids of 40 lower-case hex digits"
    )]
    Line { number: usize },
    #[error("command {number} carries a NUL; only the first may, once, before its capabilities")]
    Nul { number: usize },
    #[error(
        "command {number} names a ref with spaces, control characters or bytes that are not \
         UTF-8; rename it"
    )]
    Name { number: usize },
    #[error("command {number} names a ref longer than {NAME_BYTES_MAX} bytes; rename it")]
    LongName { number: usize },
    #[error("{name} is named twice in one push")]
    Duplicate { name: Box<str> },
    #[error("more than {max} refs in one push; push them in several parts")]
    ManyCommands { max: usize },
    #[error("more than {max} refs below refs/nostr/ in one push; push them in several parts")]
    ManyProposals { max: usize },
    #[error("the command list is longer than {max} bytes; push fewer refs at a time")]
    Long { max: usize },
    #[error("the push ended before its command list did; try again")]
    Truncated,
    #[error("the command list is already complete")]
    Complete,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The list goes on. If the body ends here, that is `BadPush::Truncated`.
    More,
    /// `rest` bytes at the end of what was just fed are no longer the list: the pack begins there.
    Done { head: PushHead, rest: usize },
}

/// Reads a command list from pieces of any size; the pieces never change the result.
#[derive(Debug)]
pub struct HeadReader {
    limits: HeadLimits,
    head: PushHead,
    names: BTreeSet<Box<str>>,
    proposals: usize,
    /// Bytes of the packets read so far.
    consumed: usize,
    /// The beginning of a packet that is not all here.
    partial: Vec<u8>,
    over: Option<BadPush>,
}

impl HeadReader {
    pub fn new(limits: HeadLimits) -> Self {
        Self {
            limits,
            head: PushHead::default(),
            names: BTreeSet::new(),
            proposals: 0,
            consumed: 0,
            partial: Vec::new(),
            over: None,
        }
    }

    /// After a refusal every further call refuses for the same reason.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Step, BadPush> {
        if let Some(why) = &self.over {
            return Err(why.clone());
        }
        let step = self.read(bytes);
        self.over = match &step {
            Ok(Step::More) => None,
            Ok(Step::Done { .. }) => Some(BadPush::Complete),
            Err(why) => Some(why.clone()),
        };
        step
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Step, BadPush> {
        let mut rest = bytes;
        loop {
            let wanted = self.packet_len()?;
            let take = wanted.saturating_sub(self.partial.len()).min(rest.len());
            let (now, later) = rest.split_at(take);
            self.partial.extend_from_slice(now);
            rest = later;
            if self.partial.len() < wanted {
                return Ok(Step::More);
            }
            if self.packet_len()? > wanted {
                continue; // The digits are here now and announce a payload.
            }
            let packet = std::mem::take(&mut self.partial);
            self.consumed += packet.len();
            if self.packet(&packet)? == End::Reached {
                return Ok(Step::Done { head: std::mem::take(&mut self.head), rest: rest.len() });
            }
        }
    }

    /// How long the packet at hand is, as far as its digits are here to tell.
    fn packet_len(&self) -> Result<usize, BadPush> {
        let len = match self.partial.first_chunk() {
            Some(digits) => pktline::length(*digits)?.max(LENGTH_LEN),
            None => LENGTH_LEN,
        };
        let only_proposals = self.proposals > 0 && self.proposals == self.head.commands.len();
        let max = if only_proposals { PROPOSALS_BYTES_MAX } else { usize::MAX };
        let max = max.min(self.limits.bytes_max);
        if self.consumed + len > max { Err(BadPush::Long { max }) } else { Ok(len) }
    }

    fn packet(&mut self, packet: &[u8]) -> Result<End, BadPush> {
        match pktline::decode(packet)? {
            Some((Packet::Data(line), _)) => self.line(line).map(|()| End::NotYet),
            Some((Packet::Flush, _)) => Ok(End::Reached),
            Some((Packet::Delim | Packet::ResponseEnd, _)) => Err(BadPush::Separator),
            None => Err(BadPush::Truncated),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), BadPush> {
        let max = self.limits.commands_max;
        if self.head.commands.len() >= max {
            return Err(BadPush::ManyCommands { max });
        }
        let number = self.head.commands.len() + 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (line, caps) = match line.iter().position(|byte| *byte == 0) {
            Some(nul) => (line.get(..nul).unwrap_or_default(), line.get(nul + 1..)),
            None => (line, None),
        };
        if line.starts_with(b"shallow ") {
            return Err(BadPush::Shallow);
        }
        if line.starts_with(b"push-cert") {
            return Err(BadPush::Certificate);
        }
        if let Some(caps) = caps {
            if number > 1 || caps.contains(&0) {
                return Err(BadPush::Nul { number });
            }
            self.head.wants = PushCaps::parse(caps)?;
        }
        self.add(command(line, number)?)
    }

    fn add(&mut self, command: Command) -> Result<(), BadPush> {
        if command.name.starts_with(Target::PROPOSALS) {
            self.proposals += 1;
        }
        let max = self.limits.proposals_max;
        if self.proposals > max {
            return Err(BadPush::ManyProposals { max });
        }
        if !self.names.insert(command.name.clone()) {
            return Err(BadPush::Duplicate { name: command.name });
        }
        self.head.commands.push(command);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Reached,
    NotYet,
}

impl PushCaps {
    /// Unknown words change nothing here, as in git; those that would change the grammar are refused.
    fn parse(caps: &[u8]) -> Result<Self, BadPush> {
        let mut wants = Self::default();
        for word in caps.split(|byte| *byte == b' ') {
            match word {
                b"report-status" => wants.report_status = true,
                b"report-status-v2" => wants.report_status_v2 = true,
                b"side-band-64k" => wants.side_band_64k = true,
                b"atomic" => wants.atomic = true,
                b"quiet" => wants.quiet = true,
                b"object-format=sha1" => {}
                b"push-options" => return Err(BadPush::PushOptions),
                _ if word.starts_with(b"push-cert") => return Err(BadPush::Certificate),
                _ if word.starts_with(b"object-format") => return Err(BadPush::ObjectFormat),
                _ => {}
            }
        }
        Ok(wants)
    }

    /// Does the client read a report at all?
    pub fn wants_report(&self) -> bool {
        self.report_status || self.report_status_v2
    }
}

/// `old SP new SP ref`, and nothing that could be read in a second way.
fn command(line: &[u8], number: usize) -> Result<Command, BadPush> {
    let bad = || BadPush::Line { number };
    let (old, line) = oid(line).ok_or_else(bad)?;
    let (new, name) = oid(line).ok_or_else(bad)?;
    if name.is_empty() {
        return Err(bad());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(BadPush::LongName { number });
    }
    let hostile = |c: char| c.is_control() || c == ' ';
    let name = std::str::from_utf8(name).ok().filter(|name| !name.contains(hostile));
    let name = name.ok_or(BadPush::Name { number })?;
    Ok(Command { target: Target::parse(name), name: name.into(), old, new })
}

/// An id and the space behind it, from the front of a line. All zeroes mean "nothing".
fn oid(line: &[u8]) -> Option<(Option<Oid>, &[u8])> {
    let (hex, rest) = line.split_at_checked(OID_HEX_LEN)?;
    let bytes = id::hex_decode::<20>(std::str::from_utf8(hex).ok()?)?;
    let oid = (bytes != [0; 20]).then(|| Oid::from_bytes(bytes));
    Some((oid, rest.strip_prefix(b" ")?))
}

#[cfg(test)]
mod tests;
