//! Who gets a free slot, and whose transfer ends when every slot is taken. Pure: the caller gathers
//! the facts and acts on the answer.

use grasp_relay::IpKey;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A request that has waited this long may end another address's transfer.
pub(super) const WAIT_BEFORE_ENDING: Duration = Duration::from_secs(2);

/// Whose budget a request is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Payer {
    Address(IpKey),
    /// Stands for many, so only the common bound applies.
    Exempt,
}

/// A request without a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingRequest {
    pub(super) payer: Payer,
    pub(super) waited: Duration,
    /// How long ago its address got a slot; `None` if it did not since it waits.
    pub(super) served_ago: Option<Duration>,
}

/// A request that holds a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub(super) payer: Payer,
    /// What the client moved while the server waited for it; `None` if the client keeps up.
    pub(super) bytes_per_sec: Option<u64>,
    pub(super) age: Duration,
    /// False once it runs to its end in any case.
    pub(super) can_end: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SlotLimits {
    pub(super) slots_max: usize,
    pub(super) per_address_max: usize,
}

impl SlotLimits {
    /// What one address may hold while another one waits.
    pub(super) fn share_max(&self) -> usize {
        (self.slots_max / 4).max(1)
    }
}

/// Slots in use, by address.
#[derive(Debug)]
struct Holdings(HashMap<Payer, usize>);

impl Holdings {
    fn count(transfers: &[Transfer]) -> Self {
        let mut held: HashMap<Payer, usize> = HashMap::new();
        for transfer in transfers {
            *held.entry(transfer.payer).or_default() += 1;
        }
        Self(held)
    }

    /// Exempt payers are many; none of them is known to hold more than one.
    fn of(&self, payer: Payer) -> usize {
        match payer {
            Payer::Exempt => 0,
            Payer::Address(_) => self.0.get(&payer).copied().unwrap_or(0),
        }
    }
}

/// The position of the waiting request that gets the next free slot: of the address that holds the
/// fewest and got its last one the longest ago, the one that has waited longest.
pub(super) fn next_request(
    waiting: &[WaitingRequest],
    transfers: &[Transfer],
    limits: SlotLimits,
) -> Option<usize> {
    if transfers.len() >= limits.slots_max {
        return None;
    }
    let held = Holdings::count(transfers);
    let payers: HashSet<Payer> = waiting.iter().map(|it| it.payer).collect();
    let may_take = |it: &WaitingRequest| {
        let others_wait = payers.len() > 1 || (it.payer == Payer::Exempt && waiting.len() > 1);
        let max = if others_wait { limits.share_max() } else { limits.slots_max };
        held.of(it.payer) < max.min(limits.per_address_max)
    };
    let able = waiting.iter().enumerate().filter(|(_, it)| may_take(it));
    let order = |it: &WaitingRequest| {
        let served_ago = it.served_ago.unwrap_or(Duration::MAX);
        (held.of(it.payer), Reverse(served_ago), Reverse(it.waited))
    };
    able.min_by_key(|(_, it)| order(it)).map(|(at, _)| at)
}

/// The position of the transfer that ends so that a waiting request gets its slot. First come
/// transfers of addresses above their share, then those whose client is slow; of these the slowest,
/// and of equally slow ones the youngest.
pub(super) fn transfer_to_end(
    waiting: &[WaitingRequest],
    transfers: &[Transfer],
    limits: SlotLimits,
) -> Option<usize> {
    if transfers.len() < limits.slots_max {
        return None;
    }
    let held = Holdings::count(transfers);
    let share_max = limits.share_max();
    let deserves = |it: &&WaitingRequest| {
        it.waited >= WAIT_BEFORE_ENDING && held.of(it.payer) < share_max.min(limits.per_address_max)
    };
    let deserving: HashSet<Payer> = waiting.iter().filter(deserves).map(|it| it.payer).collect();
    let candidate = |transfer: &Transfer| {
        transfer.can_end
            && deserving.iter().any(|payer| is_other(*payer, transfer.payer))
            && (held.of(transfer.payer) > share_max || transfer.bytes_per_sec.is_some())
    };
    let order = |transfer: &Transfer| {
        let within_share = held.of(transfer.payer) <= share_max;
        (within_share, transfer.bytes_per_sec.unwrap_or(u64::MAX), transfer.age)
    };
    let candidates = transfers.iter().enumerate().filter(|(_, it)| candidate(it));
    candidates.min_by_key(|(_, it)| order(it)).map(|(at, _)| at)
}

