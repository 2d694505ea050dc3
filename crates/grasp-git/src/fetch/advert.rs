//! The first answer of a git server: which version of the protocol it speaks and, in the first one,
//! all its refs. Version 1 is version 0 with one more line. What it offers beyond a plain fetch is
//! not looked at.

use super::packets::Packets;
use super::refs::{List, line_of, oid_and_rest};
use super::{Listed, Refusal};
use crate::advertise::AGENT;
use crate::pktline::Packet;
use grasp_core::{Oid, RefName};
use std::collections::BTreeMap;

const SERVICE_LINE: &[u8] = b"# service=git-upload-pack";
/// What stands where the first ref would, in a repository that has none.
const NO_REFS_ID: &[u8] = b"0000000000000000000000000000000000000000";
const NO_REFS: &[u8] = b" capabilities^{}";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advert {
    /// It can list refs and fetch; its refs are asked for in a request of their own.
    V2,
    V0 {
        caps: V0Caps,
        refs: Vec<Listed>,
    },
}

impl Advert {
    /// Version 0: may this object be asked for with some hope? What is behind a tip may be refused.
    pub fn offers(&self, oid: &Oid) -> bool {
        match self {
            Self::V2 => true,
            Self::V0 { caps, refs } => {
                caps.any_wants() || refs.iter().any(|it| it.oid == *oid || it.peeled == Some(*oid))
            }
        }
    }
}

/// What of a server's offers matters in version 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct V0Caps {
    pub side_band: bool,
    pub side_band_64k: bool,
    pub ofs_delta: bool,
    pub thin_pack: bool,
    pub no_progress: bool,
    pub agent: bool,
    pub allow_tip: bool,
    pub allow_reachable: bool,
    pub allow_any: bool,
}

impl V0Caps {
    /// Is the answer to `request_v0` multiplexed?
    pub fn banded(&self) -> bool {
        self.side_band || self.side_band_64k
    }

    /// It says that objects may be asked for which are not the tip of a listed ref.
    pub fn any_wants(&self) -> bool {
        self.allow_tip || self.allow_reachable || self.allow_any
    }

    pub(super) fn chosen(&self) -> String {
        let words = [
            (self.side_band_64k, "side-band-64k"),
            (self.side_band && !self.side_band_64k, "side-band"),
            (self.thin_pack, "thin-pack"),
            (self.ofs_delta, "ofs-delta"),
            (self.no_progress, "no-progress"),
            (self.agent, AGENT),
        ];
        let words = words.into_iter().filter_map(|(offered, word)| offered.then_some(word));
        words.collect::<Vec<_>>().join(" ")
    }

    fn parse(words: &[u8]) -> Result<Self, Refusal> {
        let mut caps = Self::default();
        for word in words.split(|byte| *byte == b' ') {
            match word {
                b"side-band" => caps.side_band = true,
                b"side-band-64k" => caps.side_band_64k = true,
                b"ofs-delta" => caps.ofs_delta = true,
                b"thin-pack" => caps.thin_pack = true,
                b"no-progress" => caps.no_progress = true,
                b"allow-tip-sha1-in-want" => caps.allow_tip = true,
                b"allow-reachable-sha1-in-want" => caps.allow_reachable = true,
                b"allow-any-sha1-in-want" => caps.allow_any = true,
                _ if word.starts_with(b"agent=") => caps.agent = true,
                _ => only_sha1(word)?,
            }
        }
        Ok(caps)
    }
}

fn only_sha1(word: &[u8]) -> Result<(), Refusal> {
    match word.strip_prefix(b"object-format=") {
        Some(format) if format != b"sha1" => Err(Refusal::ObjectFormat),
        _ => Ok(()),
    }
}

/// Reads the answer to `INFO_REFS` from pieces of any size.
#[derive(Debug, Default)]
pub struct AdvertReader {
    packets: Packets,
    page: Page,
    failed: Option<Refusal>,
}

