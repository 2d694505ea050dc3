//! The engine's only source of chance: with the same seed and inputs the engine does the same.

use crate::relay::Around;

/// SplitMix64.
pub(crate) fn next_random(chance: &mut u64) -> u64 {
    *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *chance;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Around<'_> {
    pub(crate) fn random(&mut self) -> u64 {
        next_random(self.chance)
    }

    /// One of these; `None` if there is none.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(from.len()).ok().filter(|count| *count > 0)?;
        from.get(usize::try_from(self.random() % count).ok()?)
    }
}