/// Two exempt payers count as different addresses.
fn is_other(a: Payer, b: Payer) -> bool {
    a != b || a == Payer::Exempt
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const LIMITS: SlotLimits = SlotLimits { slots_max: 3, per_address_max: 4 };

    fn address(last: u8) -> Payer {
        Payer::Address(IpAddr::V4(Ipv4Addr::new(203, 0, 113, last)).into())
    }

    fn waiting(last: u8, secs: u64) -> WaitingRequest {
        WaitingRequest { payer: address(last), waited: Duration::from_secs(secs), served_ago: None }
    }

    fn transfer(last: u8, bytes_per_sec: Option<u64>) -> Transfer {
        let age = Duration::from_secs(20);
        Transfer { payer: address(last), bytes_per_sec, age, can_end: true }
    }

    #[test]
    fn a_share_is_a_quarter_of_the_slots_and_at_least_one() {
        let share = |slots_max| SlotLimits { slots_max, per_address_max: 9 }.share_max();
        assert_eq!([1, 3, 4, 7, 8, 40].map(share), [1, 1, 1, 1, 2, 10]);
    }

    #[test]
    fn an_address_takes_every_slot_only_while_no_other_one_waits() {
        let held = [transfer(1, None)];
        assert_eq!(next_request(&[waiting(1, 0)], &held, LIMITS), Some(0));
        let both = [waiting(1, 9), waiting(2, 0)];
        assert_eq!(next_request(&both, &held, LIMITS), Some(1));
        let wide = SlotLimits { slots_max: 8, ..LIMITS };
        assert_eq!(next_request(&both, &held, wide), Some(1), "fewest first");
        assert_eq!(next_request(&both, &[transfer(2, None)], wide), Some(0));
    }

    #[test]
    fn an_address_that_just_had_a_slot_comes_after_one_that_had_none() {
        let held = [transfer(1, Some(1)), transfer(2, Some(1))];
        let served = |secs| Some(Duration::from_secs(secs));
        let older = WaitingRequest { served_ago: served(20), ..waiting(3, 100) };
        assert_eq!(next_request(&[older, waiting(4, 3)], &held, LIMITS), Some(1));
        let other = WaitingRequest { served_ago: served(30), ..waiting(4, 3) };
        assert_eq!(next_request(&[older, other], &held, LIMITS), Some(1), "the longest ago");
        assert_eq!(next_request(&[waiting(3, 100), waiting(4, 3)], &held, LIMITS), Some(0));
    }

    #[test]
    fn the_limit_of_an_address_holds_although_no_other_one_waits() {
        let two = SlotLimits { slots_max: 9, per_address_max: 2 };
        let held = [transfer(1, None), transfer(1, None)];
        assert_eq!(next_request(&[waiting(1, 9)], &held, two), None);
        assert_eq!(next_request(&[waiting(1, 9), waiting(2, 0)], &held, two), Some(1));
    }

    #[test]
    fn no_transfer_ends_while_a_slot_is_free_or_the_wait_is_short() {
        let two = [transfer(1, Some(1)), transfer(1, Some(2))];
        assert_eq!(transfer_to_end(&[waiting(2, 9)], &two, LIMITS), None);
        let three = [transfer(1, Some(1)); 3];
        assert_eq!(transfer_to_end(&[waiting(2, 1)], &three, LIMITS), None);
        assert_eq!(transfer_to_end(&[], &three, LIMITS), None);
        assert!(transfer_to_end(&[waiting(2, 2)], &three, LIMITS).is_some());
    }

    #[test]
    fn the_slowest_transfer_ends() {
        let held = [transfer(1, Some(50)), transfer(2, Some(5)), transfer(3, Some(500))];
        assert_eq!(transfer_to_end(&[waiting(4, 2)], &held, LIMITS), Some(1));
    }

    #[test]
    fn an_address_above_its_share_pays_first_at_any_speed() {
        let held = [transfer(1, Some(1)), transfer(2, Some(9_000)), transfer(2, None)];
        assert_eq!(transfer_to_end(&[waiting(3, 2)], &held, LIMITS), Some(1));
        let fast = [transfer(1, Some(1)), transfer(2, None), transfer(2, None)];
        assert_eq!(transfer_to_end(&[waiting(3, 2)], &fast, LIMITS), Some(1));
    }

    #[test]
    fn a_client_that_keeps_up_is_not_ended_within_its_share() {
        let held = [transfer(1, None), transfer(2, None), transfer(3, None)];
        assert_eq!(transfer_to_end(&[waiting(4, 60)], &held, LIMITS), None);
    }

    #[test]
    fn an_address_ends_no_transfer_for_more_than_its_share() {
        let held = [transfer(1, Some(9_000)), transfer(2, Some(1)), transfer(3, Some(2))];
        assert_eq!(transfer_to_end(&[waiting(1, 60)], &held, LIMITS), None);
    }

    #[test]
    fn what_runs_to_its_end_in_any_case_is_not_chosen_and_the_youngest_of_equals_is() {
        let mut held = [transfer(1, Some(0)); 3];
        held[0].can_end = false;
        held[2].age = Duration::from_secs(3);
        assert_eq!(transfer_to_end(&[waiting(2, 2)], &held, LIMITS), Some(2));
    }

    #[test]
    fn exempt_payers_are_different_addresses_without_a_share() {
        let exempt = |rate| Transfer { payer: Payer::Exempt, ..transfer(0, rate) };
        let request = WaitingRequest { payer: Payer::Exempt, ..waiting(0, 2) };
        let held = [exempt(Some(7)), exempt(Some(3)), exempt(None)];
        assert_eq!(transfer_to_end(&[request], &held, LIMITS), Some(1));
        assert_eq!(next_request(&[request], &held[..2], LIMITS), Some(0));
    }
}
