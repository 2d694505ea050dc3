//! Watches a pack stream past and stops what would grow without bound: it reads every entry's header
//! and inflates every entry to find its end. Hashes, links and deltas are git's to judge. It never
//! allocates by a size it was told.

mod entry;
#[cfg(test)]
mod tests;

use entry::{Entry, Kind};
use flate2::{Decompress, FlushDecompress, Status};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const HEADER_LEN: usize = 12;
const CHECKSUM_LEN: u8 = 20;
/// What an entry inflates into, over and over; the content is not kept.
const SCRATCH_LEN: usize = 64 << 10;

/// What a pack may cost. `ratio`s are per byte that came over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackLimits {
    pub bytes_max: u64,
    pub objects_max: u32,
    pub object_bytes_max: u64,
    pub inflated_base_bytes: u64,
    pub inflated_ratio_max: u64,
    pub delta_base_bytes: u64,
    pub delta_ratio_max: u64,
    pub deadline: Duration,
}

impl PackLimits {
    /// For those who may move branches.
    pub fn push(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            objects_max: 5_000_000,
            object_bytes_max: 512 * MIB,
            inflated_base_bytes: 256 * MIB,
            inflated_ratio_max: 20,
            delta_base_bytes: 2_048 * MIB,
            delta_ratio_max: 200,
            deadline: Duration::from_secs(60 * 60),
        }
    }

    /// For `refs/nostr`, where anyone may bring something.
    pub fn proposal(bytes_max: u64) -> Self {
        Self {
            objects_max: 500_000,
            object_bytes_max: 32 * MIB,
            inflated_base_bytes: 64 * MIB,
            delta_base_bytes: 512 * MIB,
            deadline: Duration::from_secs(10 * 60),
            ..Self::push(bytes_max)
        }
    }

    /// What the deltas of a pack of so many bytes may make.
    pub(crate) fn delta_bytes_max(&self, bytes: u64) -> u64 {
        bound(self, bytes, Growth::Deltas)
    }

    /// A thin pack is completed with copies of objects that are here, so it grows on the disk.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.bytes_max.saturating_mul(2).saturating_add(256 * MIB)
    }
}

/// Why a pack goes no further; the sentence is for the person who pushed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackRefused {
    #[error("this is not a pack: it does not begin with PACK; push with git or another git client")]
    NotAPack,
    #[error("pack version {0} is not supported; push with a client that writes version 2")]
    Version(u32),
    #[error("the pack is larger than {max} bytes; push fewer commits at a time")]
    Bytes { max: u64 },
    #[error("the pack says it has {count} objects, more than {max}; push fewer commits at a time")]
    Objects { count: u32, max: u32 },
    #[error("an object of {bytes} bytes is larger than {max} bytes; keep large files elsewhere")]
    Object { bytes: u64, max: u64 },
    #[error("the pack inflates to more than {max} bytes, too much for its size")]
    Inflates { max: u64 },
    #[error("the pack's deltas make more than {max} bytes, too much for its size")]
    Deltas { max: u64 },
    #[error("the pack is damaged at byte {offset}: {what}; run `git fsck`, then push again")]
    Damaged { offset: u64, what: &'static str },
    #[error("the pack ended after {bytes} bytes, before it was complete; push again")]
    Truncated { bytes: u64 },
    #[error("there is something behind the end of the pack; push with another git client")]
    Trailing,
}

/// What went through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    pub objects: u32,
    pub bytes: u64,
    /// Where the commits are, as far as a glance can tell, ascending.
    pub(crate) commits: Vec<u64>,
    /// Deltas against something named by id: they may be commits too.
    pub(crate) unsure: Vec<u64>,
}

#[derive(Debug)]
enum Place {
    Header { read: [u8; HEADER_LEN], len: usize },
    Entry(Entry),
    Data { kind: Kind, declared: u64, delta: entry::DeltaHead },
    Checksum { left: u8 },
    End,
}

#[derive(Debug)]
pub struct Gate {
    limits: PackLimits,
    place: Place,
    objects_left: u32,
    /// Where the current entry began.
    began: u64,
    inflate: Decompress,
    scratch: Box<[u8]>,
    inflated_bytes: u64,
    delta_bytes: u64,
    seen: Seen,
    /// Nobody wants to know where commits are.
    forgets: bool,
}

