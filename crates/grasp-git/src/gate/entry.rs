//! The few bytes in front of an object in a pack, and the two numbers in front of a delta. Bounded:
//! a number that needs more than 63 bits ends the reading.

const BASE_ID_LEN: u8 = 20;
const SHIFT_MAX: u32 = 56;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    /// Tree, blob or tag.
    Other,
    /// A delta on the entry this many bytes before it.
    DeltaBack(u64),
    /// A delta on an object named by id.
    DeltaNamed,
}

impl Kind {
    pub(super) fn is_delta(self) -> bool {
        matches!(self, Self::DeltaBack(_) | Self::DeltaNamed)
    }
}

/// An entry's header, byte by byte.
#[derive(Debug, Default)]
pub(super) struct Entry {
    code: u8,
    size: u64,
    shift: u32,
    part: Part,
}

#[derive(Debug, Default, Clone, Copy)]
enum Part {
    #[default]
    First,
    Size,
    Distance(Option<u64>),
    BaseId(u8),
    Complete(u64),
}

impl Entry {
    /// True once the header is complete.
    pub(super) fn feed(&mut self, byte: u8) -> Result<bool, &'static str> {
        let more = byte & 0x80 != 0;
        match self.part {
            Part::First => {
                self.code = byte >> 4 & 7;
                self.size = u64::from(byte & 15);
                self.shift = 4;
                self.part = if more { Part::Size } else { self.after_size() };
            }
            Part::Size => {
                if self.shift > SHIFT_MAX {
                    return Err("an object's size is out of range");
                }
                self.size |= u64::from(byte & 0x7f) << self.shift;
                self.shift += 7;
                self.part = if more { Part::Size } else { self.after_size() };
            }
            Part::Distance(so_far) => {
                let distance = farther(so_far, byte).ok_or("a delta's base is out of range")?;
                self.part =
                    if more { Part::Distance(Some(distance)) } else { Part::Complete(distance) };
            }
            Part::BaseId(left) => {
                self.part = if left > 1 { Part::BaseId(left - 1) } else { Part::Complete(0) };
            }
            Part::Complete(_) => {}
        }
        Ok(matches!(self.part, Part::Complete(_)))
    }

    fn after_size(&self) -> Part {
        match self.code {
            6 => Part::Distance(None),
            7 => Part::BaseId(BASE_ID_LEN),
            _ => Part::Complete(0),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        match (self.code, self.part) {
            (1, _) => Some(Kind::Commit),
            (2..=4, _) => Some(Kind::Other),
            (6, Part::Complete(distance)) => Some(Kind::DeltaBack(distance)),
            (7, _) => Some(Kind::DeltaNamed),
            _ => None,
        }
    }
}

/// git's offset encoding: every further byte adds one before it shifts, so no offset has two spellings.
fn farther(so_far: Option<u64>, byte: u8) -> Option<u64> {
    let low = u64::from(byte & 0x7f);
    match so_far {
        None => Some(low),
        Some(high) => high.checked_add(1)?.checked_mul(128)?.checked_add(low),
    }
}

/// A delta begins with the size of what it is made from and the size of what it makes.
#[derive(Debug, Default)]
pub(super) struct DeltaHead {
    sizes: [u64; 2],
    read: usize,
    shift: u32,
}

impl DeltaHead {
    pub(super) fn is_read(&self) -> bool {
        self.read == self.sizes.len()
    }

    /// Both sizes, as soon as they are known.
    pub(super) fn feed(&mut self, content: &[u8]) -> Result<Option<(u64, u64)>, &'static str> {
        for byte in content {
            let Some(size) = self.sizes.get_mut(self.read) else { break };
            if self.shift > SHIFT_MAX {
                return Err("a delta's size is out of range");
            }
            *size |= u64::from(byte & 0x7f) << self.shift;
            self.shift += 7;
            if byte & 0x80 == 0 {
                self.read += 1;
                self.shift = 0;
            }
        }
        let [base, result] = self.sizes;
        Ok(self.is_read().then_some((base, result)))
    }
}
