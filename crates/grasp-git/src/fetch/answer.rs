//! The answer to a fetch, taken apart as it arrives: the pack's bytes are handed on where they lie,
//! all else is counted and dropped, or ends it. Shallow only if asked for, never from elsewhere. Except in the
//! oldest form, which has no end of its own, only a flush packet is an end.

use super::packets::refusal;
use super::{Refusal, V0Caps};
use crate::pktline::{self, Band, LENGTH_LEN};

/// What a server may say on the side, in bytes.
pub const PROGRESS_BYTES_MAX: usize = 1 << 20;
/// All lines before the pack; with `done` said there is hardly one.
const LINES_BYTES_MAX: usize = 1 << 20;
const PACK: [u8; LENGTH_LEN] = *b"PACK";

/// What came of a piece of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Everything was taken and the answer goes on. If the body ends here, ask `finish`.
    More,
    /// Bytes of the pack, at least one. `rest` is to be pushed next.
    Pack { bytes: &'a [u8], rest: &'a [u8] },
    /// The answer is complete; whatever follows says nothing.
    End,
}

#[derive(Debug)]
pub struct Answer {
    form: Form,
    at: At,
    /// A history cut off was asked for.
    sample: bool,
    /// Digits or a line that are not all here.
    partial: Vec<u8>,
    begun: bool,
    lines_bytes: usize,
    progress_bytes: usize,
    pack_bytes: u64,
    failed: Option<Refusal>,
}

/// What a packet means where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Version 2: the next line names a section.
    Title,
    /// Version 2: the lines of a section that tells us nothing.
    Section,
    /// Version 2: nothing but bands.
    Bands,
    /// Version 0: a line or a band, which its first byte tells.
    Mixed,
    /// Version 0: lines, then the bare pack.
    Bare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Length,
    /// Before the first byte of a packet, of which so many bytes are to come.
    First {
        left: usize,
    },
    Line {
        left: usize,
    },
    /// The words of somebody who gives up.
    Fatal {
        left: usize,
    },
    Progress {
        left: usize,
    },
    Pack {
        left: usize,
    },
    BarePack,
    Over,
}

impl Answer {
    /// To `request_v2`.
    pub fn v2() -> Self {
        Self::new(Form::Title)
    }

    /// To `sample_v2`.
    pub fn sample_v2() -> Self {
        Self { sample: true, ..Self::new(Form::Title) }
    }

    /// To `request_v0` with the same capabilities.
    pub fn v0(caps: &V0Caps) -> Self {
        Self::new(if caps.banded() { Form::Mixed } else { Form::Bare })
    }

    fn new(form: Form) -> Self {
        Self {
            form,
            at: At::Length,
            sample: false,
            partial: Vec::new(),
            begun: false,
            lines_bytes: 0,
            progress_bytes: 0,
            pack_bytes: 0,
            failed: None,
        }
    }

    /// How much of the pack was handed on.
    pub fn pack_bytes(&self) -> u64 {
        self.pack_bytes
    }

    /// Something came that is at least the beginning of an answer.
    pub fn has_begun(&self) -> bool {
        self.begun || !self.partial.is_empty()
    }

    /// Version 2: it came to the pack, or at least to where one should be.
    pub fn is_at_pack(&self) -> bool {
        self.form == Form::Bands || self.pack_bytes > 0
    }