impl Gate {
    /// For a pack that is not kept: of its objects nothing is remembered.
    pub fn forgetful(limits: &PackLimits) -> Self {
        Self { forgets: true, ..Self::new(limits) }
    }

    pub fn new(limits: &PackLimits) -> Self {
        Self {
            forgets: false,
            limits: limits.clone(),
            place: Place::Header { read: [0; HEADER_LEN], len: 0 },
            objects_left: 0,
            began: 0,
            inflate: Decompress::new(true),
            scratch: vec![0; SCRATCH_LEN].into_boxed_slice(),
            inflated_bytes: 0,
            delta_bytes: 0,
            seen: Seen::default(),
        }
    }

    /// How many objects the header promised, once it has been read.
    pub fn promised(&self) -> Option<u32> {
        (!matches!(self.place, Place::Header { .. })).then_some(self.seen.objects)
    }

    /// How many objects have begun so far.
    pub(crate) fn begun(&self) -> u32 {
        self.seen.objects.saturating_sub(self.objects_left)
    }

    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), PackRefused> {
        while !bytes.is_empty() {
            let used = self.step(bytes)?;
            self.seen.bytes += u64::try_from(used).unwrap_or(u64::MAX);
            if self.seen.bytes > self.limits.bytes_max {
                return Err(PackRefused::Bytes { max: self.limits.bytes_max });
            }
            bytes = bytes.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    pub fn finish(self) -> Result<Seen, PackRefused> {
        match self.place {
            Place::End => Ok(self.seen),
            _ => Err(PackRefused::Truncated { bytes: self.seen.bytes }),
        }
    }

    /// Takes some of the bytes and says how many; none only if something else moved on.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, PackRefused> {
        let Some(first) = bytes.first().copied() else { return Ok(0) };
        match &mut self.place {
            Place::Header { read, len } => {
                if let Some(place) = read.get_mut(*len) {
                    *place = first;
                }
                *len += 1;
                if *len == HEADER_LEN {
                    let header = *read;
                    self.read_header(header)?;
                }
                Ok(1)
            }
            Place::Entry(entry) => {
                if entry.feed(first).map_err(|what| damaged(self.began, what))? {
                    self.begin_data()?;
                }
                Ok(1)
            }
            Place::Data { .. } => self.inflate_some(bytes),
            Place::Checksum { left } => {
                *left -= 1;
                if *left == 0 {
                    self.place = Place::End;
                }
                Ok(1)
            }
            Place::End => Err(PackRefused::Trailing),
        }
    }

    fn read_header(&mut self, header: [u8; HEADER_LEN]) -> Result<(), PackRefused> {
        let [p, a, c, k, v0, v1, v2, v3, n0, n1, n2, n3] = header;
        if [p, a, c, k] != *b"PACK" {
            return Err(PackRefused::NotAPack);
        }
        let version = u32::from_be_bytes([v0, v1, v2, v3]);
        if version != 2 {
            return Err(PackRefused::Version(version));
        }
        let (count, max) = (u32::from_be_bytes([n0, n1, n2, n3]), self.limits.objects_max);
        if count > max {
            return Err(PackRefused::Objects { count, max });
        }
        self.seen.objects = count;
        self.objects_left = count;
        self.next_entry(HEADER_LEN as u64);
        Ok(())
    }

    fn next_entry(&mut self, at: u64) {
        self.began = at;
        self.place = match self.objects_left.checked_sub(1) {
            None => Place::Checksum { left: CHECKSUM_LEN },
            Some(left) => {
                self.objects_left = left;
                Place::Entry(Entry::default())
            }
        };
    }

    fn begin_data(&mut self) -> Result<(), PackRefused> {
        let Place::Entry(entry) = &self.place else { return Ok(()) };
        let (declared, kind) = (entry.size(), entry.kind());
        let kind = kind.ok_or_else(|| damaged(self.began, "an entry has an unknown type"))?;
        self.bound_object(declared)?;
        self.note(kind)?;
        self.inflate.reset(true);
        self.place = Place::Data { kind, declared, delta: entry::DeltaHead::default() };
        Ok(())
    }

    /// Remembers where commits are; a delta is of the kind of what it is made from.
    fn note(&mut self, kind: Kind) -> Result<(), PackRefused> {
        match kind {
            _ if self.forgets => {}
            Kind::Commit => self.seen.commits.push(self.began),
            Kind::DeltaBack(distance) => {
                let base = self.began.checked_sub(distance).filter(|base| *base < self.began);
                let base =
                    base.ok_or_else(|| damaged(self.began, "a delta's base is not in the pack"))?;
                if self.seen.commits.binary_search(&base).is_ok() {
                    self.seen.commits.push(self.began);
                } else if self.seen.unsure.binary_search(&base).is_ok() {
                    self.seen.unsure.push(self.began);
                }
            }
            Kind::DeltaNamed => self.seen.unsure.push(self.began),
            Kind::Other => {}
        }
        Ok(())
    }

    fn inflate_some(&mut self, bytes: &[u8]) -> Result<usize, PackRefused> {
        let (had_in, had_out) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self
            .inflate
            .decompress(bytes, &mut self.scratch, FlushDecompress::None)
            .map_err(|_| damaged(self.began, "an object does not inflate"))?;
        let used = usize::try_from(self.inflate.total_in() - had_in).unwrap_or(usize::MAX);
        let made = usize::try_from(self.inflate.total_out() - had_out).unwrap_or(usize::MAX);
        if used == 0 && made == 0 && status != Status::StreamEnd {
            return Err(damaged(self.began, "an object does not inflate"));
        }
        self.count_inflated(made, used)?;
        if status == Status::StreamEnd {
            self.end_data(used)?;
        }
        Ok(used)
    }

    fn count_inflated(&mut self, made: usize, used: usize) -> Result<(), PackRefused> {
        let bytes = self.seen.bytes.saturating_add(u64::try_from(used).unwrap_or(u64::MAX));
        self.inflated_bytes += u64::try_from(made).unwrap_or(u64::MAX);
        let max = bound(&self.limits, bytes, Growth::Inflating);
        if self.inflated_bytes > max {
            return Err(PackRefused::Inflates { max });
        }
        let Place::Data { kind, declared, delta } = &mut self.place else { return Ok(()) };
        if self.inflate.total_out() > *declared {
            return Err(damaged(self.began, "an object is longer than it says"));
        }
        if !kind.is_delta() || delta.is_read() {
            return Ok(());
        }
        let content = self.scratch.get(..made).unwrap_or_default();
        match delta.feed(content).map_err(|what| damaged(self.began, what))? {
            Some((base, result)) => self.count_delta(base, result, bytes),
            None => Ok(()),
        }
    }

    fn count_delta(&mut self, base: u64, result: u64, bytes: u64) -> Result<(), PackRefused> {
        self.bound_object(base)?;
        self.bound_object(result)?;
        self.delta_bytes = self.delta_bytes.saturating_add(result);
        let max = bound(&self.limits, bytes, Growth::Deltas);
        if self.delta_bytes > max {
            return Err(PackRefused::Deltas { max });
        }
        Ok(())
    }

    fn end_data(&mut self, used: usize) -> Result<(), PackRefused> {
        let Place::Data { kind, declared, delta } = &self.place else { return Ok(()) };
        if self.inflate.total_out() != *declared {
            return Err(damaged(self.began, "an object is shorter than it says"));
        }
        if kind.is_delta() && !delta.is_read() {
            return Err(damaged(self.began, "a delta does not say what it makes"));
        }
        self.next_entry(self.seen.bytes + u64::try_from(used).unwrap_or(u64::MAX));
        Ok(())
    }

    fn bound_object(&self, bytes: u64) -> Result<(), PackRefused> {
        let max = self.limits.object_bytes_max;
        if bytes > max { Err(PackRefused::Object { bytes, max }) } else { Ok(()) }
    }
}

fn damaged(offset: u64, what: &'static str) -> PackRefused {
    PackRefused::Damaged { offset, what }
}

#[derive(Debug, Clone, Copy)]
enum Growth {
    Inflating,
    Deltas,
}

fn bound(limits: &PackLimits, bytes: u64, growth: Growth) -> u64 {
    let (ratio, base) = match growth {
        Growth::Inflating => (limits.inflated_ratio_max, limits.inflated_base_bytes),
        Growth::Deltas => (limits.delta_ratio_max, limits.delta_base_bytes),
    };
    bytes.saturating_mul(ratio).saturating_add(base)
}
