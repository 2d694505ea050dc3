//! A pack that nobody keeps: its header, the end of every object and its checksum are looked at as it
//! streams past, and nothing is written. Whether its objects fit together is not found out.

use crate::gate::{Gate, PackLimits, PackRefused};
use gix_hash::{Hasher, Kind, ObjectId};
use std::fmt;

const CHECKSUM_LEN: usize = 20;

pub struct Glance {
    gate: Gate,
    hasher: Hasher,
    /// The last bytes so far: perhaps the checksum, which is not part of what it sums up.
    tail: Vec<u8>,
}

impl Glance {
    pub fn new(limits: &PackLimits) -> Self {
        let tail = Vec::with_capacity(2 * CHECKSUM_LEN);
        Self { gate: Gate::forgetful(limits), hasher: gix_hash::hasher(Kind::Sha1), tail }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), PackRefused> {
        self.gate.feed(bytes)?;
        let (body, tail) = bytes.split_at(bytes.len().saturating_sub(CHECKSUM_LEN));
        if !body.is_empty() {
            self.hasher.update(&self.tail);
            self.hasher.update(body);
            self.tail.clear();
        }
        self.tail.extend_from_slice(tail);
        let old = self.tail.len().saturating_sub(CHECKSUM_LEN);
        self.hasher.update(self.tail.get(..old).unwrap_or_default());
        self.tail.drain(..old);
        Ok(())
    }

    /// How many objects there were, if all of it was there.
    pub fn finish(self) -> Result<u32, PackRefused> {
        let seen = self.gate.finish()?;
        let sum = self.hasher.try_finalize().ok();
        match sum == ObjectId::try_from(self.tail.as_slice()).ok() {
            true => Ok(seen.objects),
            false => {
                Err(PackRefused::Damaged { offset: seen.bytes, what: "its checksum is wrong" })
            }
        }
    }
}

impl fmt::Debug for Glance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Glance").field("gate", &self.gate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without objects, as git writes it.
    const EMPTY: [u8; 32] = *b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

    fn glance(pack: &[u8], piece_len: usize) -> Result<u32, PackRefused> {
        let mut glance = Glance::new(&PackLimits::push(1 << 20));
        for piece in pack.chunks(piece_len) {
            glance.feed(piece)?;
        }
        glance.finish()
    }

    #[test]
    fn a_whole_pack_is_known_by_its_checksum_however_it_is_cut_into_pieces() {
        for piece_len in 1..=EMPTY.len() {
            assert_eq!(glance(&EMPTY, piece_len), Ok(0), "{piece_len}");
        }
        let mut wrong = EMPTY;
        wrong[31] ^= 1;
        assert!(matches!(glance(&wrong, 7), Err(PackRefused::Damaged { .. })));
        assert!(matches!(glance(&EMPTY[..31], 7), Err(PackRefused::Truncated { .. })));
        assert_eq!(glance(b"no pack at all", 3), Err(PackRefused::NotAPack));
    }
}
