//! The questions of a fetching client in protocol version 2. Listing refs is answered here; fetching
//! objects is git's work, so of that only the beginning is read. Whatever is not known is refused.

use crate::pktline::{self, BadPacket, Packet};
use crate::refs::{Entry, RefTable};
use bytes::Bytes;

/// The longest request that may ask for refs, in bytes, and the longest head of any other.
pub const REQUEST_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Beyond this many prefixes git stops looking at them and lists everything; so do we.
const PREFIXES_MAX: usize = 65_536;
/// What is quoted back of a line nobody understood, in bytes.
const QUOTE_BYTES_MAX: usize = 100;

/// What a request of version 2 wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum V2Command {
    LsRefs(LsRefs),
    /// For `git upload-pack`, from the first byte on.
    Fetch,
    /// A lone flush: the client is done and expects no words.
    Nothing,
    /// The request does not end here. If the body does, it is broken.
    Incomplete,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LsRefs {
    peel: bool,
    symrefs: bool,
    /// Sorted once the request is complete, and no element begins with another.
    prefixes: Vec<Box<[u8]>>,
    prefixes_seen: usize,
}

/// Why a request was refused; the sentence is shown to whoever fetches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error(transparent)]
    Packet(#[from] BadPacket),
    #[error("the request names no command")]
    NoCommand,
    #[error("the request names two commands")]
    TwoCommands,
    #[error("`{0}` is not a command of this server")]
    Command(String),
    #[error("`{0}` is not understood here")]
    Line(String),
    #[error("only SHA-1 repositories are hosted here")]
    ObjectFormat,
    #[error("the request has a separator where none may be")]
    Separator,
    #[error("the request is longer than {REQUEST_BYTES_MAX} bytes; ask for fewer refs")]
    Long,
}

/// Reads a request from a buffer that grows; what was read once is not read again.
#[derive(Debug, Default)]
pub struct V2Reader {
    at: usize,
    command: Option<Known>,
    in_arguments: bool,
    ls_refs: LsRefs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    LsRefs,
    Fetch,
}

/// For a request that is all there.
pub fn v2_command(request: &[u8]) -> Result<V2Command, BadRequest> {
    V2Reader::default().read(request)
}

impl V2Reader {
    /// `buffered` is everything received so far, from the first byte of the request.
    pub fn read(&mut self, buffered: &[u8]) -> Result<V2Command, BadRequest> {
        while let Some(rest) = buffered.get(self.at..) {
            let Some((packet, len)) = pktline::decode(rest)? else { break };
            self.at += len;
            if self.at > REQUEST_BYTES_MAX {
                return Err(BadRequest::Long);
            }
            if let Some(command) = self.packet(packet)? {
                return Ok(command);
            }
        }
        if buffered.len() > REQUEST_BYTES_MAX {
            Err(BadRequest::Long)
        } else {
            Ok(V2Command::Incomplete)
        }
    }

    fn packet(&mut self, packet: Packet<'_>) -> Result<Option<V2Command>, BadRequest> {
        match packet {
            Packet::Data(line) => {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let read =
                    if self.in_arguments { self.ls_refs.argument(line) } else { self.key(line) };
                read.map(|()| None)
            }
            Packet::Delim if !self.in_arguments => {
                self.in_arguments = true;
                match self.command.ok_or(BadRequest::NoCommand)? {
                    Known::Fetch => Ok(Some(V2Command::Fetch)),
                    Known::LsRefs => Ok(None),
                }
            }
            Packet::Flush => self.end().map(Some),
            Packet::Delim | Packet::ResponseEnd => Err(BadRequest::Separator),
        }
    }