    /// After a refusal every further call refuses for the same reason.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Refusal> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        let step = self.read(bytes);
        match &step {
            Err(why) => self.failed = Some(why.clone()),
            Ok(Step::Pack { bytes, .. }) => {
                let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                self.pack_bytes = self.pack_bytes.saturating_add(len);
            }
            Ok(Step::More | Step::End) => {}
        }
        step
    }

    /// At the end of the body: was that all of it?
    pub fn finish(&self) -> Result<(), Refusal> {
        match (&self.failed, self.at) {
            (Some(why), _) => Err(why.clone()),
            // The pack itself says where it ends, to whoever reads it.
            (None, At::Over | At::BarePack) => Ok(()),
            (None, _) => Err(Refusal::Truncated),
        }
    }

    fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Refusal> {
        let mut rest = bytes;
        loop {
            let before = rest.len();
            match self.at {
                At::Over => return Ok(Step::End),
                At::Length => {
                    let len = take(&mut rest, LENGTH_LEN - self.partial.len().min(LENGTH_LEN));
                    self.partial.extend_from_slice(len);
                    if let Some(digits) = self.partial.first_chunk().copied() {
                        self.partial.clear();
                        self.at = self.length(digits)?;
                        if self.at == At::BarePack {
                            return Ok(Step::Pack { bytes: &PACK, rest });
                        }
                        continue;
                    }
                }
                At::First { left } => {
                    if let Some((first, later)) = rest.split_first() {
                        rest = later;
                        self.at = self.first(*first, left.saturating_sub(1))?;
                        continue;
                    }
                }
                At::Line { left: 0 } => {
                    self.line()?;
                    self.partial.clear();
                    self.at = At::Length;
                    continue;
                }
                At::Fatal { left: 0 } => return Err(Refusal::said(&self.partial)),
                At::Pack { left: 0 } | At::Progress { left: 0 } => {
                    self.at = At::Length;
                    continue;
                }
                At::Line { left } => {
                    let part = take(&mut rest, left);
                    self.partial.extend_from_slice(part);
                    self.at = At::Line { left: left - part.len() };
                }
                At::Fatal { left } => {
                    let part = take(&mut rest, left);
                    self.partial.extend_from_slice(part);
                    self.at = At::Fatal { left: left - part.len() };
                }
                At::Progress { left } => {
                    let part = take(&mut rest, left);
                    self.at = At::Progress { left: left - part.len() };
                }
                At::Pack { left } => {
                    let bytes = take(&mut rest, left);
                    self.at = At::Pack { left: left - bytes.len() };
                    if !bytes.is_empty() {
                        return Ok(Step::Pack { bytes, rest });
                    }
                }
                At::BarePack => {
                    let bytes = std::mem::take(&mut rest);
                    if !bytes.is_empty() {
                        return Ok(Step::Pack { bytes, rest });
                    }
                }
            }
            if before == 0 {
                return Ok(Step::More);
            }
        }
    }

    /// Four digits, or what stands in their place.
    fn length(&mut self, digits: [u8; LENGTH_LEN]) -> Result<At, Refusal> {
        if self.form == Form::Bare && self.begun && digits == PACK {
            return Ok(At::BarePack);
        }
        let len = pktline::length(digits).map_err(|bad| refusal(bad, self.begun))?;
        self.begun = true;
        match (len, self.form) {
            (0, Form::Bands | Form::Mixed) if self.pack_bytes > 0 => Ok(At::Over),
            (0, _) => Err(Refusal::Malformed("an answer without a pack")),
            (1, Form::Section) => {
                self.form = Form::Title;
                Ok(At::Length)
            }
            (1 | 2, _) => Err(Refusal::Malformed("a separator out of place")),
            (LENGTH_LEN, _) => Err(Refusal::Malformed("an empty packet")),
            (len, _) => Ok(At::First { left: len - LENGTH_LEN }),
        }
    }

    /// The first byte of a packet, and how many are behind it.
    fn first(&mut self, byte: u8, left: usize) -> Result<At, Refusal> {
        const DATA: u8 = Band::Data as u8;
        const PROGRESS: u8 = Band::Progress as u8;
        const FATAL: u8 = Band::Fatal as u8;
        let banded = matches!(self.form, Form::Bands | Form::Mixed);
        match byte {
            DATA if banded && left > 0 => Ok(At::Pack { left }),
            // Nothing on the first band keeps a connection alive, and should not do so for ever.
            DATA | PROGRESS if banded => {
                self.progress_bytes += LENGTH_LEN + 1 + left;
                if self.progress_bytes > PROGRESS_BYTES_MAX {
                    return Err(Refusal::TooMuchProgress);
                }
                Ok(At::Progress { left })
            }
            FATAL if banded => Ok(At::Fatal { left }),
            // Some give up without a band.
            _ if self.form != Form::Bands || byte == b'E' => {
                self.lines_bytes += LENGTH_LEN + 1 + left;
                if self.lines_bytes > LINES_BYTES_MAX {
                    return Err(Refusal::Malformed("too much before the pack"));
                }
                self.partial.push(byte);
                Ok(At::Line { left })
            }
            _ => Err(Refusal::Malformed("an unknown band")),
        }
    }

    fn line(&mut self) -> Result<(), Refusal> {
        let line = self.partial.strip_suffix(b"\n").unwrap_or(&self.partial);
        if let Some(words) = line.strip_prefix(b"ERR ") {
            return Err(Refusal::said(words));
        }
        match (self.form, line) {
            (Form::Title, b"packfile") => self.form = Form::Bands,
            (Form::Title, b"acknowledgments" | b"wanted-refs") => self.form = Form::Section,
            (Form::Title, b"shallow-info") if self.sample => self.form = Form::Section,
            (Form::Title, b"shallow-info") => return Err(Refusal::Shallow),
            (Form::Title, b"packfile-uris") => return Err(Refusal::PackElsewhere),
            (Form::Section, _) | (Form::Mixed | Form::Bare, b"NAK") => {}
            (Form::Mixed | Form::Bare, _) if line.starts_with(b"ACK ") => {}
            (Form::Mixed | Form::Bare, _)
                if line.starts_with(b"shallow ") || line.starts_with(b"unshallow ") =>
            {
                return Err(Refusal::Shallow);
            }
            _ => return Err(Refusal::Malformed("an unknown line")),
        }
        Ok(())
    }
}

/// At most so many bytes off the front.
fn take<'a>(from: &mut &'a [u8], len_max: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(len_max.min(from.len()));
    *from = rest;
    taken
}