impl AdvertReader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Also keeps the names of branches and tags, for `take_names`.
    pub fn naming() -> Self {
        let page = Page { list: List::naming(), ..Page::default() };
        Self { page, ..Self::default() }
    }

    /// Branches and tags by name, where the server speaks version 0.
    pub fn take_names(&mut self) -> BTreeMap<RefName, Oid> {
        self.page.list.names.take().unwrap_or_default()
    }

    /// After a refusal every further call refuses for the same reason.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        let read = self.read(bytes);
        self.failed = read.as_ref().err().cloned();
        read
    }

    /// The advertisement is complete; the rest of the body says nothing.
    pub fn is_over(&self) -> bool {
        matches!(self.page.at, At::Over(_))
    }

    /// At the end of the body.
    pub fn finish(self) -> Result<Advert, Refusal> {
        let page = self.page;
        match (self.failed, page.at) {
            (Some(why), _) => Err(why),
            (None, At::Over(Version::V0)) => {
                Ok(Advert::V0 { caps: page.caps, refs: page.list.refs })
            }
            (None, At::Over(Version::V2)) if page.lists && page.fetches => Ok(Advert::V2),
            (None, At::Over(Version::V2)) => {
                Err(Refusal::Malformed("a server that offers no refs or no objects"))
            }
            (None, At::Start) => Err(Refusal::NotGit),
            (None, _) => Err(Refusal::Truncated),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.page.list.counts(bytes)?;
        let mut rest = bytes;
        while !self.is_over() {
            let Some(packet) = self.packets.next(&mut rest)? else { break };
            self.page.at = match packet {
                Packet::Data(line) => self.page.line(line_of(line)?)?,
                Packet::Flush => self.page.flush()?,
                Packet::Delim | Packet::ResponseEnd => {
                    return Err(Refusal::Malformed("a separator in the advertisement"));
                }
            };
        }
        Ok(())
    }
}

/// What was read so far.
#[derive(Debug, Default)]
struct Page {
    at: At,
    caps: V0Caps,
    list: List,
    /// Version 2: the two commands we need.
    lists: bool,
    fetches: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Start,
    /// Behind the line that names the service, before the packet that ends it.
    Service,
    /// Before the first line of the advertisement itself.
    Version,
    FirstRef,
    Refs,
    Offers,
    Over(Version),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V0,
    V2,
}

impl Page {
    fn line(&mut self, line: &[u8]) -> Result<At, Refusal> {
        match (self.at, line) {
            (At::Start, SERVICE_LINE) => Ok(At::Service),
            (At::Start | At::Version, b"version 1") => Ok(At::FirstRef),
            // Servers leave the service out before this one, or do not.
            (At::Start | At::Version, b"version 2") => Ok(At::Offers),
            (At::Start, _) => self.first_ref(line).map_err(|why| match why {
                Refusal::Malformed(_) => Refusal::NotGit,
                other => other,
            }),
            (At::Version | At::FirstRef, _) => self.first_ref(line),
            (At::Refs, _) => self.ref_line(line),
            (At::Offers, _) => self.offer(line),
            (At::Service | At::Over(_), _) => Err(Refusal::Malformed("a line out of place")),
        }
    }

    fn flush(&self) -> Result<At, Refusal> {
        match self.at {
            At::Start => Err(Refusal::NotGit),
            At::Service => Ok(At::Version),
            // Some servers have no line at all for an empty repository.
            At::Version | At::FirstRef | At::Refs => Ok(At::Over(Version::V0)),
            At::Offers => Ok(At::Over(Version::V2)),
            At::Over(_) => Ok(self.at),
        }
    }

    fn offer(&mut self, line: &[u8]) -> Result<At, Refusal> {
        let name = line.split(|byte| *byte == b'=').next();
        self.lists |= name == Some(b"ls-refs");
        self.fetches |= name == Some(b"fetch");
        only_sha1(line).map(|()| At::Offers)
    }

    /// The first line also carries what the server can do, and is there without a ref if it must.
    fn first_ref(&mut self, line: &[u8]) -> Result<At, Refusal> {
        let nul = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
        let (line, caps) = line.split_at(nul);
        self.caps = V0Caps::parse(caps.get(1..).unwrap_or_default())?;
        match line.split_at_checked(NO_REFS_ID.len()) {
            Some((NO_REFS_ID, NO_REFS)) => Ok(At::Refs),
            _ => self.ref_line(line),
        }
    }

    fn ref_line(&mut self, line: &[u8]) -> Result<At, Refusal> {
        if line.starts_with(b"shallow ") {
            return Err(Refusal::Shallow);
        }
        let (oid, name) = oid_and_rest(line)?;
        match name.strip_suffix(b"^{}") {
            Some(tag) => self.list.peels(oid, tag)?,
            None => self.list.adds(oid, name, None)?,
        }
        Ok(At::Refs)
    }
}