    fn key(&mut self, line: &[u8]) -> Result<(), BadRequest> {
        let known = match line {
            b"command=ls-refs" => Known::LsRefs,
            b"command=fetch" => Known::Fetch,
            b"object-format=sha1" | b"server-option" => return Ok(()),
            _ => return tolerated(line),
        };
        match self.command.replace(known) {
            Some(_) => Err(BadRequest::TwoCommands),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> Result<V2Command, BadRequest> {
        match self.command {
            Some(Known::Fetch) => Ok(V2Command::Fetch),
            Some(Known::LsRefs) => {
                let mut ls_refs = std::mem::take(&mut self.ls_refs);
                ls_refs.settle();
                Ok(V2Command::LsRefs(ls_refs))
            }
            None if self.at == pktline::LENGTH_LEN => Ok(V2Command::Nothing),
            None => Err(BadRequest::NoCommand),
        }
    }
}

/// Words about the client itself change no answer.
fn tolerated(line: &[u8]) -> Result<(), BadRequest> {
    let about = ["agent=", "server-option=", "session-id="];
    if about.iter().any(|key| line.starts_with(key.as_bytes())) {
        return Ok(());
    }
    if line.starts_with(b"object-format=") {
        return Err(BadRequest::ObjectFormat);
    }
    match line.strip_prefix(b"command=") {
        Some(name) => Err(BadRequest::Command(quoted(name))),
        None => Err(BadRequest::Line(quoted(line))),
    }
}

fn quoted(line: &[u8]) -> String {
    let short = line.get(..QUOTE_BYTES_MAX).unwrap_or(line);
    let text = String::from_utf8_lossy(short);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl LsRefs {
    fn argument(&mut self, line: &[u8]) -> Result<(), BadRequest> {
        match line {
            b"peel" => self.peel = true,
            b"symrefs" => self.symrefs = true,
            // Never advertised, so a client that asks anyway gets what it gets without asking.
            b"unborn" => {}
            _ => {
                let prefix = line.strip_prefix(b"ref-prefix ");
                self.prefix(prefix.ok_or_else(|| BadRequest::Line(quoted(line)))?);
            }
        }
        Ok(())
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.prefixes_seen += 1;
        if self.prefixes_seen < PREFIXES_MAX {
            self.prefixes.push(prefix.into());
        } else {
            self.prefixes = Vec::new();
        }
    }

    /// A prefix says nothing new beside a shorter one it begins with.
    fn settle(&mut self) {
        self.prefixes.sort_unstable();
        self.prefixes.dedup_by(|longer, shorter| longer.starts_with(shorter));
    }

    /// Only the last prefix not behind the name can be its beginning: between the two, in order,
    /// lie only names that begin with that prefix as well.
    fn covers(&self, name: &str) -> bool {
        let behind = self.prefixes.partition_point(|prefix| **prefix <= *name.as_bytes());
        let candidate = behind.checked_sub(1).and_then(|at| self.prefixes.get(at));
        self.prefixes.is_empty()
            || candidate.is_some_and(|prefix| name.as_bytes().starts_with(prefix))
    }
}

pub fn ls_refs(request: &LsRefs, refs: &RefTable) -> Bytes {
    let mut out = Vec::new();
    if let Some((target, entry)) = refs.head_entry().filter(|_| request.covers("HEAD")) {
        let symref = format!(" symref-target:{target}");
        put_ref(&mut out, request, "HEAD", if request.symrefs { &symref } else { "" }, entry);
    }
    for (name, entry) in refs.listed().filter(|(name, _)| request.covers(name)) {
        put_ref(&mut out, request, &name, "", entry);
    }
    pktline::flush(&mut out);
    out.into()
}

fn put_ref(out: &mut Vec<u8>, request: &LsRefs, name: &str, symref: &str, entry: &Entry) {
    let peeled = entry.peeled.filter(|_| request.peel).map(|oid| format!(" peeled:{oid}"));
    let peeled = peeled.unwrap_or_default();
    pktline::text(out, &format!("{} {name}{symref}{peeled}", entry.oid));
}

/// For a whole request of any version that names nothing the client has and asks for no more talk:
/// the request without words about the client itself, which change no answer. `None` for any other.
/// Two requests with the same result have the same answer, so all other bytes stay as they are.
pub fn request_without_haves(request: &[u8]) -> Option<Bytes> {
    let (mut plain, mut rest) = (Vec::new(), request);
    let (mut is_first, mut is_v2_head, mut is_done) = (true, false, false);
    while !rest.is_empty() {
        let (packet, len) = pktline::decode(rest).ok()??;
        rest = rest.get(len..)?;
        match packet {
            Packet::Flush => plain.extend_from_slice(b"0000"),
            Packet::Delim => {
                plain.extend_from_slice(b"0001");
                is_v2_head = false;
            }
            Packet::ResponseEnd => return None,
            Packet::Data(line) if line.starts_with(b"have ") => return None,
            Packet::Data(line) if is_first => {
                is_v2_head = line.starts_with(b"command=");
                pktline::data(&mut plain, &without_client_words(line));
            }
            // Git accepts this line with any value. It refuses other lines that it did not offer.
            Packet::Data(line) if is_v2_head && line.starts_with(b"agent=") => {}
            Packet::Data(line) => {
                is_done = is_done || line.strip_suffix(b"\n").unwrap_or(line) == b"done";
                pktline::data(&mut plain, line);
            }
        }
        is_first = false;
    }
    is_done.then(|| plain.into())
}

/// The first line of a request before version 2 has the capabilities behind `want` and an object id.
fn without_client_words(line: &[u8]) -> Vec<u8> {
    if !line.starts_with(b"want ") {
        return line.to_vec();
    }
    let is_about_client = |word: &[u8]| {
        // Git ends a capability at any white space.
        let is_one_word = word.iter().all(u8::is_ascii_graphic);
        is_one_word && (word.starts_with(b"agent=") || word.starts_with(b"session-id="))
    };
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let words = line.split(|c| *c == b' ').enumerate();
    let kept = words.filter(|(at, word)| *at < 2 || !is_about_client(word)).map(|(_, word)| word);
    let mut line = kept.collect::<Vec<_>>().join(&b' ');
    line.push(b'\n');
    line
}

/// What `git` shows as `remote error: <message>`, in every version of the protocol.
pub fn error(message: &str) -> Bytes {
    let message: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut out = Vec::new();
    pktline::text(&mut out, &format!("ERR {message}"));
    out.into()
}

#[cfg(test)]
mod tests;
