//! The refs a server lists. Ids are what matters; of a name only its kind is kept, so that a long list
//! takes little room. A line that does not begin with an id ends the reading.

use super::Refusal;
use super::packets::Packets;
use crate::pktline::Packet;
use grasp_core::{Oid, RefName};
use std::collections::BTreeMap;

/// The longest list of refs, in bytes as they come.
pub const LIST_BYTES_MAX: usize = 16 << 20;
pub const REFS_MAX: usize = 200_000;
const OID_HEX_LEN: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    pub kind: RefKind,
    pub oid: Oid,
    /// What an annotated tag is of, as the server says.
    pub peeled: Option<Oid>,
}

/// What a server's name for a ref says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefKind {
    Branch,
    Tag,
    Other,
}

impl RefKind {
    fn of(name: &[u8]) -> Self {
        match name {
            _ if name.starts_with(b"refs/heads/") => Self::Branch,
            _ if name.starts_with(b"refs/tags/") => Self::Tag,
            _ => Self::Other,
        }
    }
}

/// Reads the answer to `ls_refs_v2` from pieces of any size.
#[derive(Debug, Default)]
pub struct RefsReader {
    packets: Packets,
    list: List,
    over: bool,
    failed: Option<Refusal>,
}

impl RefsReader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Also keeps the names of branches and tags, for `take_names`.
    pub fn naming() -> Self {
        Self { list: List::naming(), ..Self::default() }
    }

    /// Branches and tags by name; what git would not call one is left out.
    pub fn take_names(&mut self) -> BTreeMap<RefName, Oid> {
        self.list.names.take().unwrap_or_default()
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

    /// The list is complete; the rest of the body says nothing.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// At the end of the body.
    pub fn finish(self) -> Result<Vec<Listed>, Refusal> {
        match self.failed {
            Some(why) => Err(why),
            None if self.over => Ok(self.list.refs),
            None => Err(Refusal::Truncated),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.list.counts(bytes)?;
        let mut rest = bytes;
        while !self.over {
            match self.packets.next(&mut rest)? {
                None => break,
                Some(Packet::Data(line)) => listed(line_of(line)?, &mut self.list)?,
                Some(Packet::Flush) => self.over = true,
                Some(Packet::Delim | Packet::ResponseEnd) => {
                    return Err(Refusal::Malformed("a separator in the list of refs"));
                }
            }
        }
        Ok(())
    }
}

/// `<oid> <name>`, then perhaps `peeled:<oid>` and what else there may be.
fn listed(line: &[u8], list: &mut List) -> Result<(), Refusal> {
    if line.starts_with(b"unborn ") {
        return Ok(());
    }
    let (oid, rest) = oid_and_rest(line)?;
    let mut words = rest.split(|byte| *byte == b' ');
    let name = words.next().unwrap_or_default();
    let peeled = words.find_map(|word| oid_of(word.strip_prefix(b"peeled:")?));
    list.adds(oid, name, peeled)
}

/// What every list of refs is held to, whichever version it comes in.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) refs: Vec<Listed>,
    /// The name of the last of them.
    last: Vec<u8>,
    bytes: usize,
    /// Kept only where somebody asked for them.
    pub(super) names: Option<BTreeMap<RefName, Oid>>,
}

impl List {
    pub(super) fn naming() -> Self {
        Self { names: Some(BTreeMap::new()), ..Self::default() }
    }

    pub(super) fn counts(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        let max = LIST_BYTES_MAX;
        if self.bytes > max { Err(Refusal::LongList { max }) } else { Ok(()) }
    }

    pub(super) fn adds(
        &mut self,
        oid: Oid,
        name: &[u8],
        peeled: Option<Oid>,
    ) -> Result<(), Refusal> {
        let max = REFS_MAX;
        if self.refs.len() >= max {
            return Err(Refusal::ManyRefs { max });
        }
        self.refs.push(Listed { kind: RefKind::of(name), oid, peeled });
        if let Some(names) = &mut self.names
            && let Some(name) = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok())
        {
            names.insert(name, oid);
        }
        self.last.clear();
        self.last.extend_from_slice(name);
        Ok(())
    }

    /// A line of its own, behind the tag it is about.
    pub(super) fn peels(&mut self, oid: Oid, tag: &[u8]) -> Result<(), Refusal> {
        match self.refs.last_mut() {
            Some(last) if self.last == tag => last.peeled = Some(oid),
            _ => self.adds(oid, tag, None)?,
        }
        Ok(())
    }
}

/// The line without its end, if it is not the server's way to say no.
pub(super) fn line_of(line: &[u8]) -> Result<&[u8], Refusal> {
    match line.strip_prefix(b"ERR ") {
        Some(words) => Err(Refusal::said(words)),
        None => Ok(line.strip_suffix(b"\n").unwrap_or(line)),
    }
}

pub(super) fn oid_and_rest(line: &[u8]) -> Result<(Oid, &[u8]), Refusal> {
    let split = line.split_at_checked(OID_HEX_LEN);
    let found = split.and_then(|(hex, rest)| Some((oid_of(hex)?, rest.strip_prefix(b" ")?)));
    found.ok_or(Refusal::Malformed("a ref without an object id"))
}

fn oid_of(hex: &[u8]) -> Option<Oid> {
    std::str::from_utf8(hex).ok()?.parse().ok()
}
