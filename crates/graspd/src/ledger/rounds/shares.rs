//! How many bytes the looks of one owner brought lately. Who had more than a share of the day's is not
//! looked after until that is less again, so nobody's mirrors can use up what all looks may receive.
//! What was received is forgotten evenly over a day.

use grasp_core::{PubKey, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const DAY_MS: u128 = 86_400_000;
/// More owners than this are remembered only while they have used a part of their share.
const FEW: usize = 1_000;
const WORTH_REMEMBERING: u64 = 16;

#[derive(Debug, Default)]
pub(super) struct Shares {
    per_owner_bytes: u64,
    used: BTreeMap<PubKey, Used>,
}

#[derive(Debug, Clone, Copy)]
struct Used {
    bytes: u64,
    at: Time,
}

impl Shares {
    pub(super) fn new(per_owner_bytes: u64) -> Self {
        Self { per_owner_bytes, ..Self::default() }
    }

    pub(super) fn pay(&mut self, owner: PubKey, bytes: u64, now: Time) {
        if bytes == 0 {
            return;
        }
        // However much came at once, nobody waits for longer than a day.
        let most = self.per_owner_bytes.saturating_mul(2);
        let used = self.used_by(&owner, now).saturating_add(bytes).min(most);
        self.used.insert(owner, Used { bytes: used, at: now });
        if self.used.len() > FEW {
            let share = self.per_owner_bytes;
            self.used.retain(|_, used| used.left_of(share, now) > share / WORTH_REMEMBERING);
        }
    }

    pub(super) fn may_go_on(&self, owner: &PubKey, now: Time) -> bool {
        self.used_by(owner, now) < self.per_owner_bytes
    }

    /// When the next owner who has to wait may go on.
    pub(super) fn next_after(&self, now: Time) -> Option<Time> {
        let share = self.per_owner_bytes;
        let waiting = self.used.values().filter(|used| used.left_of(share, now) >= share);
        waiting.map(|used| used.below(share).max(now)).min()
    }

    fn used_by(&self, owner: &PubKey, now: Time) -> u64 {
        self.used.get(owner).map_or(0, |used| used.left_of(self.per_owner_bytes, now))
    }
}

impl Used {
    /// A whole share is forgotten in a day.
    fn left_of(&self, share: u64, now: Time) -> u64 {
        let forgotten = u128::from(share) * now.since(self.at).as_millis() / DAY_MS;
        self.bytes.saturating_sub(u64::try_from(forgotten).unwrap_or(u64::MAX))
    }

    /// From when on less than a share is left.
    fn below(&self, share: u64) -> Time {
        let excess = u128::from(self.bytes.saturating_sub(share)) + 1;
        let wait_ms = (excess * DAY_MS).div_ceil(u128::from(share.max(1)));
        self.at.plus(Duration::from_millis(u64::try_from(wait_ms).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_700_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn owner(number: u16) -> PubKey {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        PubKey::from_bytes(bytes)
    }

    #[test]
    fn s35_who_had_more_than_a_share_waits_until_that_is_less_and_nobody_else_does() {
        let mut shares = Shares::new(2_400);
        shares.pay(owner(1), 2_399, NOW);
        assert!(shares.may_go_on(&owner(1), NOW));
        assert_eq!(shares.next_after(NOW), None);
        shares.pay(owner(1), 301, NOW);
        assert!(!shares.may_go_on(&owner(1), NOW));
        assert!(shares.may_go_on(&owner(2), NOW));
        let later = shares.next_after(NOW).unwrap();
        assert!(!shares.may_go_on(&owner(1), Time(later.0 - 1)));
        assert!(shares.may_go_on(&owner(1), later));
        assert_eq!((later.0 - NOW.0) / 60_000, 180, "a share in a day: 300 bytes in three hours");
        shares.pay(owner(3), u64::MAX, NOW);
        assert!(shares.may_go_on(&owner(3), NOW.plus(25 * HOUR)), "nobody waits for ever");
    }

    #[test]
    fn s35_those_who_used_little_are_forgotten_when_there_are_many() {
        let mut shares = Shares::new(16_000);
        shares.pay(owner(0), 16_000, NOW);
        (1..5_000).for_each(|number| shares.pay(owner(number), 900, NOW));
        assert!(shares.used.len() <= FEW + 1, "{}", shares.used.len());
        assert!(!shares.may_go_on(&owner(0), NOW));
    }
}
